"""What to start: `Restart`, `Limits`, `Bind`, `Process`, and the spec for the C++ library."""
from __future__ import annotations

import grp
import os
import pwd
import resource
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from meshbus._checks import seconds
from meshbus.errors import ConfigurationError


@dataclass(frozen=True)
class Restart:
    """Which ends of a rank are answered by a new life, how soon, and how often."""

    on: str = "failure"
    """"failure", "always" (exit 0 too) or "never"."""
    budget: int | None = None
    """How often within `window`; None: no limit. With gang="one" for each rank, else for all."""
    gang: str = "one"
    """Which ranks: "one" (the failed rank), "all", or "rest" (it and all after it)."""
    delay: float = 1.0
    """Seconds from an end to the new life, at least; doubled each time, up to max_delay."""
    max_delay: float = 30.0
    """The longest delay."""
    window: float = 0.0
    """Seconds for the budget; 0: as long as the mesh lives."""
    codes: tuple[int, ...] = ()
    """Only ends with these codes (128 + signal); empty: all that `on` names."""

    def __post_init__(self) -> None:
        _one_of("Restart.on", self.on, ("failure", "always", "never"))
        _one_of("Restart.gang", self.gang, ("one", "all", "rest"))


@dataclass(frozen=True)
class Limits:
    """What a rank and its descendants may use together."""

    memory: int | str | None = None
    """Bytes, or "2G": a rank that passes it is killed (cause "out_of_memory")."""
    processes: int | None = None
    """Processes and threads."""
    cpu: float | None = None
    """CPUs: 1.5 is 150 ms of CPU time in each 100 ms."""


@dataclass(frozen=True)
class Bind:
    """Where ranks run: each host binds its ranks to CPUs of its own choice (docs/guide/binding.md).
    With more ranks than cores, nodes or GPUs, ranks next to each other share one."""

    to: str = "core"
    """"core", "numa" (the CPUs of one NUMA node), "gpu" (those beside one GPU) or "none"."""
    cores: int = 1
    """With "core": how many each rank gets."""
    memory: str = "prefer"
    """Memory from the NUMA node of these CPUs: "prefer", "only" or "any" (as the kernel has it)."""
    visible_devices: bool = False
    """Each rank sees one GPU, by its local rank: CUDA_VISIBLE_DEVICES and its like name it."""

    def __post_init__(self) -> None:
        _one_of("Bind.to", self.to, ("none", "core", "numa", "gpu"))
        _one_of("Bind.memory", self.memory, ("prefer", "only", "any"))
        if self.cores < 1 or (self.cores > 1 and self.to != "core"):
            raise ConfigurationError(f'Bind.cores is {self.cores}; it is for Bind("core"), from 1')


@dataclass(frozen=True)
class Process:
    """What each process is set to before it executes its command."""

    user: int | str | None = None
    """It runs as this user, a name or a number, on hosts that run as root."""
    group: int | str | None = None
    """Its group; default: that of the user. A user that this machine does not know needs one."""
    nice: int | None = None
    """-20 (first) to 19 (last)."""
    umask: int | None = None
    """The file mode creation mask, such as 0o027."""
    rlimits: Mapping[str, int | tuple[int, int]] = field(default_factory=dict)
    """Resource limits by the names of `man setrlimit`: {"nofile": 1024} or {"core": (0, 4096)}, the
    soft and the hard one; -1: no limit."""
    clean_env: bool = False
    """It inherits no variables: it has those of env and of meshbus alone."""
    no_new_privs: bool = False
    """No setuid program gives it more rights."""

    def __post_init__(self) -> None:
        if self.nice is not None and not _is_number(self.nice, -20, 19):
            raise ConfigurationError(f"Process.nice is {self.nice!r}: expected -20 to 19")
        if self.umask is not None and not _is_number(self.umask, 0, 0o777):
            raise ConfigurationError(f"Process.umask is {self.umask!r}: expected 0 to 0o777")


def ignore(report: object) -> None:
    """An `on_failure` that does nothing: failures are no errors then."""


