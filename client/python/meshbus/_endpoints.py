"""The endpoints of actors, as a launcher and other actors call them."""
from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from meshbus import _checks, _wire
from meshbus.actor import (Actor, Endpoint, EndpointMethod, Stream, endpoints_of,
                           no_endpoint)
from meshbus.errors import (CallError, ConfigurationError, Error, NotExist, Refused, RemoteError,
                            Timeout)
from meshbus.future import Future, readable
from meshbus.values import Extent, Point, ValueMesh, failed

if TYPE_CHECKING:
    import asyncio

    from meshbus import _client, _proc
    from meshbus.future import Inbox, Pending

    Actors = _client.Actors | _proc.Actors

_TIMEOUT = 30.0
_TRUTH = {"true": True, "false": False}
_NO_ARGUMENTS = {flags: _wire.dumps(((), {}), flags) for flags in (_wire.PICKLE, _wire.TEXT)}


def _decode_one(answer: Any, ordinal: int, endpoint: ActorEndpoint) -> Any:
    """The value of an answer, or an entry for its error, which names the rank of the whole mesh."""
    if isinstance(answer, Error):
        rank, point = endpoint.place_of(ordinal)
        answer.add_note(f"rank {rank} ({point})" if point else f"rank {rank}")
        if isinstance(answer, Timeout):
            answer.add_note(f"{endpoint.what} may still run there: `meshbus stacks` shows where; "
                            ".options(timeout=SECONDS) waits longer, timeout=None for ever")
        return failed(answer)
    try:
        flags, value = _wire.loads(answer)
    except _wire.Foreign:
        return bytes(answer)
    except Exception as error:  # whatever the class of the value says
        wrong = RemoteError(f"the answer cannot be unpickled here: {type(error).__name__}: "
                            f"{error}", "", *endpoint.place_of(ordinal))
        wrong.__cause__ = error
        return failed(wrong)
    if flags != _wire.RAISED:
        return value
    text, trace, pickled = value
    remote = RemoteError(text, trace, *endpoint.place_of(ordinal))
    if pickled is not None:
        try:
            remote.__cause__ = _wire.loads(pickled)[1]
        except Exception as error:
            remote.add_note(f"(its exception cannot be unpickled here: {error})")
    return failed(remote)


class ActorEndpoint(Endpoint[Any, Any]):
    """An endpoint of a mesh of actors, with the time that its answers may take."""

    __slots__ = ("_core", "_name", "_timeout", "_extent", "_what", "_method")

    def __init__(self, core: Actors, name: str, method: EndpointMethod[Any, Any], what: str,
                 timeout: float = _TIMEOUT) -> None:
        self._core = core
        self._name = name
        self._method = method
        self._what = what
        self._timeout = timeout
        self._extent = Extent.from_shape(core.shape)

    def options(self, *, timeout: float | None) -> ActorEndpoint:
        return ActorEndpoint(self._core, self._name, self._method, self._what,
                             _checks.timeout(timeout))

    @property
    def what(self) -> str:
        """Its class and name: "Counter.add"."""
        return self._what

    @property
    def extent(self) -> Extent:
        """How its actors are arranged."""
        return self._extent

    def place_of(self, ordinal: int) -> tuple[int, str]:
        """The rank of the whole mesh behind one of these actors, and its point here."""
        return self._core.create_rank(ordinal), str(self._extent.point(ordinal))

    def _body(self, args: Any, kwargs: Any, flags: int = _wire.PICKLE) -> _wire.Parts:
        if not args and not kwargs:
            return _NO_ARGUMENTS[flags]
        return _wire.dumps((args, kwargs), flags, f"an argument of {self._what}")

    def _decode(self, answers: list[Any]) -> ValueMesh[Any]:
        return ValueMesh(self._extent, [_decode_one(answer, ordinal, self)
                                  for ordinal, answer in enumerate(answers)])

    def __call__(self, *args: Any, **kwargs: Any) -> ValueMesh[Any]:
        # call().result().check() without the Future, which nobody sees.
        pending = self._core.call(self._name, self._body(args, kwargs), self._timeout)
        pending.wait()
        return self._decode(pending.take()).check()

    def call(self, *args: Any, **kwargs: Any) -> Future[ValueMesh[Any]]:
        pending = self._core.call(self._name, self._body(args, kwargs), self._timeout)
        return Future(pending, self._decode)

    def one(self, *args: Any, **kwargs: Any) -> Future[Any]:
        if len(self._core) != 1:
            raise ConfigurationError(f"{self._what}.one() is for one actor, and here are "
                                     f"{len(self._core)}: slice first")
        return self.call(*args, **kwargs)._then(lambda values: values[0])

    def cast(self, *args: Any, **kwargs: Any) -> None:
        # There, it would be the failure of the actors.
        self._method.check(self._what, args, kwargs)
        pending = self._core.send(self._name, self._body(args, kwargs))
        if pending is not None:
            Future(pending, lambda _: None).result()

    def reduce(self, how: str, *args: Any, **kwargs: Any) -> Future[Any]:
        _checks.text("reduce()", how)
        if not hasattr(self._core, "reduce"):
            raise Refused(f"{self._what}.reduce() is for launchers: their hosts reduce. Here, ask "
                          "for the values and reduce them")
        body = self._body(args, kwargs, _wire.TEXT)
        pending = self._core.reduce(self._name, body, how, self._timeout)
        return Future(pending, lambda answer: self._reduced(how, *answer))

    def _placed(self, ordinal: int, error: Exception) -> Exception:
        rank, point = self.place_of(ordinal)
        if type(error) is CallError:
            # Its host, which is not Python, has passed on the words alone.
            return RemoteError(error.detail.removeprefix("RuntimeError: "), rank=rank, point=point)
        error.add_note(f"rank {rank} ({point})" if point else f"rank {rank}")
        return error

    def _reduced(self, how: str, text: str | None, errors: dict[int, Exception],
                 messages: int) -> Any:
        if len(errors) == 1:
            raise self._placed(*next(iter(errors.items())))
        if errors:
            raise ExceptionGroup(f"{len(errors)} of {self._extent.num_ranks} ranks have no part",
                                 [self._placed(*item) for item in errors.items()])
        if text is None:
            raise NotExist("no rank has a part")
        if how in ("any", "all"):
            return _TRUTH.get(text, text)
        try:
            return float(text) if any(mark in text for mark in ".en") else int(text)
        except ValueError:
            return text

    def stream(self, *args: Any, **kwargs: Any) -> Stream[Any]:
        inbox: Any = self._core.inbox()  # of its kind
        pending = self._core.stream(self._name, self._body(args, kwargs), self._timeout, inbox)
        return _Stream(self, inbox, pending)

    def __repr__(self) -> str:
        return f"<endpoint {self._what} of {len(self._core)} actors>"


