"""Every test is bounded in time, and nothing is left behind when they are over."""
import faulthandler
import os
import pathlib
import signal
import sys
import time
import uuid

import pytest

import meshbus

LIMIT = 60
"""Seconds for a test. The machine may be busy with other tests."""
TAG = f"MESHBUS_PYTHON_TEST={uuid.uuid4().hex}"


def pytest_configure(config):
    # What a shell starts by & ignores Ctrl-C, and so would all that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    name, _, value = TAG.partition("=")
    os.environ[name] = value  # hosts and ranks inherit it
    config.addinivalue_line("markers", "limit(seconds): another limit for the test")


@pytest.fixture(autouse=True)
def bounded(request):
    """Fails a test that takes too long; ends everything when it cannot even be failed."""
    mark = request.node.get_closest_marker("limit")
    seconds = mark.args[0] if mark else LIMIT

    def over(number, frame):
        faulthandler.dump_traceback(all_threads=True)
        pytest.fail(f"the test is not over after {seconds} s")
    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(seconds + 30, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def left_behind():
    """{pid: command} of processes of these tests that live."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if TAG.encode() in environment and state not in "ZX":
            found[int(folder.name)] = command
    return found


def wait_until(condition, seconds=20):
    """Waits until a condition holds; fails when it does not."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so after {seconds} s"
        time.sleep(0.02)  # sleep-ok: it is the wait


@pytest.fixture(scope="session", autouse=True)
def nothing_left():
    """After all tests: no process of theirs lives."""
    yield
    if context := sys.modules.get("meshbus._context"):
        context.close_all()
    end = time.monotonic() + 20
    while left := left_behind():
        if time.monotonic() > end:
            pytest.fail(f"left behind: {left}")
        time.sleep(0.05)  # sleep-ok: it is the wait


@pytest.fixture(scope="session")
def hosts():
    """Two hosts that all tests share."""
    with meshbus.start(hosts=2) as mesh:
        yield mesh


@pytest.fixture(scope="module")
def workers(hosts):
    """Two workers on each host that the tests of a file share, and leave as they are."""
    with hosts.workers(per_host={"gpu": 2}) as procs:
        yield procs


@pytest.fixture(scope="module")
def counters(workers):
    """Counters in these workers, from 40 on."""
    from counter_actor import Counter
    with workers.spawn(Counter, 40) as actors:
        yield actors
