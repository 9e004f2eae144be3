"""In a rank: between the C++ actors and the classes of people."""
from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from meshbus import _wire
from meshbus.actor import Actor, EndpointMethod, _current, endpoints_of

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from meshbus import _proc

Answer = Any
"""None, the parts of a body, or a function that answers a _proc.Reply later."""


class _Job:
    """A function for another thread, and what became of it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._run = contextvars.copy_context().run  # this_actor() is known there, too
        self._function = function
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Calls it."""
        try:
            self._value = self._run(self._function)
        except BaseException as error:
            self._error = error
        self._done.set()

    def refuse(self, error: Exception) -> None:
        """It is not called."""
        self._error = error
        self._done.set()

    def result(self) -> Any:
        """Waits for it."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value


class MainThread:
    """Runs functions on the main thread, while that serves."""

    jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
    is_serving = False
    _lock = threading.Lock()

    @classmethod
    def serve(cls) -> None:
        """Runs what comes until stop(). Ctrl-C and signals get through."""
        cls.is_serving = True
        try:
            while (job := cls.jobs.get()) is not None:
                job.run()
        finally:
            with cls._lock:
                cls.is_serving = False
            while not cls.jobs.empty():
                if (job := cls.jobs.get()) is not None:
                    job.refuse(RuntimeError("this rank is ending"))

    @classmethod
    def stop(cls) -> None:
        """Ends serve()."""
        cls.jobs.put(None)

    @classmethod
    def call(cls, function: Callable[[], Any]) -> Any:
        """Calls it there and waits."""
        job = _Job(function)
        with cls._lock:
            if not cls.is_serving:
                raise RuntimeError('an endpoint with thread="main" needs a rank of '
                                   "hosts.workers(): the main thread of this one is its own")
            cls.jobs.put(job)
        return job.result()


async def _caught(coroutine: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """What it returns, or one of the two exceptions that would end the loop of all others."""
    try:
        return await coroutine, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error


def _value_of(task: asyncio.Task[Any]) -> Any:
    value, error = task.result()
    if error is not None:
        raise error
    return value


class _Loop:
    """The event loop of coroutines: one thread, made when it is needed."""

    _loop: asyncio.AbstractEventLoop | None = None
    _lock = threading.Lock()
    _tasks: set[asyncio.Task[Any]] = set()
    _unanswered = 0
    _answered = threading.Condition(_lock)

    @classmethod
    def run(cls, coroutine: Coroutine[Any, Any, Any],
            then: Callable[[asyncio.Task[Any]], None], is_call: bool,
            context: contextvars.Context) -> None:
        """`then` is called on the loop's thread. What the task gives: see _value_of()."""
        import asyncio
        with cls._lock:
            if cls._loop is None:
                cls._loop = asyncio.new_event_loop()
                threading.Thread(target=cls._loop.run_forever, name="meshbus-asyncio",
                                 daemon=True).start()
            loop = cls._loop
            cls._unanswered += is_call

        def finish(task: asyncio.Task[Any]) -> None:
            try:
                then(task)
            finally:
                with cls._lock:
                    cls._unanswered -= is_call
                    cls._answered.notify_all()

        def begin() -> None:
            task = loop.create_task(_caught(coroutine))
            cls._tasks.add(task)  # a loop alone keeps no task alive
            task.add_done_callback(cls._tasks.discard)
            task.add_done_callback(finish)
        loop.call_soon_threadsafe(begin, context=context)

    @classmethod
    def wait_answered(cls, seconds: float) -> bool:
        """Whether no caller waits for a coroutine any more, at the latest after this time."""
        with cls._lock:
            return cls._answered.wait_for(lambda: cls._unanswered == 0, seconds)


wait_answered = _Loop.wait_answered


def _texts_of(error: BaseException, trace: TracebackType | None) -> tuple[str, str]:
    """One line, and the traceback without its first frame, which is ours."""
    import traceback
    text = "".join(traceback.format_exception(type(error), error, trace and trace.tb_next))
    try:
        return f"{type(error).__name__}: {error}", text
    except Exception:
        return type(error).__name__, text


