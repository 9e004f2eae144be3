"""`python3 -m meshbus.run [-n N] SCRIPT [ARGUMENT...]`: runs a script as a rank.

Started as a rank (hosts.spawn(..., mesh=True), `meshbus run --mesh`), it calls meshbus.init() and
runs the script. Started by hand, it is a launcher: it starts hosts on this machine with N ranks of
the script on each, shows what they write, and exits as they did.
"""
from __future__ import annotations

import argparse
import os
import runpy
import sys


def main(arguments: list[str] | None = None) -> int:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python3 -m meshbus.run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--per-host", default="1", metavar="N",
                        help='ranks on each host: 4, or axes: "gpu=4"')
    parser.add_argument("--hosts", type=int, default=1, metavar="N",
                        help="hosts on this machine (default 1)")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)

    from meshbus import proc
    if proc.is_rank():
        proc.init_for_script()
        sys.argv = [given.script, *given.arguments]
        if not sys.flags.safe_path:  # as when Python itself runs a script
            sys.path[0] = os.path.dirname(os.path.abspath(given.script))
        runpy.run_path(given.script, run_name="__main__")
        return 0
    return _launch(given)


def _launch(given: argparse.Namespace) -> int:
    import meshbus

    def show(rank: int, text: str) -> None:
        for line in text.splitlines():
            print(f"[{rank}] {line}", flush=True)

    per_host = int(given.per_host) if given.per_host.isdecimal() else given.per_host
    command = [sys.executable, "-m", "meshbus.run", given.script, *given.arguments]
    with meshbus.start(given.hosts) as hosts:
        mesh = hosts.spawn(command, per_host, name="run", mesh=True, on_output=show,
                           on_failure=meshbus.ignore, partial=True)
        with mesh:
            while not mesh.known.first_failure and not mesh._ended.wait(0.2):
                pass
            mesh.stop()
            mesh._settle(10)
            return mesh.known.exit_code


if __name__ == "__main__":
    sys.exit(main())
