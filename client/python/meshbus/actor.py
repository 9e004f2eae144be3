"""Actors as they are written: `Actor` and `endpoint`. A rank needs no more of the package."""
from __future__ import annotations

import contextvars
import difflib
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from types import MethodType, TracebackType
from typing import (TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar,
                    overload)

from meshbus.errors import ConfigurationError, NotExist, Refused

if TYPE_CHECKING:
    from typing import Self

    from meshbus.children import ActorContext, ChildFailure
    from meshbus.future import Future
    from meshbus.proc import Proc
    from meshbus.reports import ActorReport
    from meshbus.values import Point, ValueMesh

P = ParamSpec("P")
R = TypeVar("R")
Thread = Literal["pool", "main"]


class Endpoint(Generic[P, R]):
    """An endpoint as its callers see it. `counters.add(2)` asks all actors and waits."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> ValueMesh[R]:
        """Asks all actors and waits: a value for each. Raises when one failed: its error, or an
        ExceptionGroup when several did."""
        raise NotImplementedError

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Future[ValueMesh[R]]:
        """Asks all actors: a value or an error for each, later."""
        raise NotImplementedError

    def one(self, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Asks the only actor of a mesh or slice of one: its value, later."""
        raise NotImplementedError

    def cast(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tells all actors. Nobody waits, so an exception there is the failure of its actor."""
        raise NotImplementedError

    def reduce(self, how: str, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Asks all actors; their hosts reduce the answers: "sum", "min", "max", "count", "any" or
        "all". What comes back does not grow with the number of ranks."""
        raise NotImplementedError

    def stream(self, *args: P.args, **kwargs: P.kwargs) -> Stream[R]:
        """Asks all actors: (point, value) of each as it comes, for `for` and `async for`."""
        raise NotImplementedError

    def options(self, *, timeout: float | None) -> Endpoint[P, R]:
        """The same endpoint with another time for the answer; None: as long as it takes."""
        raise NotImplementedError


class Stream(Generic[R]):
    """(point, value) of each rank, as it comes; a rank that failed raises when its turn comes."""

    def __iter__(self) -> Iterator[tuple[Point, R]]:
        raise NotImplementedError

    def __next__(self) -> tuple[Point, R]:
        raise NotImplementedError

    def __aiter__(self) -> Stream[R]:
        raise NotImplementedError

    async def __anext__(self) -> tuple[Point, R]:
        raise NotImplementedError


class EndpointMethod(Generic[P, R]):
    """What `@endpoint` makes of a method. In a rank it is a method like any other."""

    def __init__(self, function: Callable[..., Any], thread: Thread, fatal: bool) -> None:
        if thread == "main" and inspect.iscoroutinefunction(function):
            raise ValueError(f'{function.__name__}: thread="main" is for def; async def runs on '
                             "the thread of the event loop")
        self.function = function
        self.thread: Thread = thread
        self.fatal = fatal
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._signature: inspect.Signature | None = None

    def check(self, what: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """For the package: raises TypeError when it cannot be called with these."""
        if self._signature is None:
            # The signature that runs in the rank: a decorator may take others than what it wraps.
            whole = inspect.signature(self.function, follow_wrapped=False)
            self._signature = whole.replace(parameters=list(whole.parameters.values())[1:])
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{what}{self._signature}: {error}") from None

    def __get__(self, instance: object, owner: type) -> Endpoint[P, R]:
        if instance is None:
            return self  # type: ignore[return-value]
        return MethodType(self.function, instance)  # type: ignore[return-value]


class _EndpointMaker:
    """`@endpoint(thread="main")`"""

    def __init__(self, thread: Thread, fatal: bool) -> None:
        self._thread = thread
        self._fatal = fatal

    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
                 /) -> EndpointMethod[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], R], /) -> EndpointMethod[P, R]: ...

    def __call__(self, function: Callable[..., Any], /) -> EndpointMethod[Any, Any]:
        return EndpointMethod(function, self._thread, self._fatal)


@overload
def endpoint(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
             /) -> EndpointMethod[P, R]: ...


@overload
def endpoint(function: Callable[Concatenate[Any, P], R], /) -> EndpointMethod[P, R]: ...


@overload
def endpoint(*, thread: Thread = "pool", fatal: bool = False) -> _EndpointMaker: ...


def endpoint(function: Callable[..., Any] | None = None, /, *, thread: Thread = "pool",
             fatal: bool = False) -> Any:
    """Makes a method of an actor callable from elsewhere. `def` or `async def`.

    An exception of a call is raised at its caller, and the actor lives on; an exception of a cast
    is the failure of its actor. (A cast with arguments that do not fit raises TypeError instead.)
    `thread="main"`: it runs on the main thread of its rank, for libraries that insist on it.
    `fatal=True`: an exception of a call is the failure of its actor, too.
    """
    if thread not in ("pool", "main"):
        raise ValueError(f'thread={thread!r}: there are "pool" and "main"')
    if function is None:
        return _EndpointMaker(thread, fatal)
    if not callable(function):
        raise TypeError("@endpoint is for methods; its options have names: "
                        '@endpoint(thread="main")')
    return EndpointMethod(function, thread, fatal)


