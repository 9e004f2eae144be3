"""Ranks that are copies of a process which has imported what they need.

Their parent is the keeper of their host, as of any rank: a kill is reported, and the next life of
the rank is a copy, too.
"""
import os
import sys

import meshbus


def look() -> tuple[bool, int]:
    """Whether the module is there, without an import; and who this is."""
    return "sqlite3" in sys.modules, os.getpid()


if __name__ == "__main__":
    restart = meshbus.Restart(delay=0.01)
    with meshbus.start(hosts=2) as hosts:
        with hosts.workers(2, zygote=["sqlite3"], restart=restart) as procs:
            before = list(procs.run(look))
            print("imported", [is_there for is_there, _ in before])
            procs.kill(3)
            procs.wait_ready()
        with hosts.workers(2, zygote=["sqlite3"]) as procs:
            print("processes", len({pid for _, pid in procs.run(look)}))
