"""`Future`: one object for plain code (`result()`) and for asyncio (`await`)."""
from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from meshbus import _checks
from meshbus.errors import ConfigurationError, Refused, Timeout

if TYPE_CHECKING:
    import asyncio

    from meshbus import _client, _proc

    Pending = _client.Pending | _proc.Pending
    Inbox = _client.Inbox | _proc.Inbox

T = TypeVar("T")
U = TypeVar("U")

_NOT_TAKEN = object()


class Future(Generic[T]):
    """A result that is under way.

    `future.result(timeout)` waits for it in plain code, `await future` in asyncio. A time-out,
    Ctrl-C or a cancelled task leaves the future as it is: it can be waited for again, and by
    others.
    """

    __slots__ = ("_pending", "_decode", "_lock", "_raw", "_is_over", "_is_cancelled", "_value",
                 "_error", "__weakref__")

    def __init__(self, pending: Pending, decode: Callable[[Any], T]) -> None:
        self._pending = pending
        self._decode = decode
        self._raw: Any = _NOT_TAKEN
        self._lock = threading.Lock()
        self._is_over = False
        self._is_cancelled = False
        self._value: T | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether the result is there, or it was cancelled."""
        return self._is_over or self._is_cancelled or self._pending.done()

    def cancel(self) -> bool:
        """Gives it up: result() raises CancelledError. What was asked may happen all the same.
        False: the result is there already."""
        if self.done():
            return self._is_cancelled
        self._is_cancelled = True
        self._pending.discard()
        return True

    def cancelled(self) -> bool:
        """Whether it was given up."""
        return self._is_cancelled

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result. Raises what went wrong, or Timeout."""
        if not self._is_over and not self._pending.wait(_checks.limit(timeout)):
            raise Timeout(f"the result is not there after {timeout} s")
        return self._finish()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the result; the exception that result() raises, or None."""
        if not self._is_over and not self._pending.wait(_checks.limit(timeout)):
            raise Timeout(f"the result is not there after {timeout} s")
        try:
            self._finish()
        except Exception as error:
            return error
        return None

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done():
            yield from _waker(self._pending).wait(self._pending).__await__()
        return self._finish()

    def _finish(self) -> T:
        if self._is_cancelled:
            raise CancelledError()
        with self._lock:
            if not self._is_over:
                try:
                    # Kept: Ctrl-C may come while it is decoded.
                    if self._raw is _NOT_TAKEN:
                        self._raw = self._pending.take()
                    self._value = self._decode(self._raw)
                except Exception as error:
                    self._error = error
                self._raw = _NOT_TAKEN
                self._is_over = True
        if self._error is not None:
            # A traceback grows with each raise: begin with what it was.
            raise self._error.with_traceback(None)
        return self._value  # type: ignore[return-value]

    def _then(self, more: Callable[[T], U]) -> Future[U]:
        """The same result, looked at through `more`."""
        decode = self._decode
        return Future(self._pending, lambda raw: more(decode(raw)))

    def __repr__(self) -> str:
        if self._is_cancelled:
            state = "cancelled"
        elif not self._is_over:
            state = "done" if self.done() else "pending"
        else:
            state = repr(self._value) if self._error is None else repr(self._error)
        return f"<Future {state}>"


class Flag:
    """For the package: something that happens once, for any number of Futures. One that is given up
    takes nothing from the others."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_set = False
        self._waiting: weakref.WeakSet[_client.Pending] = weakref.WeakSet()

    def fill(self) -> None:
        """It has happened."""
        with self._lock:
            self._is_set = True
            waiting = list(self._waiting)
        for pending in waiting:
            pending.fill()

    def pending(self) -> _client.Pending:
        """For a Future of one's own."""
        from meshbus import _client
        check_process(self._process)
        pending = _client.Pending()
        with self._lock:
            self._waiting.add(pending)
            is_set = self._is_set
        if is_set:
            pending.fill()
        return pending

    def wait(self, seconds: float | None) -> bool:
        """Whether it has happened by then."""
        return self._is_set or self.pending().wait(seconds)


