"""How a mesh of processes makes its actors: `ActorSpawner`, and `SpawnOptions` for callers."""
from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from meshbus import _client, _wire
from meshbus.actor import Actor, actor_class, endpoint
from meshbus.actors import ActorMesh
from meshbus.future import Future
from meshbus.reports import ActorReport
from meshbus.values import ValueMesh

if TYPE_CHECKING:
    from meshbus.procs import ProcMesh

A = TypeVar("A", bound=Actor)
T = TypeVar("T")
Q = ParamSpec("Q")


class SpawnOptions:
    """`procs.options(name="tally").spawn(Counter, 40)`: how actors are made."""

    def __init__(self, procs: ProcMesh, name: str | None, timeout: float | None,
                 on_failure: Callable[[ActorReport], object] | None, again: bool) -> None:
        self._procs = procs
        self._name = name
        self._timeout = timeout
        self._on_failure = on_failure
        self._again = again

    def spawn(self, cls: Callable[Q, A], *args: Q.args, **kwargs: Q.kwargs) -> A:
        """Makes an actor of the class in each rank."""
        return self.spawn_async(cls, *args, **kwargs).result()

    def spawn_async(self, cls: Callable[Q, A], *args: Q.args, **kwargs: Q.kwargs) -> Future[A]:
        """The same as a Future: `await procs.options(...).spawn_async(Counter, 40)`."""
        return self._procs._spawn(cls, args, kwargs, name=self._name, timeout=self._timeout,
                                  on_failure=self._on_failure, again=self._again)


class _Runner(Actor):
    """Runs functions in a rank."""

    @endpoint
    def run(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Calls it."""
        return function(*args, **kwargs)


class ActorSpawner:
    """For the package: makes the actors of one mesh, and knows them as long as somebody has them.
    """

    def __init__(self, core: _client.ProcMesh) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._names: dict[str, int] = {}
        self._actors: weakref.WeakSet[ActorMesh] = weakref.WeakSet()
        self._runners: list[_Runner] = []
        self._runner_lives = 0

    def spawn(self, ref: _client.ProcMeshRef, cls: Callable[..., A], args: Any, kwargs: Any, *,
              name: str | None = None, timeout: float | None = None,
              on_failure: Callable[[ActorReport], object] | None = None,
              again: bool = False) -> Future[A]:
        """An actor of the class in each of these ranks."""
        actor = actor_class(cls, ActorMesh)
        params = _wire.spawn_params(actor, args, kwargs)
        inbox = _client.Inbox()
        pending = self._core.spawn_actors("python", name or self._fresh_name(actor), params, ref,
                                          timeout, again, inbox)
        def made(core: _client.Actors) -> Any:
            actors = ActorMesh(core, actor, inbox, on_failure)
            self._actors.add(actors)
            return actors
        return Future(pending, made)

    def _fresh_name(self, cls: type) -> str:
        base = "".join(c if c.isascii() and c.isalnum() else "_" for c in cls.__name__.lower())
        base = base.strip("_") or "actor"
        with self._lock:
            number = self._names[base] = self._names.get(base, 0) + 1
        return base if number == 1 else f"{base}_{number}"

    def run(self, ref: _client.ProcMeshRef, lives: int, function: Callable[..., T], args: Any,
            kwargs: Any) -> Future[ValueMesh[T]]:
        """Calls the function in each of these ranks, by an actor that is made for that. `lives`
        changes when there are other ranks, or ranks in their next life."""
        if not self._runners or self._runner_lives != lives:
            # A rank in its next life has no actors of the one before.
            name = f"meshbus_runner_{len(self._runners) + 1}"
            self._runners.append(self.spawn(ref, _Runner, (), {}, name=name).result())
            self._runner_lives = lives
        return self._runners[-1].run.options(timeout=None).call(function, args, kwargs)

    def failures(self) -> list[ActorReport]:
        """Failures of actors that nobody was told of, at most one of each mesh of actors."""
        return [failure for actors in list(self._actors)
                if (failure := actors._failure()) is not None]
