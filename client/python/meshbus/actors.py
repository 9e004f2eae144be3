"""Actors as a launcher has them."""
from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Iterator
from typing import Any

from meshbus import _checks, _client, _context, _wire, reports
from meshbus._owner import ContextManager
from meshbus._views import cut
from meshbus.actor import Actor, Endpoint, Stream, endpoints_of, no_endpoint
from meshbus.errors import (ActorFailure, ConfigurationError, Error, NotExist, Refused,
                            RemoteError)
from meshbus.future import Future, readable
from meshbus.values import Extent, Point, ValueMesh, failed

_TIMEOUT = 30.0
_TRUTH = {"true": True, "false": False}


def _decode_one(answer: Any, rank: int, extent: Extent) -> Any:
    """The value of an answer, or an entry for its error."""
    if isinstance(answer, Error):
        point = str(extent.point(rank))
        answer.add_note(f"rank {rank} ({point})" if point else f"rank {rank}")
        return failed(answer)
    try:
        flags, value = _wire.loads(answer)
    except _wire.Foreign:
        return bytes(answer)
    except Exception as error:  # whatever the class of the value says
        wrong = RemoteError(f"the answer cannot be unpickled here: {type(error).__name__}: "
                            f"{error}", rank=rank, point=str(extent.point(rank)))
        wrong.__cause__ = error
        return failed(wrong)
    if flags != _wire.RAISED:
        return value
    text, trace, pickled = value
    remote = RemoteError(text, trace, rank, str(extent.point(rank)))
    if pickled is not None:
        try:
            remote.__cause__ = _wire.loads(pickled)[1]
        except Exception as error:
            remote.add_note(f"(its exception cannot be unpickled here: {error})")
    return failed(remote)


class _Endpoint(Endpoint[Any, Any]):
    """An endpoint of a mesh of actors, with the time that its answers may take."""

    __slots__ = ("_core", "_name", "_timeout", "_extent", "_what")

    def __init__(self, core: _client.Actors, name: str, what: str,
                 timeout: float = _TIMEOUT) -> None:
        self._core = core
        self._name = name
        self._what = what
        self._timeout = timeout
        self._extent = Extent.from_shape(core.shape)

    def options(self, *, timeout: float | None) -> _Endpoint:
        return _Endpoint(self._core, self._name, self._what, _checks.timeout(timeout))

    def _body(self, args: Any, kwargs: Any, flags: int = _wire.PICKLE) -> _wire.Parts:
        return _wire.dumps((args, kwargs), flags, f"an argument of {self._what}")

    def _decode(self, answers: list[Any]) -> ValueMesh[Any]:
        extent = self._extent
        return ValueMesh(extent, [_decode_one(answer, rank, extent)
                                  for rank, answer in enumerate(answers)])

    def __call__(self, *args: Any, **kwargs: Any) -> ValueMesh[Any]:
        return self.call(*args, **kwargs).result().check()

    def call(self, *args: Any, **kwargs: Any) -> Future[ValueMesh[Any]]:
        pending = self._core.call(self._name, self._body(args, kwargs), self._timeout)
        return Future(pending, self._decode)

    def one(self, *args: Any, **kwargs: Any) -> Future[Any]:
        if len(self._core) != 1:
            raise ConfigurationError(f"{self._what}.one() is for one actor, and here are "
                                     f"{len(self._core)}: slice first")
        return self.call(*args, **kwargs)._then(lambda values: values[0])

    def cast(self, *args: Any, **kwargs: Any) -> None:
        self._core.send(self._name, self._body(args, kwargs))

    def reduce(self, how: str, *args: Any, **kwargs: Any) -> Future[Any]:
        body = self._body(args, kwargs, _wire.TEXT)
        pending = self._core.reduce(self._name, body, how, self._timeout)
        return Future(pending, lambda answer: self._reduced(how, *answer))

    def _reduced(self, how: str, text: str | None, errors: dict[int, Exception],
                 messages: int) -> Any:
        if len(errors) == 1:
            rank, error = next(iter(errors.items()))
            error.add_note(f"rank {rank} ({self._extent.point(rank)})")
            raise error
        if errors:
            raise ExceptionGroup(f"{len(errors)} of {self._extent.num_ranks} ranks have no part",
                                 list(errors.values()))
        if text is None:
            raise NotExist("no rank has a part")
        if how in ("any", "all"):
            return _TRUTH.get(text, text)
        try:
            return float(text) if any(mark in text for mark in ".en") else int(text)
        except ValueError:
            return text

    def stream(self, *args: Any, **kwargs: Any) -> Stream[Any]:
        inbox = _client.Inbox()
        pending = self._core.stream(self._name, self._body(args, kwargs), self._timeout, inbox)
        return _Stream(self._extent, inbox, pending)

    def __repr__(self) -> str:
        return f"<endpoint {self._what} of {len(self._core)} actors>"


