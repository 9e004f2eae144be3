"""The events of a mesh: `EventStream`, for `for` and `async for`, and `EventHistory` behind it."""
from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType

from meshbus.future import check_process
from meshbus.reports import Event

_KEPT_OUTPUT = 1 << 20
"""Bytes of output that are kept for a reader that comes later."""


class EventStream:
    """The events of a mesh, from the first one on, until it has ended: for `for` and `async for`.
    Give it up at any time."""

    def __init__(self, past: Iterable[Event], close: Callable[[EventStream], None]) -> None:
        self._process = os.getpid()
        self._events = collections.deque(past)
        self._changed = threading.Condition()
        self._is_over = bool(self._events) and self._events[-1].kind == "end"
        self._close = close
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def _put(self, event: Event | None) -> None:
        with self._changed:
            if event is None or event.kind == "end":
                self._is_over = True
            if event is not None:
                self._events.append(event)
            self._changed.notify_all()
            waiters, self._waiters = self._waiters, []
            for loop, future in waiters:
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(_set, future)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        check_process(self._process)
        with self._changed:
            while not self._events and not self._is_over:
                self._changed.wait()
            if self._events:
                return self._events.popleft()
        self.close()
        raise StopIteration

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> Event:
        check_process(self._process)
        while True:
            with self._changed:
                if self._events:
                    return self._events.popleft()
                if self._is_over:
                    break
                loop = asyncio.get_running_loop()
                future: asyncio.Future[None] = loop.create_future()
                waiter = (loop, future)
                self._waiters.append(waiter)
            try:
                await future
            finally:
                with self._changed:
                    if waiter in self._waiters:
                        self._waiters.remove(waiter)
        self.close()
        raise StopAsyncIteration

    def _next(self, seconds: float) -> Event | None:
        """The next event; nothing when none comes in time, or at all."""
        check_process(self._process)
        with self._changed:
            if not self._events and not self._is_over:
                self._changed.wait(min(max(0.0, seconds), threading.TIMEOUT_MAX))
            return self._events.popleft() if self._events else None

    def _wait(self, seconds: float) -> bool:
        """Takes an event and drops it. False: none came."""
        return self._next(seconds) is not None or self._is_over

    def close(self) -> None:
        """No more events."""
        if os.getpid() != self._process:
            return
        self._close(self)
        self._put(None)

    def __repr__(self) -> str:
        return f"<EventStream{', over' if self._is_over else ''}: {len(self._events)} waiting>"

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class EventHistory:
    """For the package: the events of a mesh so far, for its streams and for those that begin later.
    """

    def __init__(self, keeps_output: bool) -> None:
        self._keeps_output = keeps_output
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._kept_output = 0
        self._streams: weakref.WeakSet[EventStream] = weakref.WeakSet()

    def add(self, event: Event) -> None:
        """It has happened."""
        with self._lock:
            self._keep(event)
            streams = list(self._streams)
        for stream in streams:
            stream._put(event)

    def _keep(self, event: Event) -> None:
        if event.kind == "output":
            if not self._keeps_output or self._streams:
                return
            self._kept_output += len(event.data)
            while self._kept_output > _KEPT_OUTPUT:
                at = next(i for i, old in enumerate(self._events) if old.kind == "output")
                self._kept_output -= len(self._events.pop(at).data)
        self._events.append(event)

    def stream(self) -> EventStream:
        """All of them from the first one on."""
        with self._lock:
            stream = EventStream(self._events, self._forget)
            self._streams.add(stream)
            return stream

    def end(self) -> None:
        """No more will come."""
        for stream in list(self._streams):
            stream._put(None)

    def _forget(self, stream: EventStream) -> None:
        with self._lock:
            self._streams.discard(stream)
