"""Inside a rank: `init()`, `Proc`, `this_proc()`."""
from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from meshbus import _adapter, _checks, _proc, errors
from meshbus._views import cut
from meshbus.errors import ConfigurationError, Error, NotExist, Refused
from meshbus.values import Extent, Point, ValueMesh, failed

_LAST_ANSWERS = 10.0
"""Seconds for the handlers inside at the end of a rank that nobody stops."""
_LAST_COROUTINES = 2.0
"""The same for coroutines with callers: they may wait for messages, which do not come any more."""

PortHandler = Callable[[bytes], Any]
"""What a port calls: f(body) -> bytes, or None."""

_proc.set_error_factory(errors.make)
_proc.set_actor_factory(_adapter.make_actor)

_this: Proc | None = None
_pid = 0
_main = threading.main_thread()
_late_ports: dict[int, Callable[..., Any]] | None = None
_NUM_LATE_PORTS = 64
_has_begun = threading.Event()
"""The script of `python3 -m meshbus.run` has called init(), or has ended."""
_LATE = 30.0
"""Seconds that a message waits for the script to call init(), which says what its ports do."""


@dataclass(frozen=True)
class StopRequest:
    """How a rank was asked to stop."""
    code: int
    """The exit code that it is to have: 128 + n for a signal n."""
    reason: str
    """Why, for people."""
    until: float
    """When this rank is ended, by time.monotonic(). A stop leaves it half of its grace, a signal
    the setting terminate.grace."""

    @property
    def left(self) -> float:
        """Seconds of the grace that are left, 0 or more."""
        return max(0.0, self.until - time.monotonic())


class Proc:
    """This process as a rank of its mesh."""

    @property
    def rank(self) -> int:
        """0 ... world_size - 1."""
        return _proc.rank()

    @property
    def world_size(self) -> int:
        """How many ranks the mesh has."""
        return _proc.world_size()

    @property
    def point(self) -> Point:
        """Where this rank is."""
        return point_of(_proc.point())

    @property
    def id(self) -> str:
        """Its address."""
        return _proc.id()

    @property
    def mesh(self) -> Ranks:
        """All ranks of the mesh, this one included."""
        return Ranks(_proc.mesh())

    @property
    def stop_requested(self) -> bool:
        """Whether this rank was asked to stop."""
        return _proc.stop_requested()

    @property
    def stop_request(self) -> StopRequest | None:
        """The request to stop, once there is one: its exit code, its reason, and until when this
        rank may go on, to write a checkpoint say."""
        request = _proc.stop_request()
        return None if request is None else StopRequest(*request)

    def call(self, rank: int, port: int, body: Any, timeout: float | None = 30) -> bytes:
        """Asks a port of a rank of this mesh and waits."""
        return bytes(_proc.call(_checks.whole("a rank", rank), _checks.port(port), body,
                                _checks.timeout(timeout)))

    def send(self, rank: int, port: int, body: Any) -> None:
        """Tells a port of a rank of this mesh; nobody answers."""
        _proc.send(_checks.whole("a rank", rank), _checks.port(port), body)

    def __repr__(self) -> str:
        return f"<Proc {self.rank} of {self.world_size}: {self.point}>"


class Ranks:
    """Ranks of this mesh, all or some: to call and to cast to."""

    def __init__(self, ref: _proc.ProcMeshRef) -> None:
        self._ref = ref

    @property
    def extent(self) -> Extent:
        """How they are arranged."""
        return Extent.from_shape(self._ref.shape)

    def slice(self, **selection: int | slice) -> Ranks:
        """Some of these."""
        return Ranks(cut(self._ref, selection))

    def __len__(self) -> int:
        return len(self._ref)

    def call(self, port: int, body: Any, timeout: float | None = 30) -> ValueMesh[bytes]:
        """Asks a port of each and waits: an answer or an error for each."""
        answers = _proc.call_all(self._ref, _checks.port(port), body, _checks.timeout(timeout))
        return ValueMesh(self.extent, [failed(answer) if isinstance(answer, Error)
                                       else bytes(answer) for answer in answers])

    def cast(self, port: int, body: Any) -> None:
        """Tells a port of each; nobody answers."""
        _proc.cast(self._ref, _checks.port(port), body)

    def __repr__(self) -> str:
        return f"<Ranks {self.extent} of {self._ref.name}>"


def point_of(place: Any) -> Point:
    """For the package: the point of (labels, sizes, coordinates)."""
    labels, sizes, coordinates = place
    return Point(Extent.from_shape((labels, sizes)), coordinates)


def own_role() -> str:
    """The role of this process in its job (`meshbus run` with several programs); "" without."""
    return os.environ.get("MESHBUS_ROLE", "")


def roles() -> list[str]:
    """The roles of this job, this one included; empty when it has none."""
    names = os.environ.get("MESHBUS_ROLES", "")
    return names.split(",") if names else []


def role(name: str) -> Ranks:
    """The ranks of a role of this job, to call and to cast to, also before it is started. Raises
    NotExist when the job has no such role."""
    text = os.environ.get(f"MESHBUS_ROLE_{name.upper()}")
    if not text or name not in roles():
        raise NotExist(f"role {name!r}: the roles of this job are {', '.join(roles())}" if roles()
                       else f"role {name!r}: this process is no rank of a job with roles")
    return Ranks(_proc.ProcMeshRef.parse(text))


