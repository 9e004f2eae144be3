"""What is known about ranks and actors: plain values that can be kept, compared and pickled."""
from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Binding:
    """How one rank is bound: see `Bind`."""

    rank: int
    """Its position in the mesh as it was made."""
    cpus: tuple[int, ...]
    """The CPUs that it may run on; empty: all of its host."""
    memory_nodes: tuple[int, ...]
    """The NUMA nodes of these CPUs."""
    memory: str
    """What the kernel was told about its memory: "prefer", "only", or "any" (nothing)."""
    gpu: str
    """The PCI address of its GPU; "": none was chosen."""
    visible_devices: str
    """What CUDA_VISIBLE_DEVICES and its like were set to; "": they were not."""


@dataclass(frozen=True)
class OrderedResize:
    """What came of an order for another size: see HostMesh.grow_mesh()."""

    size: int
    """The ranks of the mesh now."""
    ranks: list[int]
    """Those that came, or went."""
    hosts: list[str]
    """The host of each block of them, in order."""


@dataclass(frozen=True)
class RankReport:
    """One rank: its place, its state, and, when it has ended, its exit report."""

    rank: int
    """Its position in the mesh as it was made."""
    host: str
    """The address of its host."""
    host_index: int
    """Which host of the mesh."""
    point: str
    """Where in the mesh: "host=0/2,gpu=1/4"."""
    state: str
    """unknown, starting, running, ready, stopping, stopped, killed, failed."""
    pid: int
    """On its host; 0: it never had one."""
    exit_code: int
    """When it exited."""
    signal: int
    """Not 0: it was ended by this signal."""
    core_dumped: bool
    """With `signal`: it left a core."""
    started: float | None
    """When it got its pid, in seconds since 1970, by the clock of its host."""
    ended: float | None
    """When it ended, by that clock."""
    restarts: int
    """How often it was started before this life."""
    is_restarting: bool
    """It is, or will be, started again."""
    reason: str
    """Why it ended, in words: "exit 3", "killed by SIGSEGV"."""
    code: str
    """The error code of a start that failed, else "none"."""
    os_error: int
    """The errno of a start that failed."""
    cause: str
    """The reason, for programs: "exited", "signaled", "out_of_memory", ..."""
    consequence: bool
    """It ended because something else had ended before."""
    because: int | None
    """The rank whose end was the reason."""
    stderr_tail: str
    """The last lines that it wrote to stderr."""
    stopped_by: str
    """What asked for its end."""
    stop_reason: str
    """The reason that was given."""
    max_rss_bytes: int
    """The most memory that it had resident."""
    user_time: float
    """Seconds of CPU time of its own code."""
    system_time: float
    """Seconds of CPU time in the kernel for it."""
    trouble: str
    """none, slow, frozen, stuck: what its host finds wrong with it while it runs."""
    trouble_reason: str
    """The same in words."""
    is_terminal: bool
    """It has ended."""
    is_failure: bool
    """It has ended in a way that nobody asked for."""
    shell_code: int
    """How a shell would say it: the exit code, or 128 + signal."""
    text: str = field(repr=False)
    """All in one line; `str(report)` is this."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Outcome:
    """How a mesh ended, or what it is at."""

    ranks: list[RankReport]
    """All of them, by rank; of each its last life."""
    first_failure: RankReport | None
    """The failed rank that ended first."""
    former_lives: list[RankReport]
    """Lives that were followed by another one."""
    exit_code: int
    """What a command that ran this mesh would exit with."""
    trouble: str | None = None
    """Why an MPI job has failed as a whole: "MPI_Abort(7) by rank 3"; also when no rank has."""
    trouble_rank: int | None = None
    """The rank that is the reason for it."""

    def __str__(self) -> str:
        if self.trouble is not None:
            return f"{len(self.ranks)} ranks; {self.trouble}"
        if self.first_failure is not None:
            return f"{len(self.ranks)} ranks; first failure: {self.first_failure}"
        ended = sum(report.is_terminal for report in self.ranks)
        return f"{len(self.ranks)} ranks, {ended} ended, none failed"

    def _repr_html_(self) -> str:
        return table(self.ranks, str(self))


@dataclass(frozen=True)
class RestartReport:
    """An end that is answered by a new life."""

    cause: RankReport
    """The end that is the reason."""
    ranks: list[int]
    """The ranks that are restarted."""
    restart: int
    """Counts against the budget, from 1."""
    budget: int | None
    """The budget of the policy."""
    delay: float
    """Seconds from the end to the new life, at least."""
    is_move: bool = False
    """Their host is lost, and they start on a spare (Restart.spares); no budget is used."""


@dataclass(frozen=True)
class MoveReport:
    """Ranks of a lost host that are being started on a spare (Restart.spares)."""

    ranks: list[int]
    """Those that are started there."""
    lost_host: str
    """The address of the host that is lost."""
    new_host: str
    """That of the spare that has its place in the mesh now."""


@dataclass(frozen=True)
class ActorReport:
    """One actor, as its proc, or the end of its proc, tells."""

    rank: int
    """Its rank in the mesh of actors."""
    actor: str
    """Its address."""
    point: str
    """Where in the mesh."""
    status: str
    """Running, Stopped, Failed(...), ..."""
    reason: str
    """Why it ended."""
    message: str
    """Failed: in which endpoint."""
    handled: int
    """Messages and calls that it has handled."""
    dropped: int
    """Messages that were in its mailbox at its end."""
    proc: RankReport | None
    """Its proc has ended, and the actor with it: the exit report."""
    text: str = field(repr=False)
    """All in one line; `str(report)` is this."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Event:
    """Something that happened to a mesh of procs. `kind` says which of the others are there."""

    kind: str
    """state (report), failure (report), restart (restart), move (move), output (rank, stream,
    data), end (outcome)."""
    report: RankReport | None = None
    """The rank, as it was then."""
    outcome: Outcome | None = None
    """How the whole mesh ended: the last event."""
    restart: RestartReport | None = None
    """Which ranks are started again, and why."""
    move: MoveReport | None = None
    """Which ranks of a lost host start on another one."""
    rank: int = -1
    """Which rank it is about; -1: all."""
    stream: str = ""
    """stdout or stderr."""
    data: bytes = b""
    """Whole lines that the rank wrote."""

    @property
    def text(self) -> str:
        """The data as text."""
        return self.data.decode(errors="replace")


