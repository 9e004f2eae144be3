"""Actors as a launcher has them."""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from meshbus import _checks, _client, _context, reports
from meshbus._endpoints import ActorsView
from meshbus._owner import ContextManager
from meshbus._views import cut
from meshbus.actor import Actor
from meshbus.errors import ActorFailure, Error, Refused
from meshbus.future import Future


class ActorMesh(ActorsView, ContextManager):
    """Actors of one class, one in each rank of a mesh or slice. Made by ProcMesh.spawn(); its
    attributes are the endpoints of the class. `with`: they are stopped at its end."""

    _order = 3

    def __init__(self, core: _client.Actors, cls: type[Actor], inbox: _client.Inbox,
                 on_failure: Callable[[reports.ActorReport], object] | None, *,
                 is_owner: bool = True) -> None:
        super().__init__(core, cls)
        self._core: _client.Actors = core
        self._inbox = inbox
        self._on_failure = on_failure
        self._is_owner = is_owner
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

    def _repr_html_(self) -> str:
        return reports.actor_table(self.states(), f"{self._cls.__name__}: {self.extent}")

    def slice(self, **selection: int | slice) -> ActorMesh:
        """Some of the actors."""
        return ActorMesh(cut(self._core, selection), self._cls, self._inbox, None, is_owner=False)

    def states(self, timeout: float = 10) -> list[reports.ActorReport]:
        """Asks how each actor is."""
        return Future(self._core.states(_checks.seconds("timeout", timeout)), _reports).result()

    def stop(self, reason: str = "stop", grace: float = 10) -> list[reports.ActorReport]:
        """Ends all actors of the mesh, what is in their mailboxes first, and waits."""
        if not self._is_owner:
            raise Refused("a slice of actors cannot be stopped: stop() the mesh that spawn() made")
        return Future(self._core.stop(_checks.text("reason", reason),
                                      _checks.seconds("grace", grace)), _reports).result()

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

    def _failure(self) -> reports.ActorReport | None:
        """For the package: a failure that nobody was told of. The end of a proc is told by its
        mesh."""
        if self._on_failure is not None or self._is_closed:
            return None
        failures = [reports.actor_report(item[1]) for item in self._inbox.drain()]
        return next((report for report in failures if report.proc is None), None)

    def __repr__(self) -> str:
        return f"<ActorMesh of {self._cls.__name__}: {self.extent}>"


def _reports(values: list[dict[str, Any]]) -> list[reports.ActorReport]:
    return [reports.actor_report(value) for value in values]