def is_rank() -> bool:
    """Whether this process was started as a rank, or is one already."""
    return (_this is not None and _pid == os.getpid()) or _proc.is_mesh_proc()


def this_proc() -> Proc:
    """This process as a rank. Raises NotExist when it is none, or init() was not called."""
    if _this is None:
        raise NotExist("this process is no rank yet: call meshbus.init() first")
    if _pid != os.getpid():
        raise Refused("a child of fork() is not the rank that its parent is")
    return _this


def init(ports: Mapping[int, PortHandler] | None = None, *, exit_on_stop: bool = True,
         actor_threads: int = 4) -> Proc:
    """Makes this process the rank that it was started as, and goes on: handlers of ports and actors
    run on threads beside it. Called again, it returns the same.

    `ports`: {number: function(body) -> answer}. exit_on_stop: a stop of this rank, or SIGTERM,
    becomes SystemExit(143) in the main thread, so that `finally` and `atexit` run. Without it the
    program looks at `proc.stop_requested`. Raises NotExist when this process was not started as a
    rank: by hosts.spawn(..., mesh=True), hosts.workers() or `meshbus run --mesh`.
    """
    if _this is not None:
        if ports and _late_ports is None:
            raise Refused("this process is a rank already: the first init() takes the ports")
        for number, function in (ports or {}).items():
            assert _late_ports is not None
            if not 0 < _checks.port(number) <= _NUM_LATE_PORTS:
                raise ConfigurationError(f"port {number}: a script of `python3 -m meshbus.run` has "
                                         f"the ports 1 to {_NUM_LATE_PORTS}")
            _late_ports[number] = _port(function)
        _has_begun.set()
        return this_proc()
    return _start({_checks.port(number): _port(f) for number, f in (ports or {}).items()},
                  _exit_on_stop() if exit_on_stop else _nothing, actor_threads)


def init_for_script() -> Proc:
    """For `python3 -m meshbus.run`: a rank whose script may still call init() with ports, of
    numbers up to 64."""
    global _late_ports
    _late_ports = {}

    def late(number: int) -> Callable[..., Any]:
        def handle(body: Any, source: int | None, is_call: bool) -> Any:
            assert _late_ports is not None
            # Other ranks may be quicker than this one. A stop is heard on this thread, too.
            end = time.monotonic() + _LATE
            while not _has_begun.wait(0.1) and not _proc.stop_requested():
                if time.monotonic() > end:
                    _has_begun.set()
            if number not in _late_ports:
                raise NotExist(f"nothing listens on port {number}")
            return _late_ports[number](body, source, is_call)
        return handle
    return _start({n: late(n) for n in range(1, _NUM_LATE_PORTS + 1)}, _exit_on_stop())


def _start(ports: Mapping[int, Callable[..., Any]], on_stop: Callable[[str], None],
           actor_threads: int = 4) -> Proc:
    global _this, _pid
    if not _proc.is_mesh_proc():
        raise NotExist("this process was not started as a rank: hosts.spawn(..., mesh=True), "
                       "hosts.workers() and `meshbus run --mesh` start ranks")
    _this, _pid = Proc(), os.getpid()  # actors and messages may come before start() returns
    atexit.register(_leave)  # so may a stop, which ends the wait by SystemExit
    try:
        _proc.start(dict(ports), on_stop, actor_threads)
    except Exception:
        atexit.unregister(_leave)
        _this = None
        raise
    # The library has unset it; what copies os.environ must not pass it on.
    os.environ.pop("MESHBUS_BOOTSTRAP", None)
    # What a rank prints is seen when it prints it.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)
    return _this


def _leave() -> None:
    """No handler comes into Python any more. Those inside are waited for: during a stop for as long
    as its grace, otherwise for some seconds, since they may wait for us; so are then coroutines
    with callers."""
    if _pid != os.getpid():
        return
    _has_begun.set()
    sys.stdout.flush()
    end = time.monotonic() + _LAST_ANSWERS
    while not _proc.close(0.2):
        if not _proc.stop_requested() and time.monotonic() > end:
            return
    end = min(end, time.monotonic() + _LAST_COROUTINES)
    while not _proc.stop_requested() and time.monotonic() < end:
        if _adapter.wait_answered(0.2):
            return


def _nothing(reason: str) -> None:
    pass


def _exit_on_stop() -> Callable[[str], None]:
    """Installs a handler of SIGTERM; what to call when the agent asks for a stop."""
    if threading.current_thread() is not _main:
        raise Refused("meshbus.init() belongs into the main thread; elsewhere: exit_on_stop=False")
    is_leaving = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal is_leaving
        if not is_leaving:  # a second one must not interrupt what cleans up
            is_leaving = True
            raise SystemExit(128 + number)

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, on_signal)
    ident = _main.ident
    assert ident is not None

    def on_stop(reason: str) -> None:
        signal.pthread_kill(ident, signal.SIGTERM)  # type: ignore[arg-type]
    return on_stop


def _port(function: PortHandler) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(f"a port wants a function, not {function!r}")

    def handle(body: Any, source: int | None, is_call: bool) -> Any:
        answer = function(bytes(body))
        return answer.encode() if isinstance(answer, str) else answer
    return handle
