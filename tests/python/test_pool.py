"""Pool, and the fixtures for pytest."""
import concurrent.futures
import os
import pickle
import subprocess
import sys
import textwrap
import time

import pytest

import meshbus
from conftest import wait_until


def square(n):
    return n * n


def die_once(path, n):
    """Ends its process when it is called first."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return n
    os._exit(9)


@pytest.fixture(scope="module")
def pool(hosts):
    with meshbus.Pool(hosts, per_host=2, retries=2) as made:
        yield made


def test_submit_and_map(pool):
    assert pool.submit(square, 3).result(30) == 9
    assert list(pool.map(square, range(50))) == [n * n for n in range(50)]
    assert list(pool.map(lambda a, b: a + b, [1, 2], [3, 4])) == [4, 6]
    assert len(pool) == 4


def test_it_is_an_executor(pool):
    assert isinstance(pool, concurrent.futures.Executor)
    futures = [pool.submit(square, n) for n in range(5)]
    done = concurrent.futures.wait(futures, 30).done
    assert sorted(f.result() for f in done) == [0, 1, 4, 9, 16]
    assert all(f.done() for f in concurrent.futures.as_completed(futures, 30))


def test_an_exception_is_the_functions_own(pool):
    with pytest.raises(ZeroDivisionError) as caught:
        pool.submit(lambda: 1 / 0).result(30)
    assert "1 / 0" in str(caught.value.__cause__)


def test_memory_of_arguments_can_be_written_to(pool):
    def first(buffer):
        memoryview(buffer)[0] = 7
        return memoryview(buffer)[0]
    assert pool.submit(first, pickle.PickleBuffer(bytearray(100_000))).result(30) == 7


def test_shutdown_without_waiting_ends_the_workers_when_tasks_are_done(hosts):
    pool = meshbus.Pool(hosts)
    pids = set(pool.map(lambda n: os.getpid(), range(20)))
    futures = [pool.submit(square, n) for n in range(10)]
    pool.shutdown(wait=False)
    assert [future.result(30) for future in futures] == [n * n for n in range(10)]
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))


def test_a_lost_worker_is_replaced_and_its_task_run_again(pool, tmp_path):
    futures = [pool.submit(die_once, str(tmp_path / f"{n}"), n) for n in range(6)]
    assert [f.result(50) for f in futures] == list(range(6))


def test_a_task_that_kills_every_worker_fails(hosts):
    with meshbus.Pool(hosts, retries=1) as pool:
        with pytest.raises(ConnectionError) as caught:
            pool.submit(os._exit, 9).result(50)
        assert "exit 9" in "\n".join(caught.value.__notes__)
        assert pool.submit(square, 2).result(50) == 4


def test_initializer(hosts):
    def setup(value):
        os.environ["POOL_SET_UP"] = value
    with meshbus.Pool(hosts, initializer=setup, initargs=("yes",)) as pool:
        assert pool.submit(lambda: os.environ["POOL_SET_UP"]).result(30) == "yes"


def test_an_initializer_that_raises_breaks_the_pool(hosts):
    def setup():
        raise ValueError("no licence")
    with meshbus.Pool(hosts, initializer=setup) as pool:
        try:
            future = pool.submit(square, 2)
        except meshbus.BrokenPool as error:
            assert "no licence" in str(error)
            return
        with pytest.raises(concurrent.futures.BrokenExecutor, match="no licence"):
            future.result(30)


def test_cancel_and_shutdown(hosts):
    pool = meshbus.Pool(hosts)
    slow = [pool.submit(time.sleep, 0.3) for _ in range(2)]
    waiting = [pool.submit(square, n) for n in range(20)]
    assert any(future.cancel() for future in reversed(waiting))
    pool.shutdown(cancel_futures=True)
    assert all(future.done() for future in slow + waiting)
    with pytest.raises(meshbus.Refused):
        pool.submit(square, 1)


def test_an_exception_in_with_closes_the_pool_at_once(hosts):
    with pytest.raises(ZeroDivisionError):
        with meshbus.Pool(hosts) as pool:
            futures = [pool.submit(time.sleep, 600) for _ in range(2 * len(pool))]
            1 / 0
    for future in futures:
        with pytest.raises(meshbus.Refused, match="this pool (is|was) closed"):
            future.result(0)


def test_a_pool_without_workers_is_refused(hosts):
    with pytest.raises(meshbus.ConfigurationError, match="per_host is 0: a pool needs a worker"):
        meshbus.Pool(hosts, per_host=0)


def test_what_cannot_be_pickled(pool):
    import threading
    with pytest.raises(ValueError, match="cannot be pickled"):
        pool.submit(square, threading.Lock())


def test_an_interpreter_that_ends_with_a_pool():
    code = """
        import meshbus, time
        pool = meshbus.Pool(meshbus.start(1), 2)
        pool.submit(time.sleep, 100)
        print(pool.submit(int, "3").result(30))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True,
                          text=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_the_pytest_plugin(tmp_path):
    (tmp_path / "test_mine.py").write_text(textwrap.dedent("""
        import pytest
        import meshbus

        class Counter(meshbus.Actor):
            def __init__(self):
                self.n = 0

            @meshbus.endpoint
            def add(self, k):
                self.n += k
                return self.n

        @pytest.mark.meshbus(hosts=2, gpu=2)
        def test_counts(meshbus_workers):
            assert list(meshbus_workers.spawn(Counter).add(2)) == [2] * 4

        def test_one_host(meshbus_hosts):
            assert len(meshbus_hosts) == 1

        def test_an_end_that_nobody_expects(meshbus_workers):
            meshbus_workers.kill(1)
    """))
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p",
                           "meshbus.pytest_plugin", str(tmp_path)], capture_output=True,
                          text=True, timeout=50)
    assert "1 failed, 2 passed" in done.stdout
    assert "MeshFailure" in done.stdout and "SIGKILL" in done.stdout
