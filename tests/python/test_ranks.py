"""Scripts that are ranks, and what happens to the programs of launchers."""
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import meshbus
from conftest import wait_until

SCRIPT = """
import atexit, sys, threading, time
import meshbus
called = threading.Event()
def turn(body):
    called.set()
    return body[::-1]
proc = meshbus.init(ports={1: turn})
atexit.register(lambda: print("atexit", proc.rank))
mode = sys.argv[1]
print("rank", proc.rank, "of", proc.world_size, proc.point,
      proc.call((proc.rank + 1) % proc.world_size, 1, b"hello").decode())
called.wait(20)  # the neighbour needs nothing more
try:
    if mode == "exit":
        sys.exit(3)
    if mode == "raise":
        raise ValueError("bad shard")
    if mode == "sleep":
        print("asleep")
        time.sleep(100)  # sleep-ok: it is there to sleep
finally:
    print("finally", proc.rank)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "rank.py"
    path.write_text(SCRIPT)
    return str(path)


def python(*words):
    return [sys.executable, *words]


def environment():
    return {key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ}


def lines_of(mesh):
    text = {}
    for event in mesh.events():
        if event.kind == "output":
            text[event.rank] = text.get(event.rank, "") + event.text
    return text


def test_a_script_is_a_rank_and_goes_on(hosts, script):
    with hosts.spawn(python(script, "return"), 1, mesh=True, output="stream",
                     env=environment()) as mesh:
        text = lines_of(mesh)
        assert mesh.wait(20).exit_code == 0
    assert text[1] == "rank 1 of 2 host=1,proc=0 olleh\nfinally 1\natexit 1\n"


@pytest.mark.parametrize("mode, code, tail", [("exit", 3, ""), ("raise", 1, "bad shard")])
def test_how_a_script_ends_is_reported(hosts, script, mode, code, tail):
    with hosts.spawn(python(script, mode), 1, mesh=True, on_failure=meshbus.ignore,
                     env=environment(), ready=60) as mesh:
        outcome = mesh.wait(30)
    assert outcome.first_failure.exit_code == code
    assert tail in outcome.first_failure.stderr_tail


def test_a_stop_is_a_system_exit(hosts, script):
    with hosts.spawn(python(script, "sleep"), 1, mesh=True, output="stream",
                     env=environment()) as mesh:
        for event in mesh.events():
            if event.kind == "output" and event.rank == 0 and "asleep" in event.text:
                break
        outcome = mesh.stop(0, grace=20)
        mesh.stop()
        text = lines_of(mesh)
    assert outcome.ranks[0].exit_code == 143
    assert "finally 0\natexit 0\n" in text[0]


def test_a_rank_knows_how_long_it_may_go_on_after_a_stop(hosts, tmp_path):
    path = tmp_path / "checkpoint.py"
    path.write_text("import meshbus, sys, threading\n"
                    "proc = meshbus.init(exit_on_stop=False)\n"
                    "assert proc.stop_request is None\n"
                    "print('ready', flush=True)\n"
                    "while not proc.stop_requested: threading.Event().wait(0.01)\n"
                    "stop = proc.stop_request\n"
                    "print(stop.reason, 5 < stop.left <= 10, flush=True)\n"
                    "sys.exit(stop.code + 5)\n")
    with hosts.spawn(python(str(path)), 1, mesh=True, output="stream", env=environment(),
                     on_failure=meshbus.ignore) as mesh:
        ready = set()
        for event in mesh.events():
            if event.kind == "output" and "ready" in event.text:
                ready.add(event.rank)
            if len(ready) == 2:
                break
        outcome = mesh.stop(grace=20, reason="the queue is drained")
        text = lines_of(mesh)
    assert [rank.exit_code for rank in outcome.ranks] == [5, 5]  # 0 is asked for
    assert "the queue is drained True" in text[0] + text[1]


def test_a_launcher_calls_ports_of_scripts(hosts, tmp_path):
    path = tmp_path / "serve.py"
    path.write_text("import meshbus, threading\n"
                    "proc = meshbus.init(ports={7: lambda b: b + b'!', 8: lambda b: 1 / 0},"
                    " exit_on_stop=False)\n"
                    "while not proc.stop_requested: threading.Event().wait(0.01)\n")
    with hosts.spawn(python(str(path)), 1, mesh=True, env=environment()) as mesh:
        assert list(mesh.call(7, b"a").result(20)) == [b"a!", b"a!"]
        assert mesh[1].call(7, b"b").result(20) == b"b!"
        with pytest.raises(meshbus.CallError, match="ZeroDivisionError"):
            mesh[0].call(8, b"").result(20)
        with pytest.raises(LookupError):
            mesh[0].call(9, b"").result(20)
        assert list(mesh.slice(host=1).call(7, b"c").result(20)) == [b"c!"]


def test_run_module_launches_a_script(tmp_path):
    path = tmp_path / "hello.py"
    path.write_text("import meshbus, sys\n"
                    "print('I am', meshbus.this_proc().rank, sys.argv[1:])\n"
                    "sys.exit(meshbus.this_proc().rank and 4)\n")
    done = subprocess.run(python("-m", "meshbus.run", "-n", "2", str(path), "x"), text=True,
                          capture_output=True, timeout=50)
    assert "[1] I am 1 ['x']" in done.stdout, done.stderr
    assert done.returncode == 4, done.stderr


def test_run_module_finds_modules_beside_the_script(tmp_path):
    (tmp_path / "beside.py").write_text("word = 'found'\n")
    (tmp_path / "hello.py").write_text("import beside\nprint(beside.word)\n")
    done = subprocess.run(python("-m", "meshbus.run", str(tmp_path / "hello.py")), text=True,
                          capture_output=True, timeout=50, cwd="/")
    assert "[0] found" in done.stdout, done.stderr


def test_a_script_that_ends_answers_the_call_in_which_it_is(hosts, tmp_path):
    path = tmp_path / "serve.py"
    path.write_text("import meshbus, threading\n"
                    "is_called = threading.Event()\n"
                    "def slow(body):\n"
                    "    is_called.set()\n"
                    "    threading.Event().wait(1)\n"
                    "    return b'done'\n"
                    "meshbus.init(ports={7: slow})\n"
                    "is_called.wait()\n")
    with hosts.spawn(python(str(path)), 1, mesh=True, env=environment()) as mesh:
        assert list(mesh.call(7, b"").result(20)) == [b"done", b"done"]
        assert mesh.wait(20).exit_code == 0


@pytest.mark.parametrize("waits", ["proc.call(1, 7, b'', timeout=None)",
                                   "proc.mesh.slice(host=1).call(7, b'')"])
def test_a_stop_gets_through_a_call(hosts, tmp_path, waits):
    path = tmp_path / "wait.py"
    path.write_text("import meshbus, threading\n"
                    "for_ever = threading.Event()\n"
                    "proc = meshbus.init(ports={7: lambda body: for_ever.wait(50)})\n"
                    "try:\n"
                    "    print('begin', flush=True)\n"
                    f"    {waits} if proc.rank == 0 else for_ever.wait()\n"
                    "finally:\n"
                    "    print('finally', proc.rank)\n")
    with hosts.spawn(python(str(path)), 1, mesh=True, output="stream",
                     env=environment()) as mesh:
        for event in mesh.events():
            if event.kind == "output" and event.rank == 0 and "begin" in event.text:
                break
        begin = time.monotonic()
        outcome = mesh.stop(0, grace=30)
        assert time.monotonic() - begin < 20
        mesh.stop(1, grace=0)
        text = lines_of(mesh)
    assert outcome.ranks[0].exit_code == 143
    assert "finally 0\n" in text[0]


def launcher(code):
    """A program of its own."""
    return subprocess.Popen(python("-c", textwrap.dedent(code)), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_an_interpreter_that_ends_with_meshes_alive():
    program = launcher("""
        import meshbus
        hosts = meshbus.start(2)
        procs = hosts.workers(1)
        actors = procs.spawn(meshbus.Actor)
        other = hosts.spawn(["sleep", "100"], 1)
        future = procs.run_async(__import__("time").sleep, 100)
        print(*[r.pid for r in procs.reports + other.reports], flush=True)
    """)
    out, err = program.communicate(timeout=50)
    assert (program.returncode, err) == (0, "")
    wait_until(lambda: all(is_gone(pid) for pid in out.split()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_launcher_that_is_killed_leaves_nothing(number):
    program = launcher("""
        import meshbus, time
        hosts = meshbus.start(2)
        procs = hosts.workers(1)
        print(*[r.pid for r in procs.reports], flush=True)
        procs.wait()
    """)
    pids = program.stdout.readline().split()
    assert len(pids) == 2
    program.send_signal(number)
    program.communicate(timeout=50)
    wait_until(lambda: all(is_gone(pid) for pid in pids))


def test_a_child_of_fork_refuses_and_begins_anew(hosts):
    mesh = hosts.spawn(["sleep", "60"], 1)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = []
        for act in (mesh.stop, lambda: hosts.spawn(["true"], 1), mesh.status):
            try:
                act()
                said.append("worked")
            except meshbus.Error as error:
                said.append(error.code)
        try:
            with meshbus.start(1) as own, own.spawn(["true"], 1) as other:
                said.append(str(other.wait(20).exit_code))
        except BaseException as error:
            said.append(repr(error))
        os.write(writer, " ".join(said).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        assert file.read() == "refused refused refused 0"
    os.waitpid(pid, 0)
    with mesh:
        assert not any(rank.is_terminal for rank in mesh.status())


def test_a_child_of_fork_that_ends_harms_nothing(hosts):
    pid = os.fork()
    if pid == 0:
        try:
            import sys as own
            own.modules["meshbus._context"].close_all()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with hosts.spawn(["true"], 1) as mesh:
        assert mesh.wait(20).exit_code == 0


def test_a_rank_loads_few_libraries():
    code = ("import sys, meshbus, meshbus.proc; print(*[n for n in sys.modules if n in "
            "('meshbus._client', 'asyncio', 'cloudpickle', 'numpy', 'traceback')])")
    done = subprocess.run(python("-c", code), capture_output=True, text=True, timeout=50)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_bytes_endpoints_talk_to_programs_that_are_not_python(workers):
    class Reverse(meshbus.Actor):
        @meshbus.endpoint
        def turn(self, body):
            return body[::-1]

        @meshbus.endpoint
        def text(self, body):
            return len(body)
    with workers.options(name="turner").spawn(Reverse) as actors:
        core = actors._core
        from meshbus.future import Future
        answers = Future(core.call("turn", b"abc", 10), list).result()
        assert [bytes(answer) for answer in answers] == [b"cba"] * 4
        answers = Future(core.call("text", b"abc", 10), list).result()
        assert [bytes(answer) for answer in answers] == [b"3"] * 4


def test_progress_sets_the_time_of_the_file_of_this_rank(tmp_path, monkeypatch):
    monkeypatch.delenv("MESHBUS_PROGRESS", raising=False)
    meshbus.progress()
    beat = tmp_path / "beat"
    monkeypatch.setenv("MESHBUS_PROGRESS", str(beat))
    meshbus.progress()
    os.utime(beat, (0, 0))
    meshbus.progress()
    assert beat.stat().st_mtime > 0


def test_a_script_under_the_run_command(tmp_path):
    """`meshbus run --mesh` starts `python3 -m meshbus.run`, too, and gets its exit code."""
    (tmp_path / "rank.py").write_text(textwrap.dedent("""
        import meshbus, sys, threading
        is_done = threading.Event()
        proc = meshbus.init(ports={1: bytes.upper, 2: lambda body: is_done.set()})
        print(proc.rank, proc.call(1 - proc.rank, 1, b"hello").decode())
        proc.call(1 - proc.rank, 2, b"")
        is_done.wait(30)  # the other one has printed
        sys.exit(4 * proc.rank)
    """))
    done = subprocess.run([meshbus.versions()["program"], "run", "--mesh", "-n", "2", "--no-prefix",
                           "--", *python("-m", "meshbus.run", str(tmp_path / "rank.py"))],
                          capture_output=True, text=True, timeout=50)
    assert sorted(done.stdout.splitlines()) == ["0 HELLO", "1 HELLO"], done.stderr
    assert done.returncode == 4


def test_the_call_command_reaches_an_endpoint(hosts, workers):
    """`meshbus call MESH --actor NAME ENDPOINT BODY`."""
    class Length(meshbus.Actor):
        @meshbus.endpoint
        def of(self, body):
            return len(body)

    with workers.options(name="length").spawn(Length):
        done = subprocess.run([meshbus.versions()["program"], "call", workers.name, "--actor",
                               "length", "of", "four", "--hosts", ",".join(hosts.hosts)],
                              capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stderr
        assert [line.rpartition(" ")[2] for line in done.stdout.splitlines()] == ["4"] * 4