def failure_text(error: BaseException, trace: TracebackType | None) -> str:
    """Why an actor has failed, for its owner: what was raised, and where."""
    summary, text = (part.rstrip() for part in _texts_of(error, trace))
    # Wrong arguments: there is nothing below our own frame.
    return summary if text == summary else f"{summary}\n\n{text}"


class _WithoutInit:
    """Pickles as an exception that is made anew from its arguments and attributes: its class wants
    other arguments than it hands to `super().__init__()`, so it cannot be called with them."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_anew, (type(self.error), self.error.args, vars(self.error))


def _made_anew(cls: type[BaseException], args: tuple[Any, ...],
               attributes: dict[str, Any]) -> BaseException:
    error = cls.__new__(cls, *args)
    error.__dict__.update(attributes)
    return error


def _pickled(error: BaseException) -> bytes | None:
    """None: it cannot travel."""
    for form in (error, _WithoutInit(error)):
        try:
            pickled = b"".join(_wire.dumps(form))
            _wire.loads(pickled)
            return pickled
        except Exception:
            continue
    return None


def _raised(error: BaseException) -> _wire.Parts:
    """The answer that raises at the caller."""
    summary, text = _texts_of(error, error.__traceback__)
    return _wire.dumps((summary, text, _pickled(error)), _wire.RAISED)


_NOTHING = _wire.dumps(None)


def _answer(flags: int, value: Any, what: str) -> _wire.Parts:
    if flags != _wire.TEXT:
        if value is None:
            return _NOTHING
        return _wire.dumps(value, what=f"what {what} returned")
    if isinstance(value, bool):
        return [b"true" if value else b"false"]
    item = getattr(value, "item", None)  # a number of numpy
    plain = item() if callable(item) and getattr(value, "ndim", None) == 0 else value
    return [(repr(plain) if isinstance(plain, (int, float)) else str(plain)).encode()]


def _one_part(value: Any) -> Any:
    """What a caller that is not Python gets."""
    if value is None or isinstance(value, (bytes, bytearray, memoryview)):
        return value
    return str(value).encode()


def _bytes_answer(value: Any) -> _wire.Parts:
    part = _one_part(value)
    return [] if part is None else [part]


_FOREIGN = -1
"""For flags: the caller is not Python."""


class Adapter:
    """One actor."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self._name = type(actor).__name__
        self._methods = endpoints_of(type(actor))
        self.names = list(self._methods)

    def handle(self, name: str, body: Any, is_call: bool) -> Answer:
        """One message. What it raises is the failure of the actor, or of the call."""
        token = _current.set(self.actor)
        try:
            return self._handle(name, body, is_call)
        finally:
            _current.reset(token)

    def _handle(self, name: str, body: Any, is_call: bool) -> Answer:
        method = self._methods[name]
        try:
            flags, (args, kwargs) = _wire.loads(body)
        except _wire.Foreign:
            return self._handle_bytes(method, name, bytes(body), is_call)
        except Exception as error:
            if not is_call:
                raise
            if _wire.flags_of(body) == _wire.TEXT:
                raise RuntimeError(f"the arguments of {self._name}.{name} cannot be unpickled "
                                   f"here: {type(error).__name__}: {error}") from error
            return _raised(error)
        try:
            if method.thread == "main":
                value = MainThread.call(lambda: method.function(self.actor, *args, **kwargs))
            else:
                value = method.function(self.actor, *args, **kwargs)
            if isinstance(value, Coroutine):
                return self._await(value, flags, name, is_call)
            return _answer(flags, value, f"{self._name}.{name}") if is_call else None
        except BaseException as error:
            if not is_call:
                raise
            if method.fatal:
                return self._fail(error, flags, name)
            if flags == _wire.TEXT:
                raise RuntimeError(f"{type(error).__name__}: {error}") from error
            return _raised(error)

    def _fail(self, error: BaseException, flags: int, name: str) -> Answer:
        """Answers with the exception, and fails the actor."""
        summary = f"{name}: {type(error).__name__}: {error}"
        raised = None if flags in (_wire.TEXT, _FOREIGN) else _raised(error)

        def start(reply: _proc.Reply) -> None:
            if raised is None:
                reply.fail(summary)
            else:
                reply.answer(raised)
            reply.fail_actor(summary)
        return start

    def _await(self, value: Coroutine[Any, Any, Any], flags: int, name: str,
               is_call: bool) -> Answer:
        if is_call:
            return self._later(value, flags, name)
        context = contextvars.copy_context()

        def start(reply: _proc.Reply) -> None:
            def done(task: asyncio.Task[Any]) -> None:
                try:
                    _value_of(task)
                except BaseException as error:
                    import traceback
                    traceback.print_exception(error)
                    reply.fail_actor(f"{name}: {type(error).__name__}: {error}")
            _Loop.run(value, done, is_call=False, context=context)
        return start

    def _later(self, value: Coroutine[Any, Any, Any], flags: int, name: str) -> Answer:
        context = contextvars.copy_context()  # of this call: this_actor() is known in it

        def start(reply: _proc.Reply) -> None:
            def done(task: asyncio.Task[Any]) -> None:
                try:
                    result = _value_of(task)
                    parts = (_bytes_answer(result) if flags == _FOREIGN else
                             _answer(flags, result, f"{self._name}.{name}"))
                except BaseException as error:
                    if self._methods[name].fatal:
                        self._fail(error, flags, name)(reply)
                        return
                    if flags in (_wire.TEXT, _FOREIGN):
                        reply.fail(f"{type(error).__name__}: {error}")
                        return
                    parts = _raised(error)
                reply.answer(parts)
            _Loop.run(value, done, is_call=True, context=context)
        return start

    def _handle_bytes(self, method: EndpointMethod[Any, Any], name: str, body: bytes,
                      is_call: bool) -> Answer:
        """From something that is not Python: bytes in, bytes or text out."""
        try:
            if method.thread == "main":
                value = MainThread.call(lambda: method.function(self.actor, body))
            else:
                value = method.function(self.actor, body)
        except BaseException as error:
            if not is_call or not method.fatal:
                raise
            return self._fail(error, _FOREIGN, name)
        if isinstance(value, Coroutine):
            return self._await(value, _FOREIGN, name, is_call)
        return _one_part(value)

    def on_stop(self, reason: str) -> None:
        """The actor is stopped."""
        token = _current.set(self.actor)
        try:
            self.actor.on_stop(reason)
        finally:
            _current.reset(token)  # the thread lives on, and would keep the actor


    def on_child_failed(self, child: str, error: str, endpoint: str, causes: list[str]) -> bool:
        """A child of the actor has failed; whether that is dealt with."""
        from meshbus.children import ChildFailure
        token = _current.set(self.actor)
        try:
            failure = ChildFailure(child, error, endpoint, tuple(causes))
            dealt = self.actor.on_child_failed(failure)
            if isinstance(dealt, Coroutine):
                dealt.close()
                raise TypeError(f"{self._name}.on_child_failed is def, not async def")
            return bool(dealt)
        finally:
            _current.reset(token)


