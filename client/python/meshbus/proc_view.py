"""Processes to call and to cast to: `ProcView` and `OneProc`."""
from __future__ import annotations

from typing import Any

from meshbus import _checks, _client, _context
from meshbus._views import cut
from meshbus.errors import Error
from meshbus.future import Future
from meshbus.values import Extent, ValueMesh, failed

TIMEOUT = 30.0
"""Seconds for an answer, when the call names none."""


def _arrive(pending: _client.Pending | None) -> None:
    """Waits for a large body, which goes before its message."""
    if pending is not None:
        Future(pending, lambda _: None).result()


class ProcView:
    """Some of the processes of a mesh: to call and to cast to."""

    def __init__(self, ref: _client.ProcMeshRef) -> None:
        self._ref = ref

    @property
    def extent(self) -> Extent:
        """How they are arranged."""
        return Extent.from_shape(self._ref.shape)

    @property
    def ref(self) -> str:
        """Names them: a text for other processes."""
        return str(self._ref)

    def __len__(self) -> int:
        return len(self._ref)

    def slice(self, **selection: int | slice) -> ProcView:
        """Some of these: `slice(host=0, gpu=slice(0, 4))`."""
        return ProcView(cut(self._ref, selection))

    def call(self, port: int, body: Any, timeout: float | None = TIMEOUT
             ) -> Future[ValueMesh[bytes]]:
        """Asks a port of each: an answer or an error for each, later."""
        extent = self.extent
        seconds = _checks.timeout(timeout)
        pending = _context.connect().call_all(self._ref, _checks.port(port), body, seconds)
        return Future(pending, lambda answers: ValueMesh(extent, [
            failed(answer) if isinstance(answer, Error) else bytes(answer)
            for answer in answers]))

    def cast(self, port: int, body: Any) -> None:
        """Tells a port of each; nobody answers."""
        _arrive(_context.connect().cast(self._ref, _checks.port(port), body))

    def __repr__(self) -> str:
        return f"<ProcView {self.extent} of {self._ref.name}>"


class OneProc:
    """One process of a mesh: `mesh[3]`."""

    def __init__(self, ref: _client.ProcMeshRef, ordinal: int) -> None:
        self._ref = ref
        self._ordinal = ordinal

    @property
    def id(self) -> str:
        """Its address."""
        return self._ref.proc_at(self._ordinal)

    def call(self, port: int, body: Any, timeout: float | None = TIMEOUT) -> Future[bytes]:
        """Asks a port of it."""
        seconds = _checks.timeout(timeout)
        pending = _context.connect().call(self._ref, self._ordinal, _checks.port(port), body,
                                          seconds)
        return Future(pending, bytes)

    def send(self, port: int, body: Any) -> None:
        """Tells a port of it; nobody answers."""
        _arrive(_context.connect().send(self._ref, self._ordinal, _checks.port(port), body))

    def __repr__(self) -> str:
        return f"<proc {self.id}>"
