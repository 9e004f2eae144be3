"""`Process`: the settings of a process that is started."""
from __future__ import annotations

import grp
import os
import pwd
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from meshbus.errors import ConfigurationError

_NO_LIMIT = (1 << 64) - 1


@dataclass(frozen=True)
class Process:
    """What each process is set to before it executes its command."""

    user: int | str | None = None
    """It runs as this user, on hosts that run as root: a number, or a name that this machine
    knows."""
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


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


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


def process_spec(process: Process) -> dict[str, Any]:
    """For the package: its part of a spec."""
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