def _check_releases(head: str) -> None:
    """Raises unless this rank has what the launcher has."""
    theirs = dict(entry.rpartition(" ")[::2] for entry in head.split(","))
    ours = _wire.releases("cloudpickle" in theirs)
    for name, release in ours.items():
        if theirs.get(name) != release:
            raise RuntimeError(f"the launcher has {name} {theirs.get(name)}, this rank {release}: "
                               "start the workers with the same, by python= or env=")


def make_actor(params: bytes, rank: int, actor_id: str, peers: str,
               context: _proc.ActorContext) -> Adapter:
    """Makes the actor that a launcher, or its parent, described."""
    from meshbus.proc import this_proc
    head, _, body = params.partition(b"\n")
    _check_releases(head.decode(errors="replace")[:200])
    # A bytearray, so that the actor may write to arrays in it.
    _, (cls, args, kwargs) = _wire.loads(bytearray(body))
    actor = cls.__new__(cls)
    actor.rank = rank
    actor.id = actor_id
    actor.proc = this_proc()
    actor.point = actor.proc.point
    actor._peers_ref = peers  # see Actor.peers
    actor._meshbus_context = context  # see Actor.context
    token = _current.set(actor)
    try:
        actor.__init__(*args, **kwargs)
    finally:
        _current.reset(token)
    return Adapter(actor)
