"""What to start: `Restart`, `Limits`, `Bind`, and the spec that the C++ library takes."""
from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from meshbus._checks import seconds
from meshbus.errors import ConfigurationError
from meshbus.process import Process, process_spec


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
    spares: tuple[str, ...] = ()
    """Addresses of spare hosts, best first, with gang="one": the ranks of a lost host start again
    there while the others run on."""

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


def ignore(report: object) -> None:
    """An `on_failure` that does nothing: failures are no errors then."""


def _one_of(what: str, value: str, wanted: tuple[str, ...]) -> None:
    if value not in wanted:
        raise ConfigurationError(f"{what} is {value!r}; there are: {', '.join(wanted)}")


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
         lease: float | None = None, mpi: bool | str = False) -> dict[str, Any]:
    """For the package: what _client.HostMesh.spawn() takes."""
    _is_a("restart", restart, Restart)
    _is_a("limits", limits, Limits)
    if isinstance(bind, str):
        bind = Bind(bind)
    _is_a("bind", bind, Bind)
    _is_a("process", process, Process)
    _one_of("output", output, ("capture", "stream"))
    if not isinstance(mpi, bool):
        _one_of("mpi", mpi, ("pmi1", "pmix"))
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
    if mpi is not False:
        made["mpi"] = "auto" if mpi is True else mpi
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
        made.update(process_spec(process))
    if restart is not None:
        made["restart"] = {"on": restart.on, "budget": restart.budget, "gang": restart.gang,
                           "delay": restart.delay, "max_delay": restart.max_delay,
                           "window": restart.window,
                           "codes": _numbers("Restart.codes", restart.codes)}
        made["spares"] = [str(host) for host in restart.spares]
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
