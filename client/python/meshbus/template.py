"""`python3 -m meshbus.template [-i MODULE]... -- (-m MODULE | SCRIPT) [ARGUMENT...]`: a template.

It imports the modules once, and makes each rank of its mesh as a copy of itself, which then runs
the script or module as `python3` would. Started by a host, for `workers(zygote=[...])` and
`spawn(..., zygote=[...])`. What host and template say to each other: agent/os/template_link.h.
"""
from __future__ import annotations

import gc
import importlib
import os
import runpy
import socket
import struct
import sys
from typing import NoReturn

_MAGIC = 0x5A54_4D01
_REQUEST = struct.Struct("=IIIiII")
"""magic, has, joins, parent_death_signal, new_session, subreaper"""
_REPORT = struct.Struct("=II")  # magic, what
_READY, _BORN, _FAILED = 1, 2, 3
_STREAMS, _HAS_BOOTSTRAP, _HAS_CGROUP, _HAS_BUS_FOLDER = (1, 2, 4), 8, 16, 32
_MOST_DESCRIPTORS = 16
_LONGEST_REASON = 2048
_COPY_FAILED = 127


class _Template:
    """The end of the keeper's socket."""

    def __init__(self, link: int) -> None:
        self._link = socket.socket(fileno=link)
        self._link.setblocking(True)
        self._parent = os.getppid()

    def fail(self, reason: str) -> NoReturn:
        """Tells why no copies can be made, and ends."""
        self._link.send(_REPORT.pack(_MAGIC, _FAILED) + reason.encode()[:_LONGEST_REASON])
        self._link.close()
        sys.exit(1)

    def check(self, when: str) -> None:
        """A copy has the thread that makes it and no other."""
        if len(threads := os.listdir("/proc/self/task")) == 1:
            return
        names = set()
        for thread in threads:
            try:
                with open(f"/proc/self/task/{thread}/comm", encoding="utf-8") as file:
                    names.add(file.read().strip())
            except OSError:
                pass  # it has ended
        self.fail(f"the template has {len(threads)} threads {when} ({', '.join(sorted(names))}), "
                  "and a copy would have one of them only: leave out of `zygote` the module that "
                  "starts threads, or tell it not to")

    def serve(self) -> None:
        """Makes copies. Returns in each of them, and never in the template."""
        self._link.send(_REPORT.pack(_MAGIC, _READY))
        from meshbus import _proc
        while True:
            data, fds, _, _ = socket.recv_fds(self._link, _REQUEST.size, _MOST_DESCRIPTORS,
                                               socket.MSG_CMSG_CLOEXEC)
            if not data:
                self._link.close()
                sys.exit(0)  # the keeper is gone
            magic, has, joins, death_signal, session, subreaper = _REQUEST.unpack(data)
            if magic != _MAGIC:
                self.fail("the keeper speaks another protocol of templates")
            self.check("by now")
            environment, go, *rest = fds
            streams = {number: rest.pop(0) for number, bit in enumerate(_STREAMS) if has & bit}
            bootstrap = rest.pop(0) if has & _HAS_BOOTSTRAP else -1
            cgroup = rest.pop(0) if has & _HAS_CGROUP else -1
            bus_folder = rest.pop(0) if has & _HAS_BUS_FOLDER else -1
            try:
                pid, pidfd = _copy(cgroup, rest)
            except OSError as error:
                self.fail(f"no copy of the template can be made: {error.strerror}")
            if pid == 0:
                self._link.close()
                if os.read(go, 1) != b"\1":
                    os._exit(0)  # nobody wants it any more
                self._settle(rest[:joins], death_signal, bool(session), bool(subreaper))
                for number, fd in streams.items():
                    os.dup2(fd, number)
                _set_environment(environment, bootstrap, bus_folder)
                for fd in (environment, go, cgroup, *rest, *streams.values()):
                    if fd > 2:
                        os.close(fd)
                return
            socket.send_fds(self._link, [_REPORT.pack(_MAGIC, _BORN)], [pidfd])
            for fd in (*fds, pidfd):
                os.close(fd)

    def _settle(self, joins: list[int], death_signal: int, session: bool, subreaper: bool) -> None:
        """What agent/os/child.cpp does for other processes."""
        from meshbus import _proc
        step = "cgroup"
        try:
            for join in joins:
                os.write(join, b"0")
            step = "session"
            if session:
                os.setsid()
            else:
                os.setpgid(0, 0)
            step = "parent_death"
            _proc.tie_to_parent(death_signal, subreaper)
            if death_signal and os.getppid() != self._parent:
                os._exit(_COPY_FAILED)
        except OSError as error:
            os.write(2, f"meshbus: a copy of the template cannot be set up: {error.strerror} "
                        f"(step: {step})\n".encode())
            os._exit(_COPY_FAILED)


def _copy(cgroup: int, joins: list[int]) -> tuple[int, int]:
    from meshbus import _proc
    return _proc.copy_process(cgroup)


def _set_environment(memory: int, bootstrap: int, bus_folder: int) -> None:
    size = os.fstat(memory).st_size
    os.environ.clear()
    for entry in os.pread(memory, size, 0).split(b"\0"):
        name, is_entry, value = entry.partition(b"=")
        if is_entry and name:
            os.environb[name] = value
    if bootstrap >= 0:
        inode = os.fstat(bootstrap).st_ino
        folder = f":-1:{bus_folder}" if bus_folder >= 0 else ""
        os.environ["MESHBUS_BOOTSTRAP"] = f"{bootstrap}:{os.getpid()}:{inode}{folder}"


def _seed() -> None:
    """Ranks draw numbers of their own. `random` sees to itself."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        numpy.random.seed()


def _import(template: _Template, modules: list[str]) -> None:
    # Their thread pools would not be copied. Ranks find the same numbers in their environment only
    # where it says so.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    for module in modules:
        try:
            importlib.import_module(module)
        except BaseException as error:
            template.fail(f"the template cannot import {module}: {type(error).__name__}: {error}")
        template.check(f"after the import of {module}")


def main(arguments: list[str]) -> None:
    """What the command line says."""
    link = os.environ.pop("MESHBUS_TEMPLATE", "")
    if not link:
        sys.exit("meshbus.template is started by a host: workers(zygote=[...]), "
                 "spawn(..., zygote=[...])")
    at = arguments.index("--")
    template = _Template(int(link))
    command = arguments[at + 1:]
    _import(template, ["meshbus.proc", *arguments[1:at:2]])
    gc.collect()
    gc.freeze()  # a collection in a copy would copy these pages
    template.serve()
    gc.unfreeze()
    _seed()
    from meshbus import _proc
    _proc.set_command_line(b"".join(os.fsencode(word) + b"\0"
                                    for word in (sys.executable, *command)))
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        sys.path[0] = os.path.dirname(os.path.abspath(command[0]))
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
