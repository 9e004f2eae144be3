"""`Pool`: an Executor over workers on many hosts."""
from __future__ import annotations

import collections
import concurrent.futures
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from meshbus import _checks, _context, _wire
from meshbus.actor import Actor, endpoint
from meshbus.errors import (ConfigurationError, Error, FateUnknown, NotExist, Refused, RemoteError,
                            Unreachable)
from meshbus.future import Future, check_process
from meshbus.hosts import HostMesh
from meshbus.spec import Restart, ignore
from meshbus.reports import RankReport
from meshbus.resize_order import ResizeOrder
from meshbus.values import Axes

P = ParamSpec("P")
T = TypeVar("T")

_LOST = (FateUnknown, Unreachable, NotExist)
"""What a call ends with when its worker has died."""
_PATIENCE = 10.0
"""Seconds after which a worker that is said to be alive is tried again."""


_EXIT_REPORT = 3.0
"""Seconds for the exit report of a worker."""


class BrokenPool(Error, concurrent.futures.BrokenExecutor):
    """A Pool without workers: none can be started."""

    code = "broken_pool"


class _Worker(Actor):
    """Runs one task at a time."""

    def __init__(self, initializer: Callable[..., object] | None,
                 initargs: tuple[Any, ...]) -> None:
        if initializer is not None:
            initializer(*initargs)

    @endpoint
    def run(self, task: bytearray) -> Any:
        """Calls what the task says."""
        _, (function, args, kwargs) = _wire.loads(task)
        return function(*args, **kwargs)


@dataclass(eq=False)
class _Task:
    body: bytearray
    future: concurrent.futures.Future[Any]
    tries: int
    has_begun: bool = False


