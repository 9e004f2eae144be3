"""The one connection of this process, and what has to be closed before it."""
from __future__ import annotations

import atexit
import functools
import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any, Protocol

from meshbus import _build_info, _checks, _client, errors, future

_client.set_error_factory(errors.make)

_lock = threading.Lock()
_context: _client.Context | None = None


class Owner(Protocol):
    """What is closed when the interpreter ends: high orders first."""

    _order: int

    def close(self) -> None:
        """Ends it, without waiting for the outcome."""


_open: weakref.WeakSet[Any] = weakref.WeakSet()


def connect(settings: Mapping[str, object] | None = None) -> _client.Context:
    """The context of this process; made when it is needed first."""
    global _context
    with _lock:
        if _context is None:
            _context = _client.Context(_checks.settings(settings))
        elif settings:
            raise errors.Refused("there is a context already; its settings come first: "
                                 "call meshbus.context(settings=...) before everything else")
        return _context


def remember(owner: Owner) -> None:
    """Closes it when the interpreter ends."""
    _open.add(owner)


def forget(owner: Owner) -> None:
    """It was closed."""
    _open.discard(owner)


def program() -> str:
    """The `meshbus` program of this release. PATH is never searched: another release may be
    there. MESHBUS_BIN wins, if its program is of this release."""
    if named := os.environ.get("MESHBUS_BIN"):
        inside = os.path.join(named, "meshbus")
        return _checked(inside if os.access(inside, os.X_OK) else named)
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in ("_bin", _build_info.PROGRAM_FOLDER):
        path = os.path.normpath(os.path.join(here, folder, "meshbus"))
        if os.access(path, os.X_OK):
            return path
    raise errors.ConfigurationError(
        f"there is no meshbus program for the package in {here}; set MESHBUS_BIN to the folder "
        "of the programs")


@functools.cache
def _checked(path: str) -> str:
    """The path, if it is a `meshbus` of this release."""
    import subprocess
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30,
                              check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise errors.ConfigurationError(f"MESHBUS_BIN is {path}, which is neither the meshbus "
                                        f"program nor its folder: {error}") from None
    if said != f"meshbus {_build_info.VERSION}":
        raise errors.ConfigurationError(
            f"MESHBUS_BIN is {path}, which says that it is {said!r}, and this package is of "
            f"release {_build_info.VERSION}: unset MESHBUS_BIN, or install the same release")
    return path


def close_all() -> None:
    """Actors, then procs, then hosts, then the connection, while Python is whole."""
    global _context
    for owner in sorted(list(_open), key=lambda one: -int(one._order)):
        owner.close()
    with _lock:
        context, _context = _context, None
    if context is not None:
        context.close()


def _after_fork() -> None:
    global _context, _lock
    _lock = threading.Lock()
    _context = None
    _open.clear()
    future.forget_after_fork()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(close_all)
