"""Where processes run: `HostMesh`."""
from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from meshbus import _checks, _client, _context, reports
from meshbus._owner import ContextManager
from meshbus.errors import ConfigurationError, Error, Unreachable
from meshbus.future import Future, in_thread
from meshbus.process import Process
from meshbus.procs import Handlers, ProcMesh
from meshbus.reports import MoveReport, OrderedResize, RankReport, RestartReport
from meshbus.resize_order import ResizeOrder
from meshbus.spec import Bind, Limits, Restart, from_template, spec
from meshbus.values import Axes, Extent

READY = 30.0
"""Seconds for hosts to be there."""


class HostMesh(ContextManager):
    """Hosts that run processes. Made by start(), ssh(), slurm(), attach() or take().

    `with`: at its end hosts that this program started are shut down, with everything on them;
    attached ones are left as they are.
    """

    _order = 1

    def __init__(self, core: _client.HostMesh, is_owner: bool) -> None:
        self._core = core
        self._is_owner = is_owner
        self._is_closed = False
        self._lock = threading.Lock()
        self._under_way: weakref.WeakSet[Future[ProcMesh]] = weakref.WeakSet()  # spawns
        _context.remember(self)

    @property
    def hosts(self) -> list[str]:
        """The addresses of the hosts, by rank."""
        return self._core.hosts

    @property
    def ref(self) -> str:
        """Names the hosts: a text for attach()."""
        return self._core.ref

    @property
    def extent(self) -> Extent:
        """How the hosts are arranged."""
        return Extent.from_shape(self._core.shape)

    def __len__(self) -> int:
        return len(self._core.hosts)

    # --- processes ----------------------------------------------------------------------------
    def spawn(self, command: Iterable[Any], per_host: Axes = None, *, name: str | None = None,
              mesh: bool = False, env: Mapping[str, str] | None = None,
              cwd: str | os.PathLike[str] | None = None, restart: Restart | None = None,
              limits: Limits | None = None, cpus: Iterable[int] = (),
              bind: Bind | str | None = None, process: Process | None = None,
              stdin: Iterable[int] = (), zygote: Iterable[str] | None = None,
              output: str | None = None,
              ready: float | None = None, grace: float | None = None,
              lease: float | None = None, partial: bool = False, mpi: bool | str = False,
              on_failure: Callable[[RankReport], object] | None = None,
              on_output: Callable[[int, str], object] | None = None,
              on_restart: Callable[[RestartReport], object] | None = None,
              on_move: Callable[[MoveReport], object] | None = None,
              on_resize_order: Callable[[ResizeOrder], object] | None = None) -> ProcMesh:
        """Starts a command on every host, `per_host` times: `{"gpu": 4}`, `"gpu=4"`, `4`.

        Each process gets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and their like. Returns when all
        are ready: when the command was executed, or, with mesh=True, when the program has called
        meshbus.init() (or the C++ bootstrap()). Raises SpawnError when one ends before, and stops
        the others (partial=True: it does not).

        bind says where ranks run: "core", "numa", "gpu" or a Bind; ProcMesh.bindings is what came
        of it. process has their user, nice value and resource limits. env adds to the environment;
        output="stream" brings what is written as events, or to on_output(rank, text); stdin names
        the ranks whose stdin is a pipe for ProcMesh.write(). ready and grace are seconds: for the
        start, and between SIGTERM and SIGKILL; lease: for how long the ranks live on attached hosts
        when this program is gone. zygote names modules for a command that is Python: each host
        imports them once, in a process of which all ranks are copies, so that a rank starts in the
        time of a fork. mpi=True makes the ranks one MPI job ("pmi1" for MPICH, "pmix" for Open MPI,
        where the program does not say it; docs/guide/mpi.md). on_failure is called with the report
        of each rank that ends though nobody asked; without it, wait() and the end of `with` raise
        MeshFailure. on_resize_order gets the orders of others for another size (`meshbus grow`,
        grow_mesh()); without it they are refused.
        """
        made = self.spawn_async(
            command, per_host, name=name, mesh=mesh, env=env, cwd=cwd, restart=restart,
            limits=limits, cpus=cpus, bind=bind, process=process, stdin=stdin, zygote=zygote,
            output=output, ready=ready, grace=grace, lease=lease, partial=partial, mpi=mpi,
            on_failure=on_failure, on_output=on_output, on_restart=on_restart,
            on_move=on_move, on_resize_order=on_resize_order)
        try:
            return made.result()
        except BaseException:
            # After Ctrl-C nobody has the mesh.
            if not made.cancel() and made.exception() is None:
                made.result().close()
            raise

    def spawn_async(self, command: Iterable[Any], per_host: Axes = None, *,
                    name: str | None = None, mesh: bool = False,
                    env: Mapping[str, str] | None = None,
                    cwd: str | os.PathLike[str] | None = None, restart: Restart | None = None,
                    limits: Limits | None = None, cpus: Iterable[int] = (),
                    bind: Bind | str | None = None, process: Process | None = None,
                    stdin: Iterable[int] = (), zygote: Iterable[str] | None = None,
                    output: str | None = None, ready: float | None = None,
                    grace: float | None = None, lease: float | None = None,
                    partial: bool = False, mpi: bool | str = False,
                    on_failure: Callable[[RankReport], object] | None = None,
                    on_output: Callable[[int, str], object] | None = None,
                    on_restart: Callable[[RestartReport], object] | None = None,
                    on_move: Callable[[MoveReport], object] | None = None,
                    on_resize_order: Callable[[ResizeOrder], object] | None = None
                    ) -> Future[ProcMesh]:
        """The same as a Future: `await hosts.spawn_async(...)`. cancel() gives the spawn up, and
        stops what was started."""
        if output is None:
            output = "capture" if on_output is None else "stream"
        elif output == "capture" and on_output is not None:
            raise ConfigurationError('on_output needs output="stream"')
        made = spec(command, mesh=mesh, env=dict(env or {}),
                    cwd=None if cwd is None else os.fspath(cwd), restart=restart, limits=limits,
                    cpus=cpus, bind=bind, output=output, ready=ready, partial=partial, grace=grace,
                    stdin=stdin, process=process, lease=lease, mpi=mpi)
        name = name or _name_of(made["command"][0])
        if zygote is not None:
            from_template(made, zygote)
        extent = Extent.of(per_host)
        inbox = _client.Inbox()
        handlers = Handlers(on_failure, on_output, on_restart, on_move, on_resize_order)
        pending = self._core.spawn(name, list(extent.labels), list(extent.sizes), made, inbox,
                                   on_resize_order is not None)
        future = Future(pending, lambda core: ProcMesh(core, inbox, self, handlers,
                                                        restart is not None))
        # Nobody waits any more: so it was given up.
        weakref.finalize(future, pending.discard).atexit = False
        with self._lock:
            self._under_way.add(future)
        return future

    def workers(self, per_host: Axes = None, *, name: str = "workers",
                python: str | None = None, env: Mapping[str, str] | None = None,
                cwd: str | os.PathLike[str] | None = None,
                setup: Callable[[], object] | None = None, zygote: Iterable[str] | None = None,
                restart: Restart | None = None, limits: Limits | None = None,
                cpus: Iterable[int] = (), bind: Bind | str | None = None,
                process: Process | None = None,
                output: str | None = None, ready: float | None = None,
                grace: float | None = None, lease: float | None = None, partial: bool = False,
                on_failure: Callable[[RankReport], object] | None = None,
                on_output: Callable[[int, str], object] | None = None,
                on_restart: Callable[[RestartReport], object] | None = None,
                on_move: Callable[[MoveReport], object] | None = None,
                on_resize_order: Callable[[ResizeOrder], object] | None = None) -> ProcMesh:
        """Starts Python processes for actors, `per_host` on every host: this interpreter (or
        `python`), with the sys.path of this program. `setup` is called in each of them first.
        `zygote=["numpy", "torch"]`: each host imports these once, and its workers are copies of
        that process. The rest is as for spawn()."""
        paths = [path or os.getcwd() for path in sys.path]
        mesh = self.spawn(
            [python or sys.executable, "-m", "meshbus.worker"], per_host, name=name, mesh=True,
            env={"PYTHONPATH": os.pathsep.join(paths), **(env or {})}, cwd=cwd, restart=restart,
            limits=limits, cpus=cpus, bind=bind, process=process, zygote=zygote, output=output,
            ready=ready, grace=grace, lease=lease, partial=partial, on_failure=on_failure,
            on_output=on_output, on_restart=on_restart, on_move=on_move,
            on_resize_order=on_resize_order)
        if setup is not None:
            try:
                mesh.run(setup)
            except BaseException:
                mesh.close()
                raise
        return mesh

    def workers_async(self, per_host: Axes = None, **options: Any) -> Future[ProcMesh]:
        """The same as a Future, with the same options: `await hosts.workers_async({"gpu": 4})`."""
        return in_thread(lambda: self.workers(per_host, **options), ProcMesh.close)

    def inside(self, per_host: Axes = None, *, wrapper: Iterable[str] = (), program: str = "",
               env: Mapping[str, str] | None = None, limits: Limits | None = None,
               cpus: Iterable[int] = (), containment: str = "",
               settings: Mapping[str, object] | None = None, ready: float = READY) -> HostMesh:
        """Hosts that are processes on these ones: `per_host` on each starts, and each becomes a
        host with processes of its own. limits and cpus bound all that is in it. Whatever ends the
        process ends its host, and is the reason in the reports of the ranks there.

        wrapper: words in front of `meshbus host`, such as ["unshare", "--mount"]; program:
        `meshbus` there, default that of this release, or the one in PATH of hosts that are reached
        over tcp."""
        return self.inside_async(per_host, wrapper=wrapper, program=program, env=env,
                                 limits=limits, cpus=cpus, containment=containment,
                                 settings=settings, ready=ready).result()

    def inside_async(self, per_host: Axes = None, *, wrapper: Iterable[str] = (),
                     program: str = "", env: Mapping[str, str] | None = None,
                     limits: Limits | None = None, cpus: Iterable[int] = (),
                     containment: str = "", settings: Mapping[str, object] | None = None,
                     ready: float = READY) -> Future[HostMesh]:
        """The same as a Future: `await hosts.inside_async(...)`."""
        is_local = all(host.startswith("unix:") for host in self.hosts)
        program = program or (_context.program() if is_local else "")
        extent = Extent.of(per_host)
        made = spec([program or "meshbus"], mesh=False, env=dict(env or {}), cwd=None,
                    restart=None, limits=limits, cpus=cpus, bind=None, output="capture",
                    ready=None, partial=False, grace=None, stdin=())
        return host_mesh(self._core.inside(list(extent.labels), list(extent.sizes), made,
                                           _checks.words("wrapper", wrapper), program,
                                           _checks.settings(settings), containment,
                                           _checks.seconds("ready", ready)), True)

    # --- what is there ------------------------------------------------------------------------
    def meshes(self, timeout: float = 10, *, partial: bool = False) -> list[MeshInfo]:
        """The meshes on these hosts, of any program. Raises Unreachable when hosts do not answer;
        partial=True: what the others know."""
        answer = Future(self._core.meshes(_checks.seconds("timeout", timeout)), _same)
        return [MeshInfo(mesh) for mesh in _complete(answer.result(), partial)]

    def events(self, mesh: ProcMesh | str = "", timeout: float = 10, *,
               partial: bool = False) -> list[dict[str, Any]]:
        """What the hosts wrote down about a mesh, or about all: ends and their reasons. Raises
        Unreachable when hosts do not answer; partial=True: what the others know."""
        wanted = mesh if isinstance(mesh, str) else mesh.name
        answer = Future(self._core.events(wanted, _checks.seconds("timeout", timeout)), _same)
        return _complete(answer.result(), partial)

    def logs(self, mesh: ProcMesh | str, *ranks: int, tail: int = 100,
             follow: bool = False) -> Iterator[tuple[int, str, bytes]]:
        """What ranks of a mesh wrote, `tail` lines of each stream at first: (rank, "stdout" or
        "stderr", bytes). follow: goes on until all these ranks have ended. Where bytes are missing,
        because they were too many, it is (rank, "missed", the number in digits)."""
        for rank in ranks:
            _checks.whole("a rank", rank)
        if _checks.whole("tail", tail) < 0:
            raise ConfigurationError(f"tail is {tail}: expected a number of lines from 0")
        inbox = _client.Inbox()
        wanted = mesh if isinstance(mesh, str) else mesh.name
        stream = Future(self._core.logs(wanted, sorted(ranks), tail, follow, inbox),
                        _same).result()
        return _read(stream, inbox)

    # --- orders to the launchers of others ----------------------------------------------------
    def grow_mesh(self, mesh: str, hosts: Iterable[str] | None = None, *, blocks: int = 1,
                  timeout: float = 60) -> OrderedResize:
        """Orders the launcher of a mesh on these hosts, by its whole name, to add blocks to it, as
        ProcMesh.grow() does, and waits for what comes of it. Its launcher has to take such orders
        (on_resize_order); `meshbus run` and Pool do. It gives the order up at the timeout. Raises
        NotExist, Unauthorised; Refused and SpawnError with what the launcher says, whose mesh is
        as it was; Timeout and FateUnknown when it has not answered: look at the size then."""
        return self.grow_mesh_async(mesh, hosts, blocks=blocks, timeout=timeout).result()

    def grow_mesh_async(self, mesh: str, hosts: Iterable[str] | None = None, *, blocks: int = 1,
                        timeout: float = 60) -> Future[OrderedResize]:
        """The same as a Future."""
        named = [_checks.text("a host", host) for host in ([] if hosts is None else hosts)]
        if hosts is not None and not named:
            raise ConfigurationError("grow_mesh(): there is no host in the list")
        return Future(self._core.grow_mesh(_checks.text("mesh", mesh), named,
                                           _checks.blocks(blocks),
                                           _checks.seconds("timeout", timeout)), _ordered)

    def shrink_mesh(self, mesh: str, blocks: int = 1, *, grace: float | None = None,
                    timeout: float = 60) -> OrderedResize:
        """The same for ProcMesh.shrink(): the last blocks go."""
        return self.shrink_mesh_async(mesh, blocks, grace=grace, timeout=timeout).result()

    def shrink_mesh_async(self, mesh: str, blocks: int = 1, *, grace: float | None = None,
                          timeout: float = 60) -> Future[OrderedResize]:
        """The same as a Future."""
        return Future(self._core.shrink_mesh(_checks.text("mesh", mesh), _checks.blocks(blocks),
                                             _checks.optional("grace", grace),
                                             _checks.seconds("timeout", timeout)), _ordered)

    def drain(self, mesh: ProcMesh | str = "", *, reason: str = "drain", hold: bool = False,
              grace: float | None = None) -> dict[str, int]:
        """Stops the processes of a mesh, or all, of any program, and waits. hold: the hosts
        start no such procs until resume()."""
        wanted = mesh if isinstance(mesh, str) else mesh.name
        return Future(self._core.drain(wanted, _checks.text("reason", reason), hold,
                                       _checks.optional("grace", grace)), _counts).result()

    def resume(self, mesh: ProcMesh | str = "") -> None:
        """Ends the hold of a drain."""
        wanted = mesh if isinstance(mesh, str) else mesh.name
        Future(self._core.resume(wanted), _same).result()

    # --- ends ---------------------------------------------------------------------------------
    def shutdown(self, timeout: float = 30, grace: float | None = None,
                 reason: str = "shutdown") -> dict[str, int]:
        """Stops all processes and ends the hosts, and waits: how many were attempted, ok, failed,
        and how many hosts are down. Raises StopError with the hosts that failed."""
        return self.shutdown_async(timeout, grace, reason).result()

    def shutdown_async(self, timeout: float = 30, grace: float | None = None,
                       reason: str = "shutdown") -> Future[dict[str, int]]:
        """The same as a Future."""
        return Future(self._core.shutdown(_checks.seconds("timeout", timeout),
                                          _checks.optional("grace", grace),
                                          _checks.text("reason", reason)), _counts)

    def close(self) -> None:
        """Hosts of this program are told to end, without waiting; attached ones stay."""
        if self._is_closed:
            return
        self._is_closed = True
        _context.forget(self)
        with self._lock:
            spawns = list(self._under_way)
        for spawn in spawns:
            spawn.cancel()  # it keeps its hosts
        self._core.close()

    def _end(self, has_error: bool) -> None:
        try:
            if self._is_owner and not self._is_closed:
                self.shutdown()
        except Error:
            if not has_error:
                raise
        finally:
            self.close()

    def __repr__(self) -> str:
        owner = "" if self._is_owner else " (attached)"
        return f"<HostMesh {self.extent}{owner}: {', '.join(self.hosts[:4])}>"

    def _repr_html_(self) -> str:
        import html
        rows = "".join(f"<tr><td>{rank}<td>{html.escape(host)}"
                       for rank, host in enumerate(self.hosts))
        return f"<table><caption>{self.extent}</caption><tr><th>rank<th>host{rows}</table>"


