#!/usr/bin/env python3
"""What a message of the public libraries costs in system calls, switches of threads, page faults
and allocations, by two builds.

    sudo perf probe -x /lib/x86_64-linux-gnu/libc.so.6 malloc
    tests/bench/counts.py OLD NEW

OLD and NEW are folders of build/release with meshbus-bench-public. Each way is counted twice, short
and long, over all processes that take part, on one CPU; the difference belongs to the messages.
Needs perf, and rights to use tracepoints; without the probe there is no column of allocations.
"""
import argparse
import pathlib
import subprocess

SYSTEM = ("raw_syscalls:sys_enter", "sched:sched_switch", "page-faults")
"""Counted together. The probe slows the program down, so it is counted in runs of its own."""
PROBE = "probe_libc:malloc"
NAMES = {SYSTEM[0]: "system calls", SYSTEM[1]: "switches", SYSTEM[2]: "page faults",
         PROBE: "allocations"}
WAYS = (("proc-call", 64), ("context-call", 64), ("proc-send", 64), ("proc-send", 1024),
        ("proc-send", 65536), ("context-send", 64))
CALLS = (2000, 22000)
MILLISECONDS = (500, 2500)


def count(build: pathlib.Path, way: str, size: int, amount: int,
          events: tuple[str, ...]) -> tuple[float, dict[str, int]]:
    """The messages of one run, and how often each event came."""
    done = subprocess.run(["perf", "stat", "-x", ",", "-e", ",".join(events), "--", "taskset", "-c",
                           "0", build / "bin" / "meshbus-bench-public", way, str(size),
                           str(amount)], capture_output=True, text=True, check=True, timeout=120)
    figures = dict(line.split()[:2] for line in done.stdout.splitlines())
    # The program warms up with a tenth of its calls.
    messages = amount * 1.1 if way.endswith("call") else float(figures["per_s"]) * amount / 1e3
    counts = {fields[2]: int(fields[0]) for fields in
              (line.split(",") for line in done.stderr.splitlines())
              if len(fields) > 2 and fields[0].isdigit()}
    return messages, counts


def each(build: pathlib.Path, way: str, size: int, events: tuple[str, ...]) -> dict[str, float]:
    """How often each event comes for one message."""
    short, long = CALLS if way.endswith("call") else MILLISECONDS
    few, first = count(build, way, size, short, events)
    many, second = count(build, way, size, long, events)
    return {NAMES[event]: (second[event] - first[event]) / (many - few)
            for event in second if event in first}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("builds", type=pathlib.Path, nargs="+", help="folders of build/release")
    given = parser.parse_args()
    probes = subprocess.run(["perf", "probe", "--list"], capture_output=True, text=True)
    for way, size in WAYS:
        for build in given.builds:
            found = each(build, way, size, SYSTEM)
            if PROBE in probes.stdout:
                found |= each(build, way, size, (PROBE,))
            print(f"{way:13s} {size:6d} B  {build}: " + ", ".join(
                f"{value:.3f} {name}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