class _Stream(Stream[Any]):
    """Answers in an inbox. Given up half way, it cancels the rest."""

    def __init__(self, extent: Extent, inbox: _client.Inbox, pending: _client.Pending) -> None:
        self._extent = extent
        self._inbox = inbox
        self._pending = pending
        self._left = extent.num_ranks
        self._waiting: collections.deque[tuple[int, Any]] = collections.deque()

    def _value(self, ordinal: int, answer: Any) -> tuple[Point, Any]:
        point = self._extent.point(ordinal)
        self._left -= 1
        return point, ValueMesh(Extent(), [_decode_one(answer, ordinal, self._extent)])[0]

    def __iter__(self) -> Iterator[tuple[Point, Any]]:
        return self

    def __next__(self) -> tuple[Point, Any]:
        if self._left == 0:
            raise StopIteration
        return self._value(*(self._waiting.popleft() if self._waiting else self._inbox.get()))

    def __aiter__(self) -> _Stream:
        return self

    async def __anext__(self) -> tuple[Point, Any]:
        if self._left == 0:
            raise StopAsyncIteration
        while not self._waiting:
            self._waiting.extend(self._inbox.drain())
            if not self._waiting:
                await readable(self._inbox)
        return self._value(*self._waiting.popleft())

    def __del__(self) -> None:
        self._pending.cancel()


class ActorMesh(ContextManager):
    """Actors of one class, one in each rank of a mesh or slice. Made by ProcMesh.spawn(); its
    attributes are the endpoints of the class. `with`: they are stopped at its end."""

    _order = 3

    def __init__(self, core: _client.Actors, cls: type[Actor], inbox: _client.Inbox,
                 on_failure: Callable[[reports.ActorReport], object] | None, *,
                 is_owner: bool = True) -> None:
        self._core = core
        self._cls = cls
        self._inbox = inbox
        self._on_failure = on_failure
        self._is_owner = is_owner
        self._names = endpoints_of(cls)
        self._thread: threading.Thread | None = None
        self._is_closed = False
        if not is_owner:
            return
        _context.remember(self)
        if on_failure is not None:
            self._thread = threading.Thread(target=self._dispatch, name="meshbus-actors",
                                            daemon=True)
            self._thread.start()

    def _dispatch(self) -> None:
        assert self._on_failure is not None
        while (item := self._inbox.get()) is not None:
            try:
                self._on_failure(reports.actor_report(item[1]))
            except BaseException:  # sys.exit() there must not end this thread without a word
                import traceback
                traceback.print_exc()

    @property
    def extent(self) -> Extent:
        """How the actors are arranged."""
        return Extent.from_shape(self._core.shape)

    @property
    def ref(self) -> str:
        """Names them: a text for other processes."""
        return self._core.ref

    def __getattr__(self, name: str) -> _Endpoint:
        if name.startswith("__") or name not in self._names:
            raise no_endpoint(self._cls, name)
        made = _Endpoint(self._core, name, f"{self._cls.__name__}.{name}")
        self.__dict__[name] = made
        return made

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    def __len__(self) -> int:
        return len(self._core)

    def slice(self, **selection: int | slice) -> ActorMesh:
        """Some of the actors."""
        return ActorMesh(cut(self._core, selection), self._cls, self._inbox, None, is_owner=False)

    def states(self, timeout: float = 10) -> list[reports.ActorReport]:
        """Asks how each actor is."""
        answer = Future(self._core.states(timeout), _reports).result()
        return answer

    def stop(self, reason: str = "stop", grace: float = 10) -> list[reports.ActorReport]:
        """Ends all actors of the mesh, what is in their mailboxes first, and waits."""
        if not self._is_owner:
            raise Refused("a slice of actors cannot be stopped: stop() the mesh that spawn() made")
        return Future(self._core.stop(reason, grace), _reports).result()

    def close(self) -> None:
        """Asks for a stop and does not wait."""
        if not self._is_owner or self._is_closed:
            return
        self._is_closed = True
        _context.forget(self)
        self._core.close()
        self._inbox.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(5)

    def _end(self, has_error: bool) -> None:
        ends: list[reports.ActorReport] = []
        if not self._is_owner or self._is_closed:
            return
        try:
            ends = self.stop()
        except Error:
            if not has_error:
                raise
        finally:
            self.close()
        if has_error or self._on_failure is not None:
            return
        for report in ends:
            # The end of a proc is told by its mesh.
            if report.status.startswith("Failed") and report.proc is None:
                raise ActorFailure(report)

    def __repr__(self) -> str:
        return f"<ActorMesh of {self._cls.__name__}: {self.extent}>"


def _reports(values: list[dict[str, Any]]) -> list[reports.ActorReport]:
    return [reports.actor_report(value) for value in values]