def wait(futures: Iterable[Future[Any]], timeout: float | None = None, *,
         first: bool = False) -> tuple[set[Future[Any]], set[Future[Any]]]:
    """Waits until all futures are done, or one of them (`first=True`), or the time is over.
    (those that are done, the others)"""
    open_ones = set(futures)
    done: set[Future[Any]] = set()
    try:
        for future in as_completed(open_ones, timeout):
            done.add(future)
            if first:
                break
    except Timeout:
        pass
    done |= {future for future in open_ones if future.done()}
    return done, open_ones - done


def as_completed(futures: Iterable[Future[T]],
                 timeout: float | None = None) -> Iterator[Future[T]]:
    """The futures, each as soon as it is done. Raises Timeout when the time is over before all
    are."""
    waiting = dict(enumerate(dict.fromkeys(futures)))
    if not waiting:
        return
    if len({type(future._pending) for future in waiting.values()}) > 1:
        raise ConfigurationError("futures of a launcher and of a rank are not waited for together: "
                                 "wait for each kind by itself")
    inbox: Any = waiting[0]._pending.inbox()  # of their kind
    for token, future in waiting.items():
        future._pending.notify(inbox, token)
    seconds = _checks.limit(timeout)
    end = None if seconds is None else time.monotonic() + seconds
    while waiting:
        left = None if end is None else max(0.0, end - time.monotonic())
        item = inbox.get(left)
        if item is None:
            raise Timeout(f"{len(waiting)} futures are not done after {timeout} s")
        yield waiting.pop(item)


class _Waker:
    """Completions of C++ reach an event loop by one descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inbox: Inbox) -> None:
        self._inbox = inbox
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._last = 0
        loop.add_reader(self._inbox.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        for token in self._inbox.drain():
            future = self._waiting.pop(token, None)
            if future is not None and not future.done():
                future.set_result(None)

    async def wait(self, pending: Any) -> None:
        import asyncio
        self._last += 1
        token = self._last
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        pending.notify(self._inbox, token)
        try:
            await future
        finally:
            self._waiting.pop(token, None)


async def readable(inbox: Inbox) -> None:
    """For the package: waits until something is in an inbox."""
    import asyncio
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def on_readable() -> None:
        if not future.done():
            future.set_result(None)
    loop.add_reader(inbox.fileno(), on_readable)
    try:
        await future
    finally:
        loop.remove_reader(inbox.fileno())


_wakers: weakref.WeakKeyDictionary[Any, dict[type, _Waker]] = weakref.WeakKeyDictionary()


def _waker(pending: Pending) -> _Waker:
    """That of this loop. A rank that is a launcher, too, has two kinds of results."""
    import asyncio
    loop = asyncio.get_running_loop()
    of_loop = _wakers.setdefault(loop, {})
    kind = type(pending)
    if kind not in of_loop:
        of_loop[kind] = _Waker(loop, pending.inbox())
    return of_loop[kind]


def in_thread(function: Callable[[], T], drop: Callable[[T], object]) -> Future[T]:
    """For the package: what a function returns, which runs on a thread of its own. `drop` gets it
    when the Future was cancelled meanwhile."""
    from meshbus import _client
    pending = _client.Pending()
    outcome: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            value = function()
            outcome.append((value, None))
            if not pending.fill():
                drop(value)
        except BaseException as error:
            outcome.append((None, error))
            pending.fill()

    def decode(_: Any) -> T:
        value, error = outcome[0]
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]
    threading.Thread(target=run, name="meshbus-work", daemon=True).start()
    return Future(pending, decode)


def check_process(made_by: int) -> None:
    """For the package: raises Refused in a child of the process that made something."""
    if os.getpid() != made_by:
        raise Refused("this belongs to the parent process: a child of fork() cannot wait for it. "
                      "Make hosts and meshes of its own here, or start programs by subprocess "
                      "instead")


def forget_after_fork() -> None:
    """For the package: in a child of fork() no loop of the parent's runs."""
    _wakers.clear()
