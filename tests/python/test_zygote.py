"""Ranks that are copies of a template process."""
import os
import pathlib
import signal
import sys

import pytest

import meshbus
from conftest import wait_until

SLOW = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True, name="pool").start()
"""


def templates():
    """The pids of all templates that live."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if b"meshbus.template" in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except (OSError, ValueError):
            continue
    return found


def look():
    """What a copy is: runs in a rank."""
    import random
    import threading
    # To the C library the main thread is that of this process: it would not find another one.
    signal.pthread_kill(threading.main_thread().ident, 0)
    parent = os.getppid()
    comm = pathlib.Path(f"/proc/{parent}/comm").read_text().strip()
    return {"parent": comm, "decimal": "decimal" in sys.modules, "pid": os.getpid(),
            "session": os.getsid(0) == os.getpid(), "rank": os.environ["RANK"],
            "random": random.random(), "secret": "MESHBUS_BOOTSTRAP" in os.environ,
            "command": pathlib.Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").split(b"\0"),
            "cpus": sorted(os.sched_getaffinity(0)),
            "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))}


def test_workers_are_copies_whose_parent_is_the_keeper(hosts):
    with hosts.workers(per_host={"gpu": 2}, zygote=["decimal"], cpus=[0]) as procs:
        seen = list(procs.run(look))
    assert {one["parent"] for one in seen} == {"meshbus-keeper"}
    assert all(one["decimal"] and one["session"] for one in seen)
    assert [one["rank"] for one in seen] == ["0", "1", "2", "3"]
    assert len({one["pid"] for one in seen}) == 4 and len({one["random"] for one in seen}) == 4
    assert not any(one["secret"] for one in seen)
    assert all(one["cpus"] == [0] and one["command"][1:] == [b"-m", b"meshbus.worker"]
               for one in seen)
    assert len({tuple(one["fds"]) for one in seen}) == 1  # nothing of the template's is left


def test_actors_in_copies(hosts):
    class Counter(meshbus.Actor):
        def __init__(self, start):
            self.total = start

        @meshbus.endpoint
        def add(self, n):
            self.total += n
            return self.total
    with hosts.workers(2, zygote=[]) as procs:
        assert list(procs.spawn(Counter, 40).add(2)) == [42] * 4


def test_a_script_ends_as_it_would(hosts, tmp_path):
    script = tmp_path / "script.py"
    # A rank that fails before all are ready fails the spawn.
    go = tmp_path / "go"
    script.write_text("import atexit, decimal, os, sys, time\n"
                      "atexit.register(lambda: print('bye', file=sys.stderr))\n"
                      "assert __name__ == '__main__' and sys.argv[1:] == ['one', 'two']\n"
                      "is_first = sys.path[0] == os.path.dirname(__file__)\n"
                      "print('rank', os.environ['RANK'], is_first, flush=True)\n"
                      f"while not os.path.exists({str(go)!r}):\n"
                      "    time.sleep(0.01)  # sleep-ok: it waits for the test\n"
                      "sys.exit(3 if os.environ['RANK'] == '1' else 0)\n")
    said = []
    with hosts.spawn([sys.executable, script, "one", "two"], 1, zygote=["decimal"],
                     on_output=lambda rank, text: said.append(text),
                     on_failure=meshbus.ignore) as mesh:
        wait_until(lambda: "".join(said).count("rank") == 2)
        go.touch()
        outcome = mesh.wait(30)
    assert [report.exit_code for report in outcome.ranks] == [0, 3]
    assert all("bye" in report.stderr_tail for report in outcome.ranks)
    assert {"rank 0 True\n", "rank 1 True\n"} <= set("".join(said).splitlines(keepends=True))


def test_a_stop_and_a_signal(hosts, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import meshbus, signal, sys, time\n"
                      "proc = meshbus.init()\n"
                      "try:\n"
                      "    print('here')\n"
                      "    while True: time.sleep(60)  # sleep-ok: it is there to sleep\n"
                      "finally:\n"
                      "    print('cleaned up', file=sys.stderr)\n")
    said = []
    with hosts.spawn([sys.executable, script], 1, mesh=True, zygote=["decimal"],
                     on_failure=meshbus.ignore,
                     on_output=lambda rank, text: said.append(text)) as mesh:
        wait_until(lambda: "".join(said).count("here") == 2)
        mesh.kill(1)
        assert mesh.reports[1].signal == signal.SIGKILL
        outcome = mesh.stop()
    assert "cleaned up" in outcome.ranks[0].stderr_tail


def test_the_next_life_of_a_rank_is_a_copy_too(hosts):
    with hosts.workers(1, zygote=["decimal"], restart=meshbus.Restart(delay=0.01)) as procs:
        first = [one["pid"] for one in procs.run(look)]
        procs.kill(1)
        procs.wait_ready()
        again = list(procs.run(look))
        assert again[0]["pid"] == first[0] and again[1]["pid"] != first[1]
        assert again[1]["decimal"] and again[1]["parent"] == "meshbus-keeper"


def test_a_template_that_died_is_replaced(hosts):
    before = set(templates())
    with hosts.workers(1, zygote=["decimal"], restart=meshbus.Restart(delay=0.01)) as procs:
        ours = set(templates()) - before
        assert len(ours) == 2
        for pid in ours:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not ours & set(templates()))
        assert all(one["decimal"] for one in procs.run(look))  # its copies live
        procs.kill(0, 1)
        procs.wait_ready()
        assert all(one["decimal"] for one in procs.run(look))
        assert len(set(templates()) - before) == 2


