"""Exceptions: one class for each thing that a program would want to tell apart.

All are `meshbus.Error`; those for which Python has a notion of its own are that too, so
`except TimeoutError` and `except ConnectionError` do what they say.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meshbus.reports import ActorReport, RankReport


class Error(Exception):
    """Something that meshbus could not do.

    `code` is the stable name of the error ("not_exist"), `detail` the text for people, `position`
    the byte offset in a text that could not be read. `reports` has the ranks that it is about: of a
    spawn that failed, or a stop that did not reach every rank.
    """

    code = "internal"

    def __init__(self, detail: str = "", code: str | None = None, position: int | None = None,
                 reports: list[RankReport] | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.position = position
        self.reports: list[RankReport] = list(reports or [])
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.detail, self.code, self.position, self.reports))


class ConfigurationError(Error, ValueError):
    """An argument or a setting that cannot work."""

    code = "configuration_error"


class ParseError(Error, ValueError):
    """A text is not what was expected; `position` says where."""

    code = "parse_error"


class VersionMismatch(Error):
    """The other side is of a release that does not go with this one; the text names both."""

    code = "version_mismatch"


class OutOfRange(Error, IndexError):
    """A rank or an index that is not there."""

    code = "out_of_range"


class NotExist(Error, LookupError):
    """There is no such thing."""

    code = "not_exist"


class Timeout(Error, TimeoutError):
    """The time is over."""

    code = "timeout"


class SpawnError(Error):
    """Processes or actors that could not be started; the text says which ranks, and why, and
    `reports` has those that ended or are not ready."""

    code = "proc_spawn_error"


class StopError(Error):
    """A stop that did not reach every rank or host; `reports` has the ranks that have not ended."""

    code = "stop_error"


class Unreachable(Error, ConnectionError):
    """The other side is gone, or there is no way to it."""

    code = "unroutable"


class FateUnknown(Error, ConnectionError):
    """The other side died meanwhile: what was asked may or may not have happened."""

    code = "fate_unknown"


class QueueFull(Error):
    """More waits already than may."""

    code = "queue_full"


class TooLarge(Error, ValueError):
    """More bytes than a message may have."""

    code = "too_large"


class Unauthorised(Error, PermissionError):
    """The role of this launcher does not allow it."""

    code = "unauthorised"


class SystemFailure(Error, OSError):
    """The operating system refused something: the text has the call and the reason."""

    code = "io_error"


class Refused(Error):
    """That cannot be done in this state: the mesh is closed, or this is a child of fork()."""

    code = "refused"


class CallError(Error):
    """The other side answered with an error."""

    code = "call_error"


class RemoteError(CallError):
    """An endpoint raised.

    `__cause__` is its exception where that could travel, `remote_traceback` its traceback as text,
    `rank` the rank that raised.
    """

    def __init__(self, detail: str, remote_traceback: str = "", rank: int | None = None,
                 point: str = "") -> None:
        super().__init__(detail)
        self.remote_traceback = remote_traceback
        self.rank = rank
        self.point = point

    def __str__(self) -> str:
        place = f" ({self.point})" if self.point else ""
        where = "" if self.rank is None else f"rank {self.rank}{place}: "
        tail = f"\n\n{self.remote_traceback.rstrip()}" if self.remote_traceback else ""
        return f"{where}{self.detail}{tail}"

    def __reduce__(self) -> tuple[Any, ...]:
        import pickle
        try:
            cause: bytes | None = pickle.dumps(self.__cause__)
        except Exception:
            cause = None  # its text is in the traceback
        state = {"cause": cause, "notes": list(getattr(self, "__notes__", []))}
        return (RemoteError, (self.detail, self.remote_traceback, self.rank, self.point), state)

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        import pickle
        for note in (state or {}).get("notes", []):
            self.add_note(note)
        if (cause := (state or {}).get("cause")) is not None:
            try:
                self.__cause__ = pickle.loads(cause)
            except Exception as error:
                self.add_note(f"(its cause cannot be unpickled here: {error})")


class MeshFailure(Error):
    """A rank ended though nobody had asked for it. `report` is its exit report. `trouble`: why an
    MPI job has failed as a whole; then `report` is that of the rank that is the reason, or of the
    first one."""

    code = "mesh_failure"

    def __init__(self, report: RankReport, trouble: str | None = None) -> None:
        tail = report.stderr_tail.rstrip()
        text = str(report) if trouble is None else f"{trouble} ({report})"
        super().__init__(f"{text}\n{tail}" if tail else text)
        self.report = report
        self.reports = [report]
        self.trouble = trouble

    def __reduce__(self) -> tuple[Any, ...]:
        return (MeshFailure, (self.report, self.trouble))


class ActorFailure(Error):
    """An actor failed though nobody waited for its answer. `report` says how."""

    code = "actor_failure"

    def __init__(self, report: ActorReport) -> None:
        super().__init__(str(report))
        self.report = report

    def __reduce__(self) -> tuple[Any, ...]:
        return (ActorFailure, (self.report,))


_BY_CODE: dict[str, type[Error]] = {
    "configuration_error": ConfigurationError,
    "invalid_rank_cardinality": ConfigurationError,
    "parse_error": ParseError,
    "malformed_message": ParseError,
    "out_of_range": OutOfRange,
    "version_mismatch": VersionMismatch,
    "not_exist": NotExist,
    "no_such_port": NotExist,
    "timeout": Timeout,
    "expired": Timeout,
    "proc_creation_error": SpawnError,
    "proc_spawn_error": SpawnError,
    "actor_spawn_error": SpawnError,
    "actor_type_not_registered": SpawnError,
    "exec_failed": SpawnError,
    "stop_error": StopError,
    "no_such_proc": Unreachable,
    "no_such_host": Unreachable,
    "host_unreachable": Unreachable,
    "link_lost": Unreachable,
    "unroutable": Unreachable,
    "undeliverable": Unreachable,
    "fate_unknown": FateUnknown,
    "queue_full": QueueFull,
    "too_large": TooLarge,
    "unauthorised": Unauthorised,
    "identity_mismatch": Unreachable,
    "io_error": SystemFailure,
    "sending_error": Unreachable,
    "casting_error": Unreachable,
    "refused": Refused,
    "would_block": Refused,
    "call_error": CallError,
}


def make(code: str, detail: str, position: int | None,
         about: list[dict[str, Any]] | None = None) -> Error:
    """The exception of an error of the C++ library; `about`: ranks, as it gives them."""
    reports: list[RankReport] = []
    if about:
        from meshbus.reports import rank_report
        reports = [rank_report(value) for value in about]
    return _BY_CODE.get(code, Error)(detail, code, position, reports)
