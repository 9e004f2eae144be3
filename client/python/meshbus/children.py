"""What an actor can do in its rank: `self.context`, and the actors that it makes there."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar, cast

from meshbus import _checks, _proc, _wire
from meshbus.actor import Actor, actor_class
from meshbus.errors import ConfigurationError
from meshbus.peers import Peers

Q = ParamSpec("Q")
A = TypeVar("A", bound=Actor)


class Child(Peers):
    """An actor that another actor made in its rank: its endpoints, as of peers, of one actor.
    `await child.add.one(2)` is the value itself. It may be sent to actors elsewhere. The actor
    lives until it is stopped, or its parent is; dropping this ends nothing."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_child_at, (self.ref, self._cls))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Child) and other.ref == self.ref

    def __hash__(self) -> int:
        return hash(self.ref)

    def __repr__(self) -> str:
        return f"<Child {self._cls.__name__}: {self.ref}>"


def _child_at(ref: str, cls: type[Actor]) -> Child:
    return Child(_proc.Actors.parse(ref), cls)


@dataclass(frozen=True)
class ChildFailure:
    """How a child failed."""
    child: str
    """Its address: what Child.ref is."""
    error: str
    """What went wrong, in words."""
    endpoint: str
    """In which endpoint; empty: elsewhere, in its constructor say."""
    causes: tuple[str, ...] = field(default=())
    """What was behind it, the nearest cause first."""

    def __str__(self) -> str:
        where = f" in {self.endpoint}" if self.endpoint else ""
        return f"{self.child} has failed{where}: {self.error}"


class ActorContext:
    """What an actor can do in its rank, on any thread. Once the actor has ended, spawn() raises
    SpawnError, and the others do nothing."""

    def __init__(self, core: _proc.ActorContext) -> None:
        self._core = core

    def spawn(self, cls: Callable[Q, A], *args: Q.args, **kwargs: Q.kwargs) -> A:
        """Makes an actor in this rank, with this one as its parent. It is there at once; when its
        constructor raises, on_child_failed() hears of it. It is stopped before its parent is.
        (For type checkers it is an actor; it is a Child.)"""
        actor = actor_class(cls, Child)
        ref = self._core.spawn(_wire.spawn_params(actor, args, kwargs))
        return cast(A, _child_at(ref, actor))

    def stop_child(self, child: Actor, reason: str = "stop", grace: float = 10) -> None:
        """Asks a child to stop: what is in its mailbox comes first, within `grace` seconds. One
        that has ended is left alone."""
        if not isinstance(child, Child):
            raise ConfigurationError(f"stop_child() wants what spawn() returned, not {child!r}")
        _checks.text("reason", reason)
        self._core.stop_child(child.ref, reason, _checks.seconds("grace", grace))

    def stop(self, reason: str = "stop", grace: float = 10) -> None:
        """Stops this actor when its endpoint has returned and its mailbox is empty, within `grace`
        seconds."""
        _checks.text("reason", reason)
        self._core.stop(reason, _checks.seconds("grace", grace))

    @property
    def parent(self) -> str | None:
        """The address of the actor that made this one; None: a launcher did."""
        return self._core.parent()