def test_a_module_that_is_not_there(hosts):
    with pytest.raises(meshbus.SpawnError, match="cannot import no_such_module: ModuleNotFound"):
        hosts.workers(2, zygote=["no_such_module"])


def test_a_module_that_starts_threads_is_refused(hosts, tmp_path):
    (tmp_path / "threaded_module.py").write_text(SLOW)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    with pytest.raises(meshbus.SpawnError,
                       match="2 threads after the import of threaded_module .*leave out"):
        hosts.workers(2, zygote=["threaded_module"], env={"PYTHONPATH": paths})


def test_a_template_that_grows_threads_is_refused(hosts, tmp_path):
    (tmp_path / "growing_module.py").write_text(
        "import signal, threading\n"
        "def grow(number, frame):\n"
        "    threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "signal.signal(signal.SIGUSR1, grow)\n")
    before = set(templates())
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    failures = []
    with hosts.workers(1, zygote=["growing_module"], env=env, restart=meshbus.Restart(delay=0.01),
                       on_failure=failures.append) as procs:
        ours = set(templates()) - before
        for pid in ours:
            os.kill(pid, signal.SIGUSR1)
        wait_until(lambda: all(len(os.listdir(f"/proc/{pid}/task")) == 2 for pid in ours))
        procs.kill(0)
        wait_until(lambda: failures)
        assert "the template has 2 threads by now" in failures[0].reason
        assert procs.reports[1].state == "ready"


def test_a_template_that_ends_by_itself(hosts, tmp_path):
    (tmp_path / "ending_module.py").write_text("import os\nos._exit(9)\n")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    with pytest.raises(meshbus.SpawnError, match="the template ended: exit code 9"):
        hosts.workers(2, zygote=["ending_module"], env={"PYTHONPATH": paths})


def test_a_template_that_hangs(hosts, tmp_path):
    (tmp_path / "hanging_module.py").write_text("import threading\nthreading.Event().wait(600)\n")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    with pytest.raises(meshbus.SpawnError):
        hosts.workers(2, zygote=["hanging_module"], env={"PYTHONPATH": paths}, ready=1)


def test_zygote_is_for_python(hosts):
    with pytest.raises(ValueError, match="zygote is for commands like"):
        hosts.spawn(["sh", "-c", "true"], zygote=["numpy"])
    with pytest.raises(ValueError, match=r"\['numpy'\]"):
        hosts.workers(zygote="numpy")


def test_nothing_is_left_when_the_hosts_go():
    before = set(templates())
    with meshbus.start() as hosts:
        with hosts.workers(2, zygote=["decimal"]) as procs:
            procs.run(os.getpid)
            assert set(templates()) - before
    assert not set(templates()) - before