class ActorsView:
    """Actors of one class, with its endpoints as attributes."""

    def __init__(self, core: Actors, cls: type[Actor]) -> None:
        self._core = core
        self._cls = cls
        self._names = endpoints_of(cls)

    @property
    def extent(self) -> Extent:
        """How the actors are arranged."""
        return Extent.from_shape(self._core.shape)

    @property
    def ref(self) -> str:
        """Names them: a text for other processes."""
        return self._core.ref

    def _check_caller(self) -> None:
        """Raises where nobody may call them."""

    def __getattr__(self, name: str) -> ActorEndpoint:
        if name.startswith("__") or name not in self._names:
            raise no_endpoint(self._cls, name)
        self._check_caller()
        made = ActorEndpoint(self._core, name, self._names[name],
                             f"{self._cls.__name__}.{name}")
        self.__dict__[name] = made
        return made

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    def __len__(self) -> int:
        return len(self._core)

    def __reduce__(self) -> tuple[object, ...]:
        from meshbus.peers import actors_at  # what they are in a rank
        return (actors_at, (self.ref, self._cls))


class _Stream(Stream[Any]):
    """Answers in an inbox. Given up half way, it cancels the rest."""

    def __init__(self, endpoint: ActorEndpoint, inbox: Inbox, pending: Pending) -> None:
        self._endpoint = endpoint
        self._inbox = inbox
        self._pending = pending
        self._left = endpoint.extent.num_ranks
        self._waiting: collections.deque[tuple[int, Any]] = collections.deque()
        self._turn: asyncio.Lock | None = None  # one task at a time reads the inbox

    def _value(self, ordinal: int, answer: Any) -> tuple[Point, Any]:
        point = self._endpoint.extent.point(ordinal)
        self._left -= 1
        return point, ValueMesh(Extent(), [_decode_one(answer, ordinal, self._endpoint)])[0]

    def __iter__(self) -> Iterator[tuple[Point, Any]]:
        return self

    def __next__(self) -> tuple[Point, Any]:
        if self._left == 0:
            raise StopIteration
        return self._value(*(self._waiting.popleft() if self._waiting else self._inbox.get()))

    def __aiter__(self) -> _Stream:
        return self

    async def __anext__(self) -> tuple[Point, Any]:
        import asyncio
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            if self._left == 0:
                raise StopAsyncIteration
            while not self._waiting:
                self._waiting.extend(self._inbox.drain())
                if not self._waiting:
                    await readable(self._inbox)
            return self._value(*self._waiting.popleft())

    def __del__(self) -> None:
        self._pending.cancel()
