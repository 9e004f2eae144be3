"""meshbus: launches, addresses and supervises meshes of processes over many hosts.

    import meshbus

    class Counter(meshbus.Actor):
        def __init__(self, start: int) -> None:
            self.total = start

        @meshbus.endpoint
        def add(self, n: int) -> int:
            self.total += n
            return self.total

    with meshbus.start(hosts=2) as hosts, hosts.workers(per_host={"gpu": 2}) as procs:
        counters = procs.spawn(Counter, 40)
        print(list(counters.add(2)))                    # [42, 42, 42, 42]

docs/guide/python.md begins at the beginning. What a rank needs is imported at once; what a launcher
needs, when it is used first.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from meshbus._build_info import VERSION as __version__
from meshbus._progress import progress
from meshbus.actor import Actor, Endpoint, endpoint, this_actor
from meshbus.errors import (ActorFailure, CallError, ConfigurationError, Error, FateUnknown,
                            MeshFailure, NotExist, OutOfRange, ParseError, QueueFull, Refused,
                            RemoteError, SpawnError, StopError, SystemFailure, Timeout, TooLarge,
                            Unauthorised, Unreachable, VersionMismatch)
from meshbus.values import Extent, Point, ValueMesh

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshbus.actors import ActorMesh
    from meshbus.children import ActorContext, Child, ChildFailure
    from meshbus.future import Future, as_completed, wait
    from meshbus.hosts import HostMesh
    from meshbus.pool import BrokenPool, Pool
    from meshbus.proc import (Proc, StopRequest, init, is_rank, own_role, role, roles,
                              this_proc)
    from meshbus.procs import ProcMesh
    from meshbus.reports import (ActorReport, Binding, Event, MoveReport, OrderedResize, Outcome,
                                 RankReport, RestartReport)
    from meshbus.resize_order import ResizeOrder
    from meshbus.process import Process
    from meshbus.spec import Bind, Limits, Restart, ignore
    from meshbus.starts import (attach, attach_async, slurm, slurm_async, ssh, ssh_async, start,
                                start_async, take, take_async)

_LAZY = {
    "ActorMesh": "actors",
    "Child": "children", "ChildFailure": "children", "ActorContext": "children",
    "Future": "future", "as_completed": "future", "wait": "future",
    "HostMesh": "hosts",
    "attach": "starts", "slurm": "starts", "ssh": "starts", "start": "starts", "take": "starts",
    "attach_async": "starts", "slurm_async": "starts", "ssh_async": "starts",
    "start_async": "starts", "take_async": "starts",
    "Proc": "proc", "init": "proc", "is_rank": "proc", "own_role": "proc",
    "role": "proc", "roles": "proc", "StopRequest": "proc", "this_proc": "proc",
    "BrokenPool": "pool", "Pool": "pool",
    "ActorReport": "reports", "Binding": "reports", "Event": "reports",
    "MoveReport": "reports", "OrderedResize": "reports", "Outcome": "reports",
    "RankReport": "reports", "RestartReport": "reports", "ResizeOrder": "resize_order",
    "ProcMesh": "procs",
    "Bind": "spec", "Limits": "spec", "Process": "process", "Restart": "spec", "ignore": "spec",
}

__all__ = [
    "Actor", "ActorContext", "ActorFailure", "ActorMesh", "ActorReport", "Bind", "Binding",
    "BrokenPool", "CallError", "Child", "ChildFailure", "ConfigurationError", "Endpoint",
    "Error", "Event", "Extent", "FateUnknown", "Future", "HostMesh", "Limits", "MeshFailure",
    "MoveReport", "NotExist", "OrderedResize", "OutOfRange", "Outcome", "ParseError", "Point",
    "Pool", "Proc",
    "ProcMesh", "Process", "QueueFull", "RankReport", "Refused", "RemoteError", "ResizeOrder",
    "Restart", "RestartReport", "SpawnError", "StopError", "StopRequest", "SystemFailure",
    "Timeout", "TooLarge", "Unauthorised", "Unreachable", "ValueMesh", "VersionMismatch",
    "as_completed", "attach", "attach_async", "context", "endpoint", "ignore", "init",
    "is_rank", "own_role", "progress", "role", "roles", "slurm", "slurm_async", "ssh",
    "ssh_async", "start", "start_async", "take", "take_async", "this_actor", "this_proc",
    "versions", "wait",
]


def context(settings: Mapping[str, object] | None = None) -> None:
    """Connects this launcher to the bus with these settings, as `meshbus config` lists them. Only
    needed for settings: otherwise the first host mesh does it."""
    from meshbus import _context
    _context.connect(settings)


def versions() -> dict[str, str]:
    """The release of this package, the protocol that it speaks, the program that it starts hosts
    with (of the same release, or this raises ConfigurationError), and the Python that workers must
    have."""
    import sys
    from meshbus import _build_info, _context
    return {"meshbus": __version__, "protocol": _build_info.PROTOCOL,
            "program": _context.program(),
            "python": f"{sys.version_info[0]}.{sys.version_info[1]}"}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        import difflib
        near = difflib.get_close_matches(name, __all__, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'meshbus' has no attribute {name!r}{hint}", name=name)
    value = getattr(importlib.import_module(f"meshbus.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
