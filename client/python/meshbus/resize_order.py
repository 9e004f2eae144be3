"""Orders for another size of a mesh, as its launcher gets them: `ResizeOrder`."""
from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from meshbus import _checks, _client
from meshbus.errors import Error, Refused
from meshbus.future import Future

if TYPE_CHECKING:
    from meshbus.procs import ProcMesh


class ResizeOrder:
    """Somebody orders another size of a mesh, by HostMesh.grow_mesh() or `meshbus grow`. The
    on_resize_order of the mesh gets it, on a thread of its own, one at a time. carry_out() does it.
    To refuse, raise Refused("why"). Valid until on_resize_order returns."""

    def __init__(self, core: _client.AskedOrder, mesh: ProcMesh) -> None:
        self._core = core
        self._mesh = mesh

    @property
    def is_growth(self) -> bool:
        """Whether ranks are to come; otherwise they are to go."""
        return self._core.is_growth

    @property
    def hosts(self) -> list[str]:
        """Where a block is to come, one for each entry. Empty: this launcher may choose."""
        return self._core.hosts

    @property
    def blocks(self) -> int:
        """How many blocks come or go. A block is the ranks of one host."""
        return self._core.blocks

    @property
    def leaving(self) -> list[int]:
        """The ranks that are to go; none when the mesh has not so many blocks."""
        return self._core.leaving

    @property
    def requester(self) -> str:
        """The name of the sender, for people. Only its key is proven: the audit trail of the hosts
        has that."""
        return self._core.requester

    def carry_out(self, hosts: Iterable[str] | None = None) -> list[int]:
        """Does it, as ProcMesh.grow() or ProcMesh.shrink() does: the ranks that came, or went.
        `hosts`: with a growth, where the blocks come instead. Raises what those two raise, and
        Refused when it was done already or the order is over."""
        named = [_checks.text("a host", host) for host in ([] if hosts is None else hosts)]
        def carried_out(result: Any) -> list[int]:
            resized, came, gone = result
            self._mesh._resized(resized)
            return [rank["rank"] for rank in gone] if gone else list(came)
        return Future(self._mesh._core.carry_out(self._core, named), carried_out).result()

    def __repr__(self) -> str:
        kind = "growth" if self.is_growth else "shrinking"
        return f"<ResizeOrder of {self._mesh.name}: {kind} by {self.blocks}>"


def decide(core: _client.AskedOrder, mesh: ProcMesh,
           handler: Callable[[ResizeOrder], object]) -> None:
    """For the package: lets the handler of the mesh decide, and ends the order."""
    refusal = "its launcher has not carried it out"
    try:
        handler(ResizeOrder(core, mesh))
    except Refused as refused:
        refusal = str(refused)
    except BaseException as error:  # sys.exit() there must not leave the sender without an answer
        refusal = f"its launcher has raised {type(error).__name__}: {error}"
        if not isinstance(error, Error):
            traceback.print_exc()
    finally:
        core.settle(f"mesh {mesh.name}: {refusal}")
