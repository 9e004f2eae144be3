"""Actors as other actors have them: `Peers`."""
from __future__ import annotations

from meshbus import _proc, errors
from meshbus._endpoints import ActorEndpoint
from meshbus._views import cut
from meshbus.actor import Actor, endpoints_of, no_endpoint
from meshbus.errors import Refused
from meshbus.values import Extent

_proc.set_error_factory(errors.make)


class Peers:
    """Actors of one class in the ranks of a mesh, to call from a rank: `self.peers` of an actor, or
    what an actor was sent of other ones. Its attributes are the endpoints of the class, each with
    `call`, `one`, `cast` and `stream`.

    Nobody looks whether an actor is there: a call to one that is not raises. `async def` endpoints
    await; a `def` endpoint that waits for an actor that waits for this one waits until its time is
    over. Calls and casts of an actor to another arrive in their order, but a call may overtake a
    cast of more than 1 MiB.
    """

    def __init__(self, core: _proc.Actors, cls: type[Actor]) -> None:
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

    def slice(self, **selection: int | slice) -> Peers:
        """Some of the actors."""
        return Peers(cut(self._core, selection), self._cls)

    def __getattr__(self, name: str) -> ActorEndpoint:
        if name.startswith("__") or name not in self._names:
            raise no_endpoint(self._cls, name)
        from meshbus import proc
        if proc._this is None:
            raise Refused("actors that came from a rank are called from ranks; a launcher calls "
                          "what ProcMesh.spawn() returned")
        made = ActorEndpoint(self._core, name, f"{self._cls.__name__}.{name}")
        self.__dict__[name] = made
        return made

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    def __len__(self) -> int:
        return len(self._core)

    def __reduce__(self) -> tuple[object, ...]:
        return (actors_at, (self.ref, self._cls))

    def __repr__(self) -> str:
        return f"<Peers {self._cls.__name__}: {self.extent}>"


def actors_at(ref: str, cls: type[Actor]) -> Peers:
    """For the package: what a mesh of actors is in a rank that it was sent to."""
    return Peers(_proc.Actors.parse(ref), cls)
