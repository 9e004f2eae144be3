"""Meshes and pools that grow and shrink while they run (spec 18.2)."""
from __future__ import annotations

import asyncio
import os
import threading

import pytest

import meshbus


class Where(meshbus.Actor):
    """Says where it is."""

    @meshbus.endpoint
    def pid(self) -> int:
        return os.getpid()


def test_a_mesh_grows_and_shrinks_at_its_end() -> None:
    with meshbus.start(hosts=2) as hosts, hosts.workers(2, name="elastic") as procs:
        before = procs.run(os.getpid)
        assert procs.grow(hosts.hosts[:1]) == [4, 5]
        assert len(procs) == 6
        after = procs.run(os.getpid)
        assert list(after)[:4] == list(before)
        assert len(set(after)) == 6
        assert len(list(procs.spawn(Where).pid.call().result())) == 6
        gone = procs.shrink(2, reason="fewer are enough")
        assert [report.rank for report in gone] == [2, 3, 4, 5]
        assert {report.state for report in gone} == {"stopped"}
        assert {report.stop_reason for report in gone} == {"fewer are enough"}
        assert list(procs.run(os.getpid)) == list(before)[:2]
        assert asyncio.run(_grow(procs)) == [2, 3]
        assert len(procs.reports) == 4


async def _grow(procs: meshbus.ProcMesh) -> list[int]:
    return await procs.grow_async()


def test_a_resize_that_cannot_be_is_refused_and_changes_nothing() -> None:
    with meshbus.start() as hosts, hosts.spawn(["sleep", "60"], 1) as mesh:
        with pytest.raises(meshbus.Refused, match="no rank would be left"):
            mesh.shrink()
        with pytest.raises(meshbus.ConfigurationError):
            mesh.grow(blocks=0)
        with pytest.raises(meshbus.ConfigurationError):
            mesh.grow([])
        with pytest.raises(meshbus.Error, match="/no/such/host"):
            mesh.grow(["unix:/no/such/host"])
        assert len(mesh) == 1
        assert mesh.reports[0].state == "ready"


def test_a_pool_grows_and_shrinks_and_loses_no_task() -> None:
    with meshbus.start() as hosts, meshbus.Pool(hosts, 1) as pool:
        first = pool.submit(os.getpid).result(30)
        pool.grow(blocks=2)
        assert len(pool) == 3
        barrier = [pool.submit(_busy, 0.3) for _ in range(3)]
        assert len({future.result(30) for future in barrier}) == 3
        tasks = [pool.submit(_busy, 0.05) for _ in range(12)]
        shrinking = threading.Thread(target=pool.shrink, args=(2,))
        shrinking.start()
        assert all(future.result(30) for future in tasks)
        shrinking.join(30)
        assert len(pool) == 1
        assert pool.submit(os.getpid).result(30) == first
        with pytest.raises(meshbus.ConfigurationError):
            pool.shrink()


def _busy(seconds: float) -> int:
    import time

    time.sleep(seconds)  # sleep-ok: a task that takes a while
    return os.getpid()
