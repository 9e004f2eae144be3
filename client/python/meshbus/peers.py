"""Actors as other actors have them: `Peers`."""
from __future__ import annotations

from meshbus import _proc, errors
from meshbus._endpoints import ActorsView
from meshbus._views import cut
from meshbus.actor import Actor
from meshbus.errors import Refused

_proc.set_error_factory(errors.make)


class Peers(ActorsView):
    """Actors of one class in the ranks of a mesh, to call from a rank: `self.peers` of an actor, or
    what an actor was sent of other ones. Its attributes are the endpoints of the class, each with
    `call`, `one`, `cast` and `stream`.

    Nobody looks whether an actor is there: a call to one that is not raises. `async def` endpoints
    await; a `def` endpoint that waits for an actor that waits for this one waits until its time is
    over. Calls and casts of an actor to another arrive in their order, but a call may overtake a
    cast of more than 1 MiB.
    """

    def __init__(self, core: _proc.Actors, cls: type[Actor]) -> None:
        super().__init__(core, cls)
        self._core: _proc.Actors = core

    def slice(self, **selection: int | slice) -> Peers:
        """Some of the actors."""
        return Peers(cut(self._core, selection), self._cls)

    def _check_caller(self) -> None:
        from meshbus import proc
        if proc._this is None:
            raise Refused("actors that came from a rank are called from ranks; a launcher calls "
                          "what ProcMesh.spawn() returned")

    def __repr__(self) -> str:
        return f"<Peers {self._cls.__name__}: {self.extent}>"


def actors_at(ref: str, cls: type[Actor]) -> Peers:
    """For the package: what a mesh of actors is in a rank that it was sent to."""
    return Peers(_proc.Actors.parse(ref), cls)