def rank_report(value: dict[str, Any]) -> RankReport:
    """For the package: the report of a dictionary of the C++ library."""
    return RankReport(**value)


def outcome(value: dict[str, Any]) -> Outcome:
    """For the package: the outcome of a dictionary of the C++ library."""
    first = value["first_failure"]
    return Outcome([rank_report(rank) for rank in value["ranks"]],
                   None if first is None else rank_report(first),
                   [rank_report(rank) for rank in value["former_lives"]], value["exit_code"],
                   value["trouble"], value["trouble_rank"])


def actor_report(value: dict[str, Any]) -> ActorReport:
    """For the package: the report of a dictionary of the C++ library."""
    proc = value.pop("proc")
    return ActorReport(proc=None if proc is None else rank_report(proc), **value)


def event(item: tuple[Any, ...]) -> Event:
    """For the package: the event of an item of an inbox."""
    kind = item[0]
    if kind in ("state", "failure"):
        report = rank_report(item[1])
        return Event(kind, report=report, rank=report.rank)
    if kind == "restart":
        value = dict(item[1])
        report = rank_report(value.pop("cause"))
        return Event(kind, restart=RestartReport(cause=report, **value), report=report,
                     rank=report.rank)
    if kind == "move":
        return Event(kind, move=MoveReport(**item[1]))
    if kind == "output":
        return Event(kind, rank=item[1], stream="stdout" if item[2] == 1 else "stderr",
                     data=item[3])
    return Event(kind, outcome=outcome(item[1]))


def actor_table(actors: list[ActorReport], caption: str) -> str:
    """For notebooks: actors as a table."""
    rows = "".join(
        f"<tr><td>{a.rank}<td>{html.escape(a.status)}<td>{a.handled}"
        for a in actors)
    return (f"<table><caption>{html.escape(caption)}</caption>"
            f"<tr><th>rank<th>status<th>handled{rows}</table>")


def table(ranks: list[RankReport], caption: str) -> str:
    """For notebooks: ranks as a table."""
    rows = "".join(
        f"<tr><td>{r.rank}<td>{html.escape(r.point)}<td>{r.state}<td>{r.pid or ''}"
        f"<td>{html.escape(r.reason)}" for r in ranks)
    return (f"<table><caption>{html.escape(caption)}</caption>"
            f"<tr><th>rank<th>point<th>state<th>pid<th>reason{rows}</table>")