class MeshInfo:
    """A mesh as the hosts know it: of this program or of another one."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.name: str = value["name"]
        """With its uuid."""
        self.owner: str = value["owner"]
        """The launcher or controller that answers for it."""
        self.command: str = value["command"]
        """What was started, for people."""
        self.is_mesh: bool = value["is_mesh"]
        """Its processes are ranks on the bus."""
        self.extent = Extent.from_shape(value["shape"])
        """How its ranks are arranged."""
        self.ranks: list[RankReport] = [reports.rank_report(rank) for rank in value["ranks"]]
        """Its ranks on these hosts."""

    def __repr__(self) -> str:
        return f"<MeshInfo {self.name}: {self.extent}: {self.command}>"


def _name_of(word: str) -> str:
    base = os.path.basename(word).split(".")[0]
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in base) or "procs"


def _same(value: Any) -> Any:
    return value


def _complete(answer: tuple[list[dict[str, Any]], list[tuple[str, str]]],
              partial: bool) -> list[dict[str, Any]]:
    """What hosts answered, if all of them did, or some are enough."""
    found, silent = answer
    if silent and not partial:
        raise Unreachable("hosts that do not answer: "
                          + "; ".join(f"{host}: {problem}" for host, problem in sorted(silent))
                          + ". partial=True: what the others know")
    return found


def _ordered(value: Any) -> OrderedResize:
    size, ranks, hosts = value
    return OrderedResize(size, list(ranks), list(hosts))


def _counts(value: dict[str, int]) -> dict[str, int]:
    return value


def _read(stream: _client.LogStream,
          inbox: _client.Inbox) -> Iterator[tuple[int, str, bytes]]:
    try:
        while (item := inbox.get()) is not None:
            if item[0] == "end":
                if item[1] is not None:
                    raise item[1]
                return
            if item[4]:
                yield item[1], "missed", str(item[4]).encode()
            if item[3] or not item[4]:
                yield item[1], "stdout" if item[2] == 1 else "stderr", item[3]
    finally:
        stream.close()
        inbox.close()


def host_mesh(pending: _client.Pending, is_owner: bool) -> Future[HostMesh]:
    """For the package: the hosts, later."""
    return Future(pending, lambda core: HostMesh(core, is_owner))
