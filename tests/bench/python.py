#!/usr/bin/python3
"""./dev bench python [CALLS]: what the Python package costs, rows of one minute side by side.

Only ratios of the same run count: the machine is what it is. Floors: Context::call of a launcher in
C++ to a proc in C++ (meshbus-bench-public, which ./dev bench builds); an interpreter that imports
what a worker imports. Beside it ipyparallel, where it is installed.
"""
from __future__ import annotations

import asyncio
import importlib.util
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import meshbus

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build" / "release" / "bin"
ECHO = PROGRAMS / "echo_proc"
ARRAYS = {"1 MB": 130_000, "64 MB": 8 << 20}
"""Doubles."""
ROUNDS = 5


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


def of_cpp(size: int, count: int, way: str = "context-call") -> float | None:
    """The median of Context::call in C++, or of a call to an actor, both ways with so many bytes,
    in microseconds."""
    program = PROGRAMS / "meshbus-bench-public"
    if not program.exists():
        return None
    done = subprocess.run([program, way, str(size), str(count)], capture_output=True,
                          text=True, check=True)
    figures = dict(line.split() for line in done.stdout.splitlines())
    return float(figures["p50_us"])


def compare(rows: dict[str, Callable[[], list[float]]], size: int, count: int) -> None:
    """Each row in turn, in ROUNDS rounds, with as many bytes in C++ before and after it: machines
    change meanwhile. Two floors: a call to a port, and one to an actor, which is what an endpoint
    is."""
    ways = {"context-call": "Context::call", "context-actor": "ActorMesh::call"}
    middles: dict[str, list[float]] = {name: [] for name in rows}
    ratios: dict[tuple[str, str], list[float]] = {(name, way): [] for name in rows for way in ways}
    floors = {way: [of_cpp(size, count, way)] for way in ways}
    for _ in range(ROUNDS):
        for name, row in rows.items():
            middles[name].append(quantile(row(), 0.5) * 1e6)
            for way, known in floors.items():
                known.append(of_cpp(size, count, way))
                before, after = known[-2:]
                if before is not None and after is not None:
                    ratios[name, way].append(2 * middles[name][-1] / (before + after))
    for way, title in ways.items():
        if values := [floor for floor in floors[way] if floor is not None]:
            print(f"{f'{title} in C++, {size} bytes there and back':52s} p50 "
                  f"{spread(values, 1)} us", flush=True)
    for name in rows:
        beside = "".join(f"  {spread(ratios[name, way], 2)} x {title}"
                         for way, title in ways.items() if ratios[name, way])
        print(f"{name:52s} p50 {spread(middles[name], 1)} us{beside}", flush=True)


def spread(values: list[float], digits: int) -> str:
    """The median, with the smallest and the largest."""
    low, middle, high = (f"{value:.{digits}f}" for value in (
        min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}-{high})"


def calls(hosts: meshbus.HostMesh, count: int) -> None:
    """Round trips, and what many at once cost."""
    with hosts.spawn([ECHO], 1, mesh=True) as echoes, hosts.workers(1) as procs:
        one = procs.spawn(Target)
        compare({
            "a port of a C++ program, bytes":
                lambda: timed(lambda: echoes[0].call(1, b"x").result(), count),
            "target.nothing()": lambda: timed(lambda: one.nothing(), count),
            "target.nothing.call().result()":
                lambda: timed(lambda: one.nothing.call().result(), count),
            "await target.nothing.call()":
                lambda: asyncio.run(awaited(one.nothing.call, count)),
            "the same, an async def endpoint":
                lambda: asyncio.run(awaited(one.later.call, count)),
        }, 64, count)
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


def nothing() -> None:
    """For ipyparallel."""


def peer(count: int) -> None:
    """The same call by ipyparallel."""
    if importlib.util.find_spec("ipyparallel") is None:
        print("ipyparallel is not installed (package python3-ipyparallel): left out", flush=True)
        return
    import ipyparallel  # type: ignore[import-untyped]
    begin = time.perf_counter()
    with ipyparallel.Cluster(n=1, log_level=40) as client:
        client.wait_for_engines(1, timeout=120)
        took = time.perf_counter() - begin
        print(f"ipyparallel: 1 engine ready: {took * 1e3:7.0f} ms", flush=True)
        view = client[0]
        middle = quantile(timed(lambda: view.apply_sync(nothing), max(20, count // 10)), 0.5) * 1e6
        print(f"{'ipyparallel apply_sync(nothing)':52s} p50 {middle:9.1f} us", flush=True)


def arrays(hosts: meshbus.HostMesh, count: int) -> None:
    """Arrays there and back, beside as many bytes in C++."""
    import numpy
    with hosts.workers(1) as procs:
        one = procs.spawn(Target)
        for name, length in ARRAYS.items():
            array = numpy.arange(length, dtype=numpy.float64)
            compare({f"{name} array there and back, an endpoint":
                     lambda: timed(lambda: one.echo(array), count)}, array.nbytes, count)


def ready_after(hosts: meshbus.HostMesh, number: int, imports: str,
                zygote: list[str] | None) -> float:
    begin = time.perf_counter()
    with hosts.workers(number, zygote=zygote) as procs:
        if zygote is None and imports:
            procs.run(importlib.import_module, imports)
        return time.perf_counter() - begin


def workers(hosts: meshbus.HostMesh, number: int) -> None:
    """Workers until all are ready, beside as many interpreters that import the same."""
    command = [sys.executable, "-c", "import meshbus.worker"]
    begin = time.perf_counter()
    for process in [subprocess.Popen(command) for _ in range(number)]:
        process.wait()
    floor = time.perf_counter() - begin
    took = ready_after(hosts, number, "", None)
    print(f"{number:2d} workers ready: {took * 1e3:7.0f} ms; interpreters that import the same: "
          f"{floor * 1e3:7.0f} ms {took / floor:6.2f} x", flush=True)
    took = ready_after(hosts, number, "numpy", None)
    warm = ready_after(hosts, number, "numpy", ["numpy"])
    print(f"{number:2d} workers with numpy: {took * 1e3:7.0f} ms; as copies of a template: "
          f"{warm * 1e3:7.0f} ms {warm / took:6.2f} x", flush=True)


def main() -> None:
    """All rows."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with meshbus.start() as hosts:
        calls(hosts, count)
        arrays(hosts, max(20, count // 10))
        for number in (1, 8, 48):
            workers(hosts, number)
    peer(count)


if __name__ == "__main__":
    main()
