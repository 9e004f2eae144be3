"""How a program gets hosts: `start`, `ssh`, `slurm`, `attach`, `take`."""
from __future__ import annotations

from collections.abc import Mapping

from meshbus import _build_info, _checks, _context
from meshbus.errors import ConfigurationError
from meshbus.future import Future
from meshbus.hosts import READY, HostMesh, host_mesh
from meshbus.values import Axes, Extent


def start(hosts: Axes = 1, *, containment: str = "", settings: Mapping[str, object] | None = None,
          ready: float = READY) -> HostMesh:
    """Starts hosts on this machine. They end with this program, however it ends."""
    return start_async(hosts, containment=containment, settings=settings, ready=ready).result()


def start_async(hosts: Axes = 1, *, containment: str = "",
                settings: Mapping[str, object] | None = None,
                ready: float = READY) -> Future[HostMesh]:
    """The same as a Future: `async with await meshbus.start_async() as hosts`."""
    extent = Extent(host=hosts) if isinstance(hosts, int) else Extent.of(hosts)
    return host_mesh(_context.connect().process(list(extent.labels), list(extent.sizes),
                                                _context.program(), _checks.settings(settings),
                                                containment, _checks.seconds("ready", ready)), True)


def ssh(*destinations: str, program: str = "", containment: str = "",
        settings: Mapping[str, object] | None = None, ready: float = READY) -> HostMesh:
    """Starts a host on each machine by OpenSSH: `ssh("h1", "user@h2:2222")`. `program` is
    `meshbus` there; default: the one in PATH there, which must be of this release. They end with
    this program."""
    return ssh_async(*destinations, program=program, containment=containment, settings=settings,
                     ready=ready).result()


def ssh_async(*destinations: str, program: str = "", containment: str = "",
              settings: Mapping[str, object] | None = None,
              ready: float = READY) -> Future[HostMesh]:
    """The same as a Future."""
    return host_mesh(_context.connect().ssh(_checks.words("ssh(...)", destinations), program,
                                            _checks.settings(settings), containment,
                                            _checks.seconds("ready", ready),
                                            "" if program else _build_info.VERSION), True)


def slurm(*, program: str = "", containment: str = "",
          settings: Mapping[str, object] | None = None, ready: float = READY) -> HostMesh:
    """Starts a host on each node of the Slurm job that this program is part of."""
    return slurm_async(program=program, containment=containment, settings=settings,
                       ready=ready).result()


def slurm_async(*, program: str = "", containment: str = "",
                settings: Mapping[str, object] | None = None,
                ready: float = READY) -> Future[HostMesh]:
    """The same as a Future."""
    return host_mesh(_context.connect().slurm(program or _context.program(),
                                              _checks.settings(settings), containment,
                                              _checks.seconds("ready", ready)), True)


def attach(*addresses: str, name: str = "hosts", timeout: float = 5, wait: float = 0) -> HostMesh:
    """Running hosts, by their addresses (`attach("tcp:h1:7420", "tcp:h2:7420")`) or by the `ref` of
    a HostMesh. They stay when this program ends. `wait`: seconds in which hosts that cannot be
    reached yet, because somebody is still starting them, are tried again."""
    return attach_async(*addresses, name=name, timeout=timeout, wait=wait).result()


def attach_async(*addresses: str, name: str = "hosts", timeout: float = 5,
                 wait: float = 0) -> Future[HostMesh]:
    """The same as a Future."""
    return _attached("attach()", addresses, name, timeout, wait, is_taken=False)


def take(*addresses: str, name: str = "hosts", timeout: float = 5) -> HostMesh:
    """Running hosts, as for attach(), owned from now on: they are told to end when this program is
    done with them, and stay when it is killed. A controller that answers for them is asked to give
    them back."""
    return take_async(*addresses, name=name, timeout=timeout).result()


def take_async(*addresses: str, name: str = "hosts", timeout: float = 5) -> Future[HostMesh]:
    """The same as a Future."""
    return _attached("take()", addresses, name, timeout, 0, is_taken=True)


def _attached(what: str, addresses: tuple[str, ...], name: str, timeout: float, wait: float, *,
              is_taken: bool) -> Future[HostMesh]:
    words = _checks.words(what, addresses)
    seconds = _checks.seconds("timeout", timeout)
    longer = _checks.seconds("wait", wait)
    if not words:
        raise ConfigurationError(f"{what} wants the addresses of hosts, or the ref of a HostMesh")
    context = _context.connect()
    if len(words) == 1 and "@" in words[0] and not words[0].startswith("unix:"):
        return host_mesh(context.attach_ref(words[0], seconds, longer, is_taken), is_taken)
    return host_mesh(context.attach(name, words, seconds, longer, is_taken), is_taken)
