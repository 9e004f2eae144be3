"""Fixtures for pytest: `meshbus_hosts` and `meshbus_workers`.

    @pytest.mark.meshbus(hosts=2, gpu=2)
    def test_counts(meshbus_workers):
        assert list(meshbus_workers.spawn(Counter).add(2)) == [2] * 4

Hosts live as long as the session, workers as long as the test. A worker that ends though nobody
asked fails its test, with its exit report. Load it by `pytest_plugins = "meshbus.pytest_plugin"` or
`-p meshbus.pytest_plugin`; an installed package is found without.
"""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from meshbus.hosts import HostMesh
    from meshbus.procs import ProcMesh


def pytest_configure(config: pytest.Config) -> None:
    """Says what the marker is."""
    config.addinivalue_line(
        "markers", "meshbus(hosts=1, gpu=2, ...): hosts of meshbus_hosts, and the axes of "
                   "meshbus_workers on each")


@pytest.hookimpl(tryfirst=True)  # type: ignore[misc]
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """A test is not passed while a worker of it has ended though nobody asked."""
    procs: Any = pyfuncitem.funcargs.get("meshbus_workers")
    test = pyfuncitem.obj
    if procs is None:
        return

    @functools.wraps(test)
    def checked(*args: Any, **kwargs: Any) -> Any:
        result = test(*args, **kwargs)
        procs._raise_failure()
        return result

    @functools.wraps(test)
    async def checked_later(*args: Any, **kwargs: Any) -> Any:
        result = await test(*args, **kwargs)
        procs._raise_failure()
        return result
    pyfuncitem.obj = checked_later if inspect.iscoroutinefunction(test) else checked


@pytest.fixture(scope="session")
def _meshbus_sessions() -> Iterator[Callable[[int], HostMesh]]:
    import meshbus
    meshes: dict[int, HostMesh] = {}

    def get(number: int) -> HostMesh:
        if number not in meshes:
            meshes[number] = meshbus.start(number)
        return meshes[number]
    yield get
    for mesh in meshes.values():
        with mesh:
            pass


def _shape(request: pytest.FixtureRequest) -> dict[str, Any]:
    mark = request.node.get_closest_marker("meshbus")
    return dict(mark.kwargs) if mark is not None else {}


@pytest.fixture
def meshbus_hosts(request: pytest.FixtureRequest,
                  _meshbus_sessions: Callable[[int], HostMesh]) -> HostMesh:
    """Hosts on this machine, as many as the marker says; the session's."""
    return _meshbus_sessions(_shape(request).get("hosts", 1))


@pytest.fixture
def meshbus_workers(request: pytest.FixtureRequest,
                    meshbus_hosts: HostMesh) -> Iterator[ProcMesh]:
    """Workers, as the marker says (default: two on one host); the test's own."""
    axes = _shape(request)
    axes.pop("hosts", None)
    with meshbus_hosts.workers(axes or {"gpu": 2}) as procs:
        yield procs