class Pool(concurrent.futures.Executor):
    """Runs functions in worker processes on many hosts: `pool.submit(f, x)`, `pool.map(f, xs)`.

    It is a concurrent.futures.Executor: what takes one takes this. A worker that dies is replaced.
    grow(), shrink(), and the orders of others (`meshbus grow`) change the number of workers.
    Its task is run again, `retries` times; then it fails with FateUnknown or Unreachable, and the
    exit report of the worker in a note. `initializer(*initargs)` runs first in each worker.

        with meshbus.start(hosts=4) as hosts, meshbus.Pool(hosts, per_host=8, retries=2) as pool:
            for x, y in zip(xs, pool.map(f, xs)):
                print(x, y)

    The end of `with` waits for all tasks; an exception in it, Ctrl-C too, closes the pool at once.
    """

    _order = 4

    def __init__(self, hosts: HostMesh, per_host: Axes = 1, *, retries: int = 0,
                 initializer: Callable[..., object] | None = None,
                 initargs: tuple[Any, ...] = (), name: str = "pool", **workers: Any) -> None:
        """`per_host` workers on each of the hosts. `workers`: more of what HostMesh.workers()
        takes, such as zygote=["numpy"], env= or limits=."""
        if not isinstance(hosts, HostMesh):
            raise ConfigurationError(f"Pool() wants a HostMesh, such as meshbus.start(), not "
                                     f"{hosts!r}")
        if per_host == 0:
            raise ConfigurationError("per_host is 0: a pool needs a worker")
        if _checks.whole("retries", retries) < 0:
            raise ConfigurationError(f"retries is {retries}: expected a number from 0")
        if taken := {"on_failure", "on_resize_order", "restart", "setup"} & workers.keys():
            raise ConfigurationError(f"{', '.join(sorted(taken))}: a Pool decides that itself; "
                                     "initializer= is called first in each worker")
        self._process = os.getpid()
        self._retries = retries
        self._init = (initializer, initargs)
        self._changed = threading.Condition()
        self._tasks: collections.deque[_Task] = collections.deque()
        self._is_closed = False  # no new tasks
        self._problem: str | None = None  # why no worker is left
        self._calls: set[Future[Any]] = set()  # that are under way
        self._made = threading.Event()  # from here on orders for another size are carried out
        self._procs = hosts.workers(per_host, name=name, on_failure=ignore,
                                    restart=Restart(on="always", delay=0.05, max_delay=5),
                                    on_resize_order=self._carry_out,
                                    **workers)
        self._num_workers = len(self._procs)
        self._serving = self._num_workers  # threads
        self._limit = self._num_workers  # ranks from here on take no more tasks
        self._resizing = threading.Lock()
        self._threads = [self._thread(rank) for rank in range(self._num_workers)]
        _context.remember(self)
        for thread in self._threads:
            thread.start()
        self._made.set()

    def _thread(self, rank: int) -> threading.Thread:
        return threading.Thread(target=self._serve, args=(rank,), daemon=True,
                                name=f"meshbus-pool-{rank}")

    def grow(self, hosts: Iterable[str] | None = None, *, blocks: int = 1) -> None:
        """Adds workers, as ProcMesh.grow() does: those of one more host for each of these, or of
        `blocks` more on the hosts that there are. They take tasks at once."""
        check_process(self._process)
        self._grow(lambda: self._procs.grow(hosts, blocks=blocks))

    def _grow(self, grow: Callable[[], list[int]]) -> None:
        with self._resizing:
            self._check_open()
            ranks = grow()
            with self._changed:
                threads = [self._thread(rank) for rank in ranks]
                self._threads[ranks[0]:] = threads
                self._num_workers += len(ranks)
                self._serving += len(ranks)
                self._limit = len(self._procs)
            for thread in threads:
                thread.start()

    def shrink(self, blocks: int = 1) -> None:
        """Takes the last workers away, those of `blocks` hosts: each ends when the task is done
        that it has."""
        check_process(self._process)
        self._shrink(_checks.blocks(blocks), lambda: self._procs.shrink(blocks))

    def _shrink(self, blocks: int, shrink: Callable[[], object]) -> None:
        with self._resizing:
            self._check_open()
            each = len(self._procs) // self._procs._num_blocks
            left = len(self._procs) - each * blocks
            if left < each:
                raise ConfigurationError(f"blocks is {blocks}: of {self._procs._num_blocks} one "
                                         "must be left")
            with self._changed:
                self._limit = left
                self._changed.notify_all()
            for thread in self._threads[left:]:
                thread.join()
            try:
                shrink()
            finally:
                with self._changed:
                    self._limit = len(self._procs)
                    del self._threads[left:]

    def _carry_out(self, order: ResizeOrder) -> None:
        """Somebody else orders another number of workers."""
        self._made.wait()
        if order.is_growth:
            self._grow(order.carry_out)
        elif order.blocks >= self._procs._num_blocks:
            order.carry_out()  # says that no worker would be left
        else:
            self._shrink(order.blocks, order.carry_out)

    def _check_open(self) -> None:
        with self._changed:
            if self._is_closed:
                raise Refused("this pool is shut down")

    def __len__(self) -> int:
        return len(self._procs)

    def __repr__(self) -> str:
        return f"<Pool {self._procs.name}: {self._num_workers} of {len(self)} workers>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
               ) -> concurrent.futures.Future[T]:
        """Runs `fn(*args, **kwargs)` in a worker; its result, later."""
        # A bytearray arrives as one, so that arrays in it can be written to.
        body = bytearray().join(_wire.dumps((fn, args, kwargs), what="the function or an argument",
                                            most_source=_wire.LITTLE_SOURCE))
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        check_process(self._process)
        with self._changed:
            if self._problem is not None:
                raise BrokenPool(self._problem)
            if self._is_closed:
                raise Refused("this pool is shut down")
            self._tasks.append(_Task(body, future, self._retries + 1))
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more tasks. Those that are there are done first (or cancelled, those that have not
        begun); then the workers are stopped. wait=False: that happens later."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._is_closed = True
            if cancel_futures:
                # One whose worker has died has begun, and is done.
                self._tasks = collections.deque(
                    task for task in self._tasks if not task.future.cancel())
            self._changed.notify_all()
        if wait:
            for thread in self._threads:
                thread.join()
            self.close()

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Waits for the tasks; after an exception, Ctrl-C too, it does not: as close()."""
        if kind is None:
            self.shutdown()
        else:
            self.close()

    def close(self) -> None:
        """Ends the workers at once; tasks that are not done fail."""
        if os.getpid() != self._process:
            return
        _context.forget(self)
        with self._changed:
            self._is_closed = True
            tasks, self._tasks = self._tasks, collections.deque()
            calls = list(self._calls)
            self._changed.notify_all()
        for task in tasks:
            _fail(task, Refused("this pool is closed"))
        for call in calls:
            call.cancel()
        self._procs.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5)

    # --- one thread for each worker -----------------------------------------------------------
    def _serve(self, rank: int) -> None:
        life = -1
        try:
            while True:
                life, worker = self._worker(rank, life)
                while worker is not None:
                    task = self._next(rank)
                    if task is None:
                        return
                    if not self._run(rank, life, worker, task):
                        worker = None  # it has died
        except Error as error:
            self._leave(rank, str(error))
        except BaseException as error:
            self._leave(rank, f"{type(error).__name__}: {error}")
        finally:
            with self._changed:
                self._serving -= 1
                is_last = self._serving == 0 and self._is_closed
            if is_last:
                self.close()  # after shutdown(wait=False)

    def _next(self, rank: int) -> _Task | None:
        """The next task of that worker; nothing when there will be none."""
        with self._changed:
            while not self._tasks and not self._is_closed and rank < self._limit:
                self._changed.wait()
            if rank >= self._limit:
                self._num_workers -= 1
                self._changed.notify()  # what woke it up is for another one
                return None
            return self._tasks.popleft() if self._tasks else None

    def _run(self, rank: int, life: int, worker: Any, task: _Task) -> bool:
        """Runs a task. False: the worker has died."""
        if not task.has_begun and not task.future.set_running_or_notify_cancel():
            return True
        task.has_begun = True
        task.tries -= 1
        try:
            task.future.set_result(self._result(worker, task))
        except concurrent.futures.CancelledError:
            task.future.set_exception(Refused("this pool was closed before the task was done"))
        except RemoteError as error:
            task.future.set_exception(_local(error))
        except _LOST as error:
            if task.tries > 0:
                with self._changed:
                    self._tasks.appendleft(task)
                    self._changed.notify()
            else:
                error.add_note(f"its worker: {self._end_of(rank, life)}")
                task.future.set_exception(error)
            return False
        except Exception as error:
            task.future.set_exception(error)
        return True

    def _result(self, worker: Any, task: _Task) -> Any:
        call: Future[Any] = worker.run.options(timeout=None).one(task.body)
        with self._changed:
            self._calls.add(call)
        try:
            return call.result()
        finally:
            with self._changed:
                self._calls.discard(call)

    def _end_of(self, rank: int, life: int) -> RankReport:
        """The exit report of a life of a rank; what is known of it when there is none."""
        end = time.monotonic() + _EXIT_REPORT
        with self._procs.events() as events:
            while (event := events._next(end - time.monotonic())) is not None:
                if (event.kind in ("restart", "failure") and event.rank == rank
                        and event.report is not None and event.report.restarts == life):
                    return event.report
        return self._procs.reports[rank]

    def _worker(self, rank: int, former: int) -> tuple[int, Any]:
        """The worker of a rank in a life after `former`: (its life, the actor). Waits for that."""
        end = time.monotonic() + _PATIENCE
        with self._procs.events() as events:
            while True:
                report = self._procs.reports[rank]
                is_new = report.restarts > former or time.monotonic() > end
                if report.state == "ready" and is_new:
                    try:
                        made = self._procs._spawn_at(rank, _Worker, self._init)
                        return report.restarts, made
                    except Error:
                        # It has died meanwhile, or its initializer raised.
                        now = self._procs.reports[rank]
                        if now.state == "ready" and now.restarts == report.restarts:
                            raise
                if rank in self._procs._given_up or self._procs._is_closed:
                    raise Refused(f"worker {rank} has ended: {report.reason}")
                events._wait(1)

    def _leave(self, rank: int, why: str) -> None:
        """A worker is given up. Without any, tasks cannot be done."""
        with self._changed:
            self._num_workers -= 1
            if self._num_workers > 0:
                return
            self._problem = f"no worker is left; the last one: {why}"
            tasks, self._tasks = self._tasks, collections.deque()
        for task in tasks:
            _fail(task, BrokenPool(self._problem))


def _fail(task: _Task, error: Exception) -> None:
    if task.has_begun or task.future.set_running_or_notify_cancel():
        task.future.set_exception(error)


def _local(error: RemoteError) -> BaseException:
    """The exception that the function raised, with the remote traceback as its cause; else the
    RemoteError."""
    cause = error.__cause__
    if cause is None:
        return error
    error.__cause__ = None
    cause.__cause__ = error
    return cause
