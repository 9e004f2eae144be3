"""In a rank: between the C++ actors and the classes of people."""
from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from meshbus import _wire
from meshbus.actor import Actor, endpoints_of

if TYPE_CHECKING:
    import asyncio

    from meshbus import _proc

Answer = Any
"""None, the parts of a body, or a function that answers a _proc.Reply later."""


class MainThread:
    """Runs functions on the main thread, while that serves."""

    jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
    is_serving = False

    @classmethod
    def serve(cls) -> None:
        """Runs what comes until stop(). Ctrl-C and signals get through."""
        cls.is_serving = True
        try:
            while (job := cls.jobs.get()) is not None:
                job()
        finally:
            cls.is_serving = False

    @classmethod
    def stop(cls) -> None:
        """Ends serve()."""
        cls.jobs.put(None)

    @classmethod
    def call(cls, function: Callable[[], Any]) -> Any:
        """Calls it there and waits."""
        if not cls.is_serving:
            raise RuntimeError('an endpoint with thread="main" needs a rank of hosts.workers(): '
                               "the main thread of this one is its own")
        done = threading.Event()
        result: list[Any] = [None, None]

        def job() -> None:
            try:
                result[0] = function()
            except BaseException as error:
                result[1] = error
            done.set()
        cls.jobs.put(job)
        done.wait()
        if result[1] is not None:
            raise result[1]
        return result[0]


class _Loop:
    """The event loop of coroutines: one thread, made when it is needed."""

    _loop: asyncio.AbstractEventLoop | None = None
    _lock = threading.Lock()

    @classmethod
    def run(cls, coroutine: Coroutine[Any, Any, Any],
            then: Callable[[asyncio.Task[Any]], None]) -> None:
        import asyncio
        with cls._lock:
            if cls._loop is None:
                cls._loop = asyncio.new_event_loop()
                threading.Thread(target=cls._loop.run_forever, name="meshbus-asyncio",
                                 daemon=True).start()
            loop = cls._loop
        loop.call_soon_threadsafe(
            lambda: loop.create_task(coroutine).add_done_callback(then))


def _raised(error: BaseException) -> _wire.Parts:
    """The answer that raises at the caller."""
    import traceback
    # The first frame is ours.
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    text = "".join(traceback.format_exception(type(error), error, trace))
    try:
        summary = f"{type(error).__name__}: {error}"
    except Exception:
        summary = type(error).__name__
    try:
        pickled: bytes | None = b"".join(_wire.dumps(error))
    except Exception:
        pickled = None
    return _wire.dumps((summary, text, pickled), _wire.RAISED)


def _answer(flags: int, value: Any, what: str) -> _wire.Parts:
    if flags != _wire.TEXT:
        return _wire.dumps(value, what=f"what {what} returned")
    if isinstance(value, bool):
        return [b"true" if value else b"false"]
    item = getattr(value, "item", None)  # a number of numpy
    plain = item() if callable(item) and getattr(value, "ndim", None) == 0 else value
    return [(repr(plain) if isinstance(plain, (int, float)) else str(plain)).encode()]


class Adapter:
    """One actor."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self._name = type(actor).__name__
        self._methods = endpoints_of(type(actor))
        self.names = list(self._methods)

    def handle(self, name: str, body: Any, is_call: bool) -> Answer:
        """One message. What it raises is the failure of the actor, or of the call."""
        method = self._methods[name]
        try:
            flags, (args, kwargs) = _wire.loads(body)
        except _wire.Foreign:
            return self._handle_bytes(method.function, bytes(body))
        except Exception as error:
            if not is_call:
                raise
            return _raised(error)
        try:
            if method.thread == "main":
                value = MainThread.call(lambda: method.function(self.actor, *args, **kwargs))
            else:
                value = method.function(self.actor, *args, **kwargs)
            if isinstance(value, Coroutine):
                return self._later(value, flags, name)
            return _answer(flags, value, f"{self._name}.{name}") if is_call else None
        except BaseException as error:
            if not is_call:
                raise
            if flags == _wire.TEXT:
                raise RuntimeError(f"{type(error).__name__}: {error}") from error
            return _raised(error)

    def _later(self, value: Coroutine[Any, Any, Any], flags: int, name: str) -> Answer:
        def start(reply: _proc.Reply) -> None:
            def done(task: asyncio.Task[Any]) -> None:
                try:
                    parts = _answer(flags, task.result(), f"{self._name}.{name}")
                except BaseException as error:
                    if flags == _wire.TEXT:
                        reply.fail(f"{type(error).__name__}: {error}")
                        return
                    parts = _raised(error)
                reply.answer(parts)
            _Loop.run(value, done)
        return start

    def _handle_bytes(self, function: Callable[..., Any], body: bytes) -> Answer:
        """From something that is not Python: bytes in, bytes or text out."""
        value = function(self.actor, body)
        if value is None or isinstance(value, (bytes, bytearray, memoryview)):
            return value
        return str(value).encode()

    def on_stop(self, reason: str) -> None:
        """The actor is stopped."""
        self.actor.on_stop(reason)


def _check_releases(head: str) -> None:
    """Raises unless this rank has what the launcher has."""
    theirs = dict(entry.rpartition(" ")[::2] for entry in head.split(","))
    ours = _wire.releases("cloudpickle" in theirs)
    for name, release in ours.items():
        if theirs.get(name) != release:
            raise RuntimeError(f"the launcher has {name} {theirs.get(name)}, this rank {release}: "
                               "start the workers with the same, by python= or env=")


def make_actor(params: bytes, rank: int, actor_id: str, peers: str) -> Adapter:
    """Makes the actor that a launcher described."""
    from meshbus.proc import this_proc
    head, _, body = params.partition(b"\n")
    _check_releases(head.decode(errors="replace")[:200])
    _, (cls, args, kwargs) = _wire.loads(body)
    actor = cls.__new__(cls)
    actor.rank = rank
    actor.id = actor_id
    actor.proc = this_proc()
    actor.point = actor.proc.point
    actor.__init__(*args, **kwargs)
    return Adapter(actor)