def _one_of(what: str, value: str, wanted: tuple[str, ...]) -> None:
    if value not in wanted:
        raise ConfigurationError(f"{what} is {value!r}; there are: {', '.join(wanted)}")


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_a(what: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise ConfigurationError(f"{what} is {value!r}: expected meshbus.{kind.__name__}(...)")


def _numbers(what: str, values: Iterable[int]) -> list[int]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{what} is {values!r}: expected a list of numbers")
    numbers = list(values)
    for number in numbers:
        if not isinstance(number, int) or not 0 <= number < 1 << 32:
            raise ConfigurationError(f"{what} has {number!r}: expected numbers from 0")
    return numbers


_NO_LIMIT = (1 << 64) - 1


def _rlimits(limits: Mapping[str, int | tuple[int, int]]) -> list[tuple[int, int, int]]:
    if not isinstance(limits, Mapping):
        raise ConfigurationError(f'Process.rlimits is {limits!r}: expected a dict, such as '
                                 '{"nofile": 1024}')
    made: list[tuple[int, int, int]] = []
    for name, values in limits.items():
        number = getattr(resource, f"RLIMIT_{str(name).upper()}", None)
        if number is None:
            known = sorted(one[7:].lower() for one in dir(resource) if one.startswith("RLIMIT_"))
            raise ConfigurationError(f"Process.rlimits has {name!r}; there are: {', '.join(known)}")
        pair = values if isinstance(values, tuple) else (values, values)
        if len(pair) != 2 or not all(_is_number(one, -1, _NO_LIMIT) for one in pair):
            raise ConfigurationError(f"Process.rlimits[{name!r}] is {values!r}: expected a number, "
                                     "or (soft, hard); -1 is no limit")
        soft, hard = (_NO_LIMIT if one == -1 else one for one in pair)
        made.append((number, soft, hard))
    return made


def _id(what: str, value: object) -> int:
    # The last one means "leave it as it is" to the kernel.
    if not _is_number(value, 0, (1 << 32) - 2):
        raise ConfigurationError(f"{what} is {value!r}: expected a name, or a number from 0")
    return int(value)  # type: ignore[call-overload, no-any-return]


def _ids(process: Process) -> dict[str, Any]:
    """Its user, group and supplementary groups, as numbers."""
    made: dict[str, Any] = {}
    try:
        if isinstance(process.group, str):
            made["gid"] = grp.getgrnam(process.group).gr_gid
        elif process.group is not None:
            made["gid"] = _id("Process.group", process.group)
        if process.user is None:
            return made
        if isinstance(process.user, str):
            user = pwd.getpwnam(process.user)
        else:
            made["uid"] = _id("Process.user", process.user)
            user = pwd.getpwuid(process.user)
    except KeyError as error:
        if "uid" in made and "gid" in made:
            return made  # this machine does not know it, and has no groups for it
        hint = "; give its group, too" if "uid" in made else ""
        raise ConfigurationError(f"Process: {error.args[0]}{hint}") from None
    made["uid"] = user.pw_uid
    made.setdefault("gid", user.pw_gid)
    made["groups"] = os.getgrouplist(user.pw_name, made["gid"])
    return made


def _process(process: Process) -> dict[str, Any]:
    made = _ids(process)
    if process.nice is not None:
        made["nice"] = process.nice
    if process.umask is not None:
        made["umask"] = process.umask
    if process.rlimits:
        made["rlimits"] = _rlimits(process.rlimits)
    made["clean_environment"] = bool(process.clean_env)
    made["no_new_privs"] = bool(process.no_new_privs)
    return made


def _bytes_of(text: int | str) -> int:
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    try:
        if isinstance(text, int):
            count = text
        else:
            number, unit = text.strip().rstrip("iBb"), ""
            if number and number[-1].upper() in units:
                number, unit = number[:-1], number[-1].upper()
            count = int(float(number) * units[unit])
        if not 0 < count < 1 << 63:
            raise ValueError
    except (AttributeError, OverflowError, ValueError):
        raise ConfigurationError(f"memory={text!r}: expected a number of bytes, or one like "
                                 '"512M" or "2G"') from None
    return count


def spec(command: Iterable[Any], *, mesh: bool, env: dict[str, str] | None, cwd: str | None,
         restart: Restart | None, limits: Limits | None, cpus: Iterable[int],
         bind: Bind | str | None, output: str, ready: float | None, partial: bool,
         grace: float | None, stdin: Iterable[int], process: Process | None = None,
         lease: float | None = None) -> dict[str, Any]:
    """For the package: what _client.HostMesh.spawn() takes."""
    _is_a("restart", restart, Restart)
    _is_a("limits", limits, Limits)
    if isinstance(bind, str):
        bind = Bind(bind)
    _is_a("bind", bind, Bind)
    _is_a("process", process, Process)
    _one_of("output", output, ("capture", "stream"))
    if isinstance(command, (str, bytes)):
        raise ConfigurationError(f"the command is a list of words: {command.split()!r}, or "
                                 f'["sh", "-c", {command!r}]')
    words = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in command]
    if not words:
        raise ConfigurationError("the command is empty")
    made: dict[str, Any] = {
        "is_mesh": mesh, "command": words, "partial": partial, "is_streamed": output == "stream",
        "environment": [(str(key), str(value)) for key, value in (env or {}).items()],
        "cpus": _numbers("cpus", cpus), "input_ranks": sorted(_numbers("stdin", stdin))}
    if bind is not None:
        made["bind"] = {"to": bind.to, "cores": bind.cores, "memory": bind.memory,
                        "visible_devices": bind.visible_devices}
    if cwd is not None:
        made["directory"] = os.fspath(cwd)
    if ready is not None:
        made["ready"] = seconds("ready", ready)
    if grace is not None:
        made["grace"] = seconds("grace", grace)
    if lease is not None:
        made["lease"] = seconds("lease", lease)
    if process is not None:
        made.update(_process(process))
    if restart is not None:
        made["restart"] = {"on": restart.on, "budget": restart.budget, "gang": restart.gang,
                           "delay": restart.delay, "max_delay": restart.max_delay,
                           "window": restart.window,
                           "codes": _numbers("Restart.codes", restart.codes)}
    if limits is not None:
        if limits.memory is not None:
            made["memory"] = _bytes_of(limits.memory)
        if limits.processes is not None:
            made["pids"] = limits.processes
        if limits.cpu is not None:
            made["cpu"] = limits.cpu
    return made


def from_template(made: dict[str, Any], modules: Iterable[str]) -> None:
    """For the package: the command of a spec becomes that of a template with these modules, which
    meshbus/template.py is."""
    if isinstance(modules, str):
        raise ConfigurationError(f"zygote is a list of modules: [{modules!r}]")
    python, *rest = made["command"]
    if "python" not in os.path.basename(python) or not rest or \
            (rest[0].startswith("-") and (rest[0] != "-m" or len(rest) == 1)):
        raise ConfigurationError(
            "zygote is for commands like [sys.executable, SCRIPT, ...] and [sys.executable, "
            f'"-m", MODULE, ...], not {made["command"]!r}')
    imports = [word for module in modules for word in ("-i", str(module))]
    made["command"] = [python, "-m", "meshbus.template", *imports, "--", *rest]
    made["is_template"] = True
