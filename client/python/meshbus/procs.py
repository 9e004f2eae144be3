"""Meshes of processes as a launcher has them: `ProcMesh`."""
from __future__ import annotations

import collections
import os
import signal as signals
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from meshbus import _checks, _client, _context, reports
from meshbus._owner import ContextManager
from meshbus._views import cut
from meshbus.actor import Actor
from meshbus.actor_spawner import ActorSpawner, SpawnOptions
from meshbus.errors import (ActorFailure, ConfigurationError, Error, MeshFailure, OutOfRange,
                            Refused, Timeout)
from meshbus.event_stream import EventHistory, EventStream
from meshbus.future import Flag, Future, check_process
from meshbus.proc_view import TIMEOUT, OneProc, ProcView
from meshbus.reports import ActorReport, Binding, Event, Outcome, RankReport
from meshbus.resize_order import ResizeOrder, decide
from meshbus.values import Extent, ValueMesh

if TYPE_CHECKING:
    from meshbus.hosts import HostMesh

A = TypeVar("A", bound=Actor)
T = TypeVar("T")
P = ParamSpec("P")
Q = ParamSpec("Q")

_PIECE = 256 * 1024
"""Bytes for a stdin that go in one message."""


class ProcMesh(ContextManager):
    """Processes that this program owns. `with`: they are stopped at its end, which raises
    MeshFailure when one of them ended though nobody had asked, and nothing else was told, and
    ActorFailure when an actor failed that nobody else was told of."""

    _order = 2

    def __init__(self, core: _client.ProcMesh, inbox: _client.Inbox, hosts: HostMesh,
                 handlers: Handlers, has_restart: bool) -> None:
        self._core = core
        self._inbox = inbox
        self._hosts = hosts  # a mesh keeps its hosts
        self._handlers = handlers
        self._has_restart = has_restart
        self._given_up: set[int] = set()  # ranks that failed and begin no new life
        self._ref = core.ref
        ranks, self._binding_notes = core.bindings()
        self._bindings = [Binding(**rank) for rank in ranks]
        self._spawner = ActorSpawner(core)
        self._history = EventHistory(keeps_output=handlers.on_output is None)
        self._failure: RankReport | None = None
        self._was_raised = False
        self._last: Outcome | None = None
        self._at_close: Outcome | None = None
        self._is_closed = False
        self._failed = Flag()  # a rank failed, or all have ended
        self._ended = Flag()
        self._writing = threading.Lock()
        self._process = os.getpid()
        self._is_handed_over = False
        self._lives = 0  # restarts that were told
        self._thread = threading.Thread(target=self._dispatch, name="meshbus-events", daemon=True)
        self._thread.start()
        _context.remember(self)

    # --- events -------------------------------------------------------------------------------
    def _dispatch(self) -> None:
        try:
            while (item := self._inbox.get()) is not None:
                if item[0] == "order":
                    self._take_order(item[1])
                else:
                    self._take(reports.event(item))
        finally:
            self._failed.fill()
            self._ended.fill()
            self._history.end()

    def _take_order(self, order: _client.AskedOrder) -> None:
        handler = self._handlers.on_resize_order
        assert handler is not None
        # A growth waits for ranks, and events must go on meanwhile.
        threading.Thread(target=decide, args=(order, self, handler), name="meshbus-order",
                         daemon=True).start()

    def _take(self, event: Event) -> None:
        if event.kind == "failure":
            self._given_up.add(event.rank)
        elif event.kind == "restart":
            self._lives += 1
        self._history.add(event)
        try:
            self._handlers.tell(event)
        except BaseException:  # sys.exit() there must not end this thread without a word
            import traceback
            traceback.print_exc()
        if event.kind == "failure":
            if self._handlers.on_failure is None and self._failure is None:
                self._failure = event.report
                self._failed.fill()
        elif event.kind == "end":
            self._last = event.outcome
            self._failed.fill()
            self._ended.fill()

    def events(self) -> EventStream:
        """Everything that has happened so far and that happens from now on: changes of ranks,
        failures, restarts, output (with output="stream"), and the end."""
        check_process(self._process)
        stream = self._history.stream()
        if self._is_closed:
            stream._put(None)
        return stream

    # --- what is known ------------------------------------------------------------------------
    @property
    def name(self) -> str:
        """Its name, with its uuid."""
        return self._ref.name

    @property
    def ref(self) -> str:
        """Names the processes: a text for other programs."""
        return str(self._ref)

    @property
    def extent(self) -> Extent:
        """How the ranks are arranged."""
        return Extent.from_shape(self._ref.shape)

    @property
    def bindings(self) -> list[Binding]:
        """How the ranks were bound when they were started; empty without `bind`."""
        return list(self._bindings)

    @property
    def binding_notes(self) -> list[tuple[str, str]]:
        """What hosts say about these bindings, (host, text): what is shared, what they may not
        use."""
        return list(self._binding_notes)

    @property
    def known(self) -> Outcome:
        """What has been heard so far. Does not ask."""
        outcome = self._last or self._at_close
        if outcome is not None:
            return outcome
        return reports.outcome(self._core.known())

    @property
    def reports(self) -> list[RankReport]:
        """What has been heard of each rank. Does not ask."""
        return self.known.ranks

    def status(self, timeout: float = 10) -> list[RankReport]:
        """Asks the hosts how each rank is."""
        return self.status_async(timeout).result()

    def status_async(self, timeout: float = 10) -> Future[list[RankReport]]:
        """The same as a Future."""
        return Future(self._core.status(_checks.seconds("timeout", timeout)),
                      lambda ranks: [reports.rank_report(rank) for rank in ranks])

    def __len__(self) -> int:
        return len(self._ref)

    def __getitem__(self, rank: int) -> OneProc:
        _checks.whole("a rank", rank)
        if not -len(self) <= rank < len(self):
            raise OutOfRange(f"there is no rank {rank} among {len(self)}")
        return OneProc(self._ref, rank % len(self))

    def slice(self, **selection: int | slice) -> ProcView:
        """Some of the processes: `mesh.slice(host=0, gpu=slice(0, 4))`."""
        return ProcView(cut(self._ref, selection))

    # --- messages -----------------------------------------------------------------------------
    def call(self, port: int, body: Any, timeout: float | None = TIMEOUT
             ) -> Future[ValueMesh[bytes]]:
        """Asks a port of each rank: an answer or an error for each, later."""
        return ProcView(self._ref).call(port, body, timeout)

    def cast(self, port: int, body: Any) -> None:
        """Tells a port of each rank; nobody answers."""
        ProcView(self._ref).cast(port, body)

    # --- actors -------------------------------------------------------------------------------
    def spawn(self, cls: Callable[Q, A], *args: Q.args, **kwargs: Q.kwargs) -> A:
        """Makes an actor of the class in each rank: `counters = procs.spawn(Counter, 40)`. What
        comes back has its endpoints, for all of them. (For type checkers it is a Counter; it is an
        ActorMesh.)"""
        return self.spawn_async(cls, *args, **kwargs).result()

    def spawn_async(self, cls: Callable[Q, A], *args: Q.args, **kwargs: Q.kwargs) -> Future[A]:
        """The same as a Future: `await procs.spawn_async(Counter, 40)`."""
        return self._spawn(cls, args, kwargs)

    def options(self, *, name: str | None = None, timeout: float | None = None,
                on_failure: Callable[[ActorReport], object] | None = None,
                again: bool = False) -> SpawnOptions:
        """The same with a name for the actors, a time for their constructors, or a function that
        hears of failures: `procs.options(name="tally").spawn(Counter, 40)`. With `again` the actor
        is made again, with the same arguments, in a rank that was restarted (restart=)."""
        seconds = None if timeout is None else _checks.seconds("timeout", timeout)
        return SpawnOptions(self, name, seconds, on_failure, again)

    def _spawn(self, cls: Callable[..., A], args: Any, kwargs: Any, *, name: str | None = None,
               timeout: float | None = None,
               on_failure: Callable[[ActorReport], object] | None = None,
               again: bool = False) -> Future[A]:
        check_process(self._process)
        return self._spawner.spawn(self._ref, cls, args, kwargs, name=name, timeout=timeout,
                                   on_failure=on_failure, again=again)

    def _spawn_at(self, rank: int, cls: type[A], args: Any) -> A:
        """For the package: an actor in one rank."""
        check_process(self._process)
        only = cut(self._ref, dict(self.extent.point(rank)))
        return self._spawner.spawn(only, cls, args, {}).result()

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> ValueMesh[T]:
        """Calls a function once in each rank and waits: a value for each rank."""
        return self.run_async(function, *args, **kwargs).result().check()

    def run_async(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
                  ) -> Future[ValueMesh[T]]:
        """The same without waiting: a value or an error for each rank, later, however long it
        takes."""
        check_process(self._process)
        return self._spawner.run(self._ref, self._lives, function, args, kwargs)

    # --- ends ---------------------------------------------------------------------------------
    def wait(self, timeout: float | None = None) -> Outcome:
        """Waits until all ranks have ended. Raises MeshFailure as soon as one of them ends though
        nobody asked, unless there is an `on_failure`; and Timeout."""
        return self.wait_async().result(timeout)

    def wait_ready(self, timeout: float = 30) -> None:
        """Waits until every rank is ready, also one that begins a new life (restart=), or has
        ended for good. Raises Timeout with the ranks that are not."""
        end = time.monotonic() + _checks.seconds("timeout", timeout)
        with self.events() as events:
            while True:
                left = [report.rank for report in self.reports
                        if report.state != "ready" and not self._is_over(report)]
                if not left:
                    return
                if not events._wait(max(0.0, end - time.monotonic())):
                    raise Timeout(f"ranks {left} are not ready after {timeout} s")

    def _is_over(self, report: RankReport) -> bool:
        """Whether a rank has ended for good: no restart is, or will be, decided."""
        if not report.is_terminal or report.is_restarting:
            return False
        return not (self._has_restart and report.is_failure) or report.rank in self._given_up

    def wait_async(self) -> Future[Outcome]:
        """The same as a Future: `await mesh.wait_async()`."""
        is_told = self._handlers.on_failure is not None
        flag = self._ended if is_told else self._failed
        return Future(flag.pending(), lambda _: self._outcome())

    def _trouble(self) -> str | None:
        """Why an MPI job has failed as a whole, as far as it is known."""
        if self._last is not None:
            return self._last.trouble
        return None if self._is_closed else reports.outcome(self._core.known()).trouble

    def _outcome(self) -> Outcome:
        if self._failure is not None:
            self._was_raised = True
            raise MeshFailure(self._failure, self._trouble())
        if self._last is None:
            raise Refused("this mesh was closed before it ended")
        if self._last.trouble is not None and self._handlers.on_failure is None:
            self._was_raised = True
            rank = self._last.trouble_rank
            raise MeshFailure(self._last.ranks[rank or 0], self._last.trouble)
        return self._last

    def _raise_failure(self) -> None:
        """For the package: raises MeshFailure when a rank has failed, as the hosts know now."""
        if self._is_closed or self._handlers.on_failure is not None:
            return
        if any(report.is_failure for report in self.status()):
            self._failed.wait(5)  # until this program was told, too
        if self._failure is not None and not self._was_raised:
            self._was_raised = True
            raise MeshFailure(self._failure)

    def _settle(self, seconds: float) -> None:
        """After a stop: waits until the end was told, and failures before it."""
        if self._thread is not threading.current_thread():
            self._ended.wait(seconds)

    def stop(self, *ranks: int, reason: str = "stop", grace: float | None = None,
             timeout: float | None = None) -> Outcome:
        """Ends all ranks, or these, and waits until they have ended: SIGTERM, and after `grace`
        seconds SIGKILL. What is known then of all ranks. Raises StopError with those that are
        still there."""
        return self.stop_async(*ranks, reason=reason, grace=grace, timeout=timeout).result()

    def stop_async(self, *ranks: int, reason: str = "stop", grace: float | None = None,
                   timeout: float | None = None) -> Future[Outcome]:
        """The same as a Future."""
        self._check(ranks)
        _checks.text("reason", reason)
        return Future(self._core.stop(sorted(ranks), reason, _checks.optional("grace", grace),
                                      _checks.optional("timeout", timeout)), reports.outcome)

    def grow(self, hosts: Iterable[str] | None = None, *, blocks: int = 1) -> list[int]:
        """Adds ranks at the end of the first axis, started as the others were, and waits until
        they are ready: one block on each of these hosts (addresses, as HostMesh.hosts has them),
        or `blocks` more on the hosts that the mesh has. A block is the ranks of one host. The
        numbers of the new ranks; ranks and addresses of the others stay. Views, and actors that
        were made before, stay with the ranks that they had. Raises SpawnError (the mesh is as it
        was then), and Refused with the reason when it cannot grow."""
        return self.grow_async(hosts, blocks=blocks).result()

    def grow_async(self, hosts: Iterable[str] | None = None, *, blocks: int = 1
                   ) -> Future[list[int]]:
        """The same as a Future."""
        check_process(self._process)
        named = [_checks.text("a host", host) for host in ([] if hosts is None else hosts)]
        if hosts is not None and not named:
            raise ConfigurationError("grow(): there is no host in the list")
        pending = self._core.grow(named, _checks.blocks(blocks))
        def grown(result: Any) -> list[int]:
            self._resized(result[0])
            return list(result[1])
        return Future(pending, grown)

    def shrink(self, blocks: int = 1, *, reason: str = "the mesh is made smaller",
               grace: float | None = None, timeout: float | None = None) -> list[RankReport]:
        """Stops the ranks of the last blocks, as stop() does, and takes them out of the mesh: how
        they ended. Raises StopError with those that are still there: then they are in it, too."""
        return self.shrink_async(blocks, reason=reason, grace=grace, timeout=timeout).result()

    def shrink_async(self, blocks: int = 1, *, reason: str = "the mesh is made smaller",
                     grace: float | None = None, timeout: float | None = None
                     ) -> Future[list[RankReport]]:
        """The same as a Future."""
        check_process(self._process)
        _checks.text("reason", reason)
        pending = self._core.shrink(_checks.blocks(blocks), reason,
                                    _checks.optional("grace", grace),
                                    _checks.optional("timeout", timeout))
        def shrunk(result: Any) -> list[RankReport]:
            self._resized(result[0])
            return [reports.rank_report(rank) for rank in result[2]]
        return Future(pending, shrunk)

    @property
    def _num_blocks(self) -> int:
        """For the package: the blocks that it has."""
        return len(self._ref.hosts)

    def _resized(self, ref: _client.ProcMeshRef) -> None:
        self._ref = ref
        ranks, self._binding_notes = self._core.bindings()
        self._bindings = [Binding(**rank) for rank in ranks]
        self._lives += 1  # runners are in the ranks that there were

    def handover(self, controller: str, *, detach: bool = False, lease: float | None = None,
                 timeout: float = 10) -> None:
        """Gives the mesh to a controller, by its ProcId (`meshbus controller list` prints it). From
        then on that answers for the ranks, and carries out restart=; the end of this program ends
        nothing. detach: they live on when nobody answers for them any more. Raises Refused, and
        what hosts that did not confirm say; then this program is still the owner."""
        _checks.text("controller", controller)
        Future(self._core.handover(controller, detach, _checks.optional("lease", lease),
                                   _checks.seconds("timeout", timeout)), lambda _: None).result()
        self._is_handed_over = True

    def signal(self, number: int, *ranks: int) -> None:
        """Sends a signal to the process groups of all ranks, or of these. Returns when the
        kernels have them; a rank that is not started yet gets its signal when it is."""
        self._check(ranks)
        is_number = hasattr(number, "__index__") and not isinstance(number, bool)
        if not is_number or not 0 < number <= 64:
            raise OutOfRange(f"there is no signal {number!r}: expected 1 to 64, or one of the "
                             "module signal")
        Future(self._core.signal(sorted(ranks), int(number)), lambda _: None).result()

    def kill(self, *ranks: int, timeout: float = 10) -> None:
        """Ends all ranks, or these, by SIGKILL, and waits until they are gone. To this mesh it is
        a failure like any other: for tests. (stop() is an end that was asked for.)"""
        end = time.monotonic() + _checks.seconds("timeout", timeout)
        before = {report.rank: report for report in self.reports}
        self.signal(signals.SIGKILL, *ranks)
        left = set(ranks or range(len(self)))
        with self.events() as events:
            while True:
                left -= {report.rank for report in self.reports if report.is_terminal
                         or report.restarts > before[report.rank].restarts}
                if not left:
                    return
                if not events._wait(max(0.0, end - time.monotonic())):
                    raise Timeout(f"ranks {sorted(left)} are still there {timeout} s after SIGKILL")

    def write(self, rank: int, data: bytes | bytearray | memoryview | str) -> None:
        """Writes to the stdin of a rank of `stdin=`; returns when its pipe has taken all."""
        self._check((rank,))
        if not isinstance(data, (bytes, bytearray, memoryview, str)):
            raise ConfigurationError(f"write() takes bytes or a text, not {data!r}")
        raw = data.encode() if isinstance(data, str) else bytes(data)
        with self._writing:  # what others write does not come in between
            for begin in range(0, max(1, len(raw)), _PIECE):
                piece = raw[begin:begin + _PIECE]
                Future(self._core.write_input(rank, piece), lambda _: None).result()

    def close_stdin(self, rank: int) -> None:
        """End of file for the stdin of a rank."""
        self._check((rank,))
        Future(self._core.close_input(rank), lambda _: None).result()

    def _check(self, ranks: Iterable[int]) -> None:
        for rank in ranks:
            if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank < len(self):
                raise OutOfRange(f"there is no rank {rank!r} among {len(self)}")

    def close(self) -> None:
        """Asks for a stop and does not wait."""
        if self._is_closed:
            return
        self._is_closed = True
        _context.forget(self)
        try:
            self._at_close = self.known
        except Error:
            pass
        self._inbox.close()  # first: the end that follows from this is not told, fast or slow
        self._core.close()
        if self._thread is not threading.current_thread():
            self._thread.join(5)

    def _end(self, has_error: bool) -> None:
        if os.getpid() != self._process:  # a child of fork() ends nothing
            return
        failures: list[ActorReport] = []
        try:
            if not self._is_closed and not self._is_handed_over:
                self.stop()
                self._settle(5)
            failures = self._spawner.failures()
        except Error:
            if not has_error:
                raise
        finally:
            self.close()
        if not has_error and self._failure is not None and not self._was_raised:
            self._was_raised = True
            raise MeshFailure(self._failure, self._trouble())
        if not has_error and failures:
            raise ActorFailure(failures[0])

    def __repr__(self) -> str:
        states = collections.Counter(report.state for report in self.reports)
        text = ", ".join(f"{count} {state}" for state, count in states.items())
        return f"<ProcMesh {self._ref.name}: {self.extent}: {text}>"

    def _repr_html_(self) -> str:
        return reports.table(self.reports, f"{self._ref.name}: {self.extent}")


@dataclass
class Handlers:
    """For the package: the functions that hear of a mesh. They run on its own thread, and
    on_resize_order on one for each order."""

    on_failure: Callable[[RankReport], object] | None = None
    on_output: Callable[[int, str], object] | None = None
    on_restart: Callable[[reports.RestartReport], object] | None = None
    on_move: Callable[[reports.MoveReport], object] | None = None
    on_resize_order: Callable[[ResizeOrder], object] | None = None

    def tell(self, event: Event) -> None:
        """Calls what is there for the event."""
        if event.kind == "failure" and self.on_failure is not None:
            assert event.report is not None
            self.on_failure(event.report)
        elif event.kind == "output" and self.on_output is not None:
            self.on_output(event.rank, event.text)
        elif event.kind == "restart" and self.on_restart is not None:
            assert event.restart is not None
            self.on_restart(event.restart)
        elif event.kind == "move" and self.on_move is not None:
            assert event.move is not None
            self.on_move(event.move)