class Actor:
    """The base of all actors: an object with a mailbox in a rank.

    It does one thing at a time: `__init__`, then endpoints, one after the other, then `on_stop`.
    (While a coroutine of it waits, the next one begins.) In a rank it has `rank`, `point`, `id`,
    `proc`, `peers` and `context`, in `__init__` already. What ProcMesh.spawn() returns has the
    endpoints, and `slice`, `states`, `stop`.
    """

    rank: int
    """Its rank in the mesh of actors."""
    point: Point
    """The place of its proc in the mesh of procs."""
    id: str
    """Its address."""
    proc: Proc
    """Its proc."""
    if TYPE_CHECKING:
        peers: Self
    else:
        @functools.cached_property
        def peers(self) -> Any:
            """The actors of its name in all ranks of its mesh, this one included: `await
            self.peers.slice(gpu=0).norm.call()`. (For type checkers it is an actor; it is a
            Peers.)"""
            from meshbus.peers import actors_at
            if not hasattr(self, "_peers_ref"):
                raise _only_in_ranks("peers")
            if not self._peers_ref:
                raise Refused("an actor that another actor made has no peers in other ranks")
            return actors_at(self._peers_ref, type(self))

    @functools.cached_property
    def context(self) -> ActorContext:
        """What the actor can do in its rank: make actors of its own, and stop."""
        from meshbus.children import ActorContext
        if not hasattr(self, "_meshbus_context"):
            raise _only_in_ranks("context")
        return ActorContext(self._meshbus_context)

    def on_stop(self, reason: str) -> None:
        """Runs in the rank when the actor is stopped, unless it has failed. Yours to override."""

    def on_child_failed(self, failure: ChildFailure) -> bool:
        """A child of self.context.spawn() has failed. True: that is dealt with. Otherwise this
        actor fails too, with that as its cause. Yours to override, by a def."""
        return False

    # --- at the launcher ----------------------------------------------------------------------
    def slice(self, **selection: int | slice) -> Self:
        """At the launcher: some of the actors, `shards.slice(host=1, gpu=slice(0, 4, 2))`."""
        raise _only_at_launcher("slice")

    def states(self, timeout: float = 10) -> list[ActorReport]:
        """At the launcher: asks how each actor is."""
        raise _only_at_launcher("states")

    def stop(self, reason: str = "stop", grace: float = 10) -> list[ActorReport]:
        """At the launcher: ends the actors, what is in their mailboxes first, and waits."""
        raise _only_at_launcher("stop")

    def close(self) -> None:
        """At the launcher: asks for a stop and does not wait."""
        raise _only_at_launcher("close")

    def __len__(self) -> int:
        raise _only_at_launcher("len()")

    def __enter__(self) -> Self:
        raise _only_at_launcher("with")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        raise _only_at_launcher("with")

    async def __aenter__(self) -> Self:
        raise _only_at_launcher("async with")

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        raise _only_at_launcher("async with")

    def __bool__(self) -> bool:
        return True


_current: contextvars.ContextVar[Actor] = contextvars.ContextVar("meshbus_actor")


def this_actor() -> Actor:
    """The actor whose constructor, endpoint or on_stop runs here. Raises NotExist elsewhere."""
    actor = _current.get(None)
    if actor is None:
        raise NotExist("no actor runs here: this_actor() is for what an endpoint calls")
    return actor


def _only_in_ranks(what: str) -> Refused:
    return Refused(f"{what} is for the actor in its rank, not for what ProcMesh.spawn() returns")


def _only_at_launcher(what: str) -> Refused:
    return Refused(f"{what} is for what ProcMesh.spawn() returns, not for the actor in its rank")


def endpoints_of(cls: type) -> dict[str, EndpointMethod[Any, Any]]:
    """For the package: the endpoints of a class, those of its bases too."""
    found: dict[str, EndpointMethod[Any, Any]] = {}
    for base in reversed(cls.__mro__):
        for name, member in vars(base).items():
            if isinstance(member, EndpointMethod):
                found[name] = member
            else:
                found.pop(name, None)
    return found


def actor_class(cls: object, view: type) -> type[Actor]:
    """For the package: a class that spawn() was given. Raises ConfigurationError when it is none,
    or when `view`, which has its endpoints as attributes, has something else of such a name."""
    if not isinstance(cls, type) or not issubclass(cls, Actor):
        raise ConfigurationError(f"spawn() wants a class that derives from meshbus.Actor, not "
                                 f"{cls!r}")
    if taken := [name for name in endpoints_of(cls) if name in dir(view)]:
        raise ConfigurationError(f"{cls.__name__}.{taken[0]} cannot be an endpoint: {taken[0]} is "
                                 f"what every {view.__name__} has; call it something else")
    return cls


def no_endpoint(cls: type, name: str) -> AttributeError:
    """For the package: the error of a name that is no endpoint of a class."""
    names = sorted(endpoints_of(cls))
    if name in dir(cls):
        hint = f"{name} has no @endpoint"
    else:
        near = difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names) or 'none'}"
    return AttributeError(f"{cls.__name__} has no endpoint {name!r}; {hint}", name=name)
