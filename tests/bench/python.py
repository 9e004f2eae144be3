#!/usr/bin/python3
"""./dev bench python [ROUNDS]: what the Python package costs, rows of one minute side by side.

Only ratios of the same run count: the machine is what it is. Floors: a port of a C++ program, asked
by the same launcher without pickles; an interpreter that imports what a worker imports.
"""
from __future__ import annotations

import asyncio
import pathlib
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import meshbus

ROOT = pathlib.Path(__file__).resolve().parents[2]
ECHO = ROOT / "build" / "release" / "bin" / "echo_proc"


class Target(meshbus.Actor):
    @meshbus.endpoint
    def nothing(self) -> None:
        """Nothing."""

    @meshbus.endpoint
    async def later(self) -> None:
        """Nothing, as a coroutine."""

    @meshbus.endpoint
    def echo(self, value: Any) -> Any:
        """What it gets."""
        return value


def quantile(times: list[float], part: float) -> float:
    return sorted(times)[int(len(times) * part)]


def report(name: str, times: list[float], floor: float | None) -> float:
    """Prints microseconds; the median."""
    middle = quantile(times, 0.5) * 1e6
    ratio = "" if floor is None else f"{middle / floor:6.2f} x"
    print(f"{name:52s} p50 {middle:8.1f} us  p99 {quantile(times, 0.99) * 1e6:8.1f} us {ratio}",
          flush=True)
    return middle


def timed(act: Callable[[], Any], count: int) -> list[float]:
    for _ in range(count // 10):
        act()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        act()
        times.append(time.perf_counter() - begin)
    return times


async def awaited(act: Callable[[], Awaitable[Any]], count: int) -> list[float]:
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        await act()
        times.append(time.perf_counter() - begin)
    return times


def calls(hosts: meshbus.HostMesh, count: int) -> None:
    """Round trips, and what many at once cost."""
    with hosts.spawn([ECHO], 1, mesh=True) as echoes, hosts.workers(1) as procs:
        one = procs.spawn(Target)
        floor = report("a port of a C++ program, bytes",
                       timed(lambda: echoes[0].call(1, b"x").result(), count), None)
        report("target.nothing()", timed(lambda: one.nothing(), count), floor)
        report("target.nothing.call().result()",
               timed(lambda: one.nothing.call().result(), count), floor)
        report("the same, an async def endpoint",
               timed(lambda: one.later.call().result(), count), floor)
        report("await target.nothing.call()",
               asyncio.run(awaited(one.nothing.call, count)), floor)
        begin = time.perf_counter()
        futures = [one.nothing.call() for _ in range(10 * count)]
        for future in futures:
            future.result()
        each = (time.perf_counter() - begin) / len(futures) * 1e6
        print(f"{len(futures)} calls at once: {each:.1f} us each", flush=True)
        begin = time.perf_counter()
        for _ in range(10 * count):
            one.nothing.cast()
        one.nothing()
        rate = 10 * count / (time.perf_counter() - begin)
        print(f"casts until the last is handled: {rate:.0f}/s", flush=True)


def arrays(hosts: meshbus.HostMesh, count: int) -> None:
    """An array there and back, beside the same bytes to C++ and back."""
    import numpy
    with hosts.spawn([ECHO], 1, mesh=True) as echoes, hosts.workers(1) as procs:
        one = procs.spawn(Target)
        array = numpy.arange(118_000, dtype=numpy.float64)
        raw = array.tobytes()
        floor = report("944 kB there and back, a port of a C++ program",
                       timed(lambda: echoes[0].call(1, raw).result(), count), None)
        report("944 kB array there and back, an endpoint",
               timed(lambda: one.echo(array), count), floor)


def workers(hosts: meshbus.HostMesh, number: int) -> None:
    """Workers until all are ready, beside as many interpreters that import the same."""
    command = [sys.executable, "-c", "import meshbus.worker"]
    begin = time.perf_counter()
    for process in [subprocess.Popen(command) for _ in range(number)]:
        process.wait()
    floor = time.perf_counter() - begin
    begin = time.perf_counter()
    with hosts.workers(number):
        took = time.perf_counter() - begin
    print(f"{number:2d} workers ready: {took * 1e3:7.0f} ms; interpreters that import the same: "
          f"{floor * 1e3:7.0f} ms {took / floor:6.2f} x", flush=True)


def main() -> None:
    """All rows."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with meshbus.start() as hosts:
        calls(hosts, count)
        arrays(hosts, max(20, count // 10))
        for number in (1, 8, 48):
            workers(hosts, number)


if __name__ == "__main__":
    main()
