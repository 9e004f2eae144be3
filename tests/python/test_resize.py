"""Meshes and pools that grow and shrink while they run (spec 18.2)."""
from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

import pytest

import meshbus
from conftest import wait_until


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


# Spec 18.2: an order of somebody else goes to the launcher.
def test_an_order_for_another_size_is_carried_out_by_the_launcher() -> None:
    orders: list[tuple[bool, list[str], int, list[int]]] = []

    def resize(order: meshbus.ResizeOrder) -> None:
        orders.append((order.is_growth, order.hosts, order.blocks, order.leaving))
        assert order.requester
        order.carry_out()
        with pytest.raises(meshbus.Refused, match="carried out already"):
            order.carry_out()

    with (meshbus.start(hosts=2) as hosts,
          hosts.workers(2, name="elastic", on_resize_order=resize) as procs):
        before = list(procs.run(os.getpid))
        grown = hosts.grow_mesh(procs.name, hosts.hosts[1:])
        assert grown == meshbus.OrderedResize(6, [4, 5], hosts.hosts[1:])
        assert len(procs) == 6
        assert list(procs.run(os.getpid))[:4] == before
        shrunk = asyncio.run(_shrink(hosts, procs.name))
        assert shrunk == meshbus.OrderedResize(2, [2, 3, 4, 5], hosts.hosts[1:] * 2)
        assert list(procs.run(os.getpid)) == before[:2]
    assert orders == [(True, hosts.hosts[1:], 1, []), (False, [], 2, [2, 3, 4, 5])]


async def _shrink(hosts: meshbus.HostMesh, mesh: str) -> meshbus.OrderedResize:
    return await hosts.shrink_mesh_async(mesh, 2)


def test_a_launcher_may_choose_other_hosts_for_an_order() -> None:
    with (meshbus.start(hosts=2) as hosts,
          hosts.spawn(["sleep", "60"], 1, name="chosen",
                      on_resize_order=lambda order: order.carry_out(hosts.hosts[:1])) as procs):
        assert hosts.grow_mesh(procs.name).hosts == hosts.hosts[:1]


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(("handler", "text"), [
    (None, "takes no orders"),
    (lambda order: _raise(meshbus.Refused("not before the epoch is over")),
     "not before the epoch is over"),
    (lambda order: None, "its launcher has not carried it out"),
    (lambda order: _raise(ValueError("a mistake")),
     "its launcher has raised ValueError: a mistake"),
    (lambda order: order.carry_out(["tcp:127.0.0.1:9"]), "tcp:127.0.0.1:9"),
])
def test_an_order_that_is_not_carried_out_is_told_why(handler: Any, text: str) -> None:
    with (meshbus.start() as hosts,
          hosts.spawn(["sleep", "60"], 1, on_resize_order=handler) as procs):
        with pytest.raises(meshbus.Error, match=text) as raised:
            hosts.grow_mesh(procs.name)
        assert procs.name in str(raised.value)
        assert len(procs) == 1
        with pytest.raises(meshbus.NotExist):
            hosts.grow_mesh("nobody-1A7M6VHBySka")
        with pytest.raises(meshbus.ConfigurationError, match="blocks is 0"):
            hosts.shrink_mesh(procs.name, 0)


def test_a_mesh_can_be_closed_while_an_order_is_looked_at() -> None:
    has_begun, may_end = threading.Event(), threading.Event()
    problems: list[BaseException] = []

    def look(order: meshbus.ResizeOrder) -> None:
        has_begun.set()
        may_end.wait(60)
        try:
            order.carry_out()
        except meshbus.Refused as refused:
            problems.append(refused)

    with meshbus.start() as hosts:
        procs = hosts.spawn(["sleep", "60"], 1, on_resize_order=look)
        asked = hosts.grow_mesh_async(procs.name)
        assert has_begun.wait(30)
        with pytest.raises(meshbus.Refused, match="another order for its size is under way"):
            hosts.grow_mesh(procs.name)
        procs.close()
        with pytest.raises(meshbus.Error):
            asked.result(30)
        may_end.set()
        wait_until(lambda: problems)
        assert "closed" in str(problems[0])


def test_a_pool_takes_orders() -> None:
    with meshbus.start() as hosts, meshbus.Pool(hosts, 2) as pool:
        name = pool._procs.name
        assert hosts.grow_mesh(name, blocks=2).size == 6
        barrier = [pool.submit(_busy, 0.3) for _ in range(6)]
        assert len({future.result(30) for future in barrier}) == 6
        with pytest.raises(meshbus.Refused, match="no rank would be left"):
            hosts.shrink_mesh(name, 3)
        assert hosts.shrink_mesh(name, 2).size == 2
        assert len(pool) == 2
        assert pool.submit(_busy, 0).result(30)
