"""Hosts, processes, their ends: what a launcher does."""
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import meshbus
from meshbus import Restart


def sh(script):
    return ["sh", "-c", script]


def let_go(mesh, *ranks):
    """Writes the line that these ranks wait for: the spawn has returned before they end."""
    for rank in ranks:
        mesh.write(rank, "go\n")


def test_hosts_have_addresses_and_a_shape(hosts):
    assert len(hosts) == 2 and len(hosts.hosts) == 2
    assert hosts.extent == meshbus.Extent(host=2)
    assert "host=2" in repr(hosts) and "<table>" in hosts._repr_html_()


def test_spawn_runs_a_command_on_every_host(hosts):
    with hosts.spawn(sh("echo $RANK of $WORLD_SIZE >&2"), {"gpu": 2}) as mesh:
        outcome = mesh.wait(30)
    assert outcome.exit_code == 0
    assert [rank.stderr_tail for rank in outcome.ranks] == [f"{i} of 4\n" for i in range(4)]
    assert mesh.extent == meshbus.Extent(host=2, gpu=2)


def test_processes_become_hosts(hosts):
    with hosts.inside("cell=2", cpus=[0]) as inner:
        assert inner.extent == meshbus.Extent(host=2, cell=2)
        with inner.spawn(sh("grep ^Cpus_allowed_list: /proc/self/status >&2")) as mesh:
            outcome = mesh.wait(30)
        assert [rank.stderr_tail.split()[1] for rank in outcome.ranks] == ["0"] * 4
        outer = next(mesh for mesh in hosts.meshes() if mesh.name.startswith("inner-"))
        with inner.spawn(["sleep", "600"], on_failure=meshbus.ignore) as mesh:
            os.kill(outer.ranks[1].pid, signal.SIGKILL)
            lost = next(event.report for event in mesh.events() if event.kind == "failure")
            mesh.stop()
        assert lost.rank == 1 and f"rank 1 of {outer.name}" in lost.reason
    with hosts.spawn(["true"]) as mesh:
        assert len(mesh.wait(30).ranks) == 2


@pytest.mark.parametrize("per_host, extent", [
    (None, "host=2"), (3, "host=2,proc=3"), ("gpu=2,x=1", "host=2,gpu=2,x=1"),
    ({"gpu": 2}, "host=2,gpu=2"), (meshbus.Extent(a=1), "host=2,a=1")])
def test_per_host_is_what_people_write(hosts, per_host, extent):
    with hosts.spawn(["true"], per_host) as mesh:
        assert str(mesh.extent) == extent


def test_wait_raises_at_the_first_failure(hosts):
    begin = time.monotonic()
    with pytest.raises(meshbus.MeshFailure) as caught:
        with hosts.spawn(sh("test $RANK = 1 && { read line; echo no memory >&2; exit 7; };"
                            " sleep 60"), {"gpu": 2}, stdin=[1]) as mesh:
            let_go(mesh, 1)
            mesh.wait()
    assert time.monotonic() - begin < 20
    assert caught.value.report.rank == 1 and caught.value.report.exit_code == 7
    assert "no memory" in str(caught.value)


def test_with_raises_a_failure_that_nobody_handled(hosts):
    with pytest.raises(meshbus.MeshFailure):
        with hosts.spawn(sh("read line; exit 3"), 1, stdin=[0, 1]) as mesh:
            let_go(mesh, 0, 1)
            list(mesh.events())


def test_on_failure_handles_it(hosts):
    heard = []
    with hosts.spawn(sh("read line; exit $RANK"), 1, stdin=[0, 1],
                     on_failure=heard.append) as mesh:
        let_go(mesh, 0, 1)
        outcome = mesh.wait(30)
    assert [report.rank for report in heard] == [1]
    assert outcome.exit_code == 1 and outcome.first_failure.rank == 1


def test_an_exception_in_with_is_not_hidden_by_a_failure(hosts):
    with pytest.raises(KeyError):
        with hosts.spawn(sh("read line; exit 3"), 1, stdin=[0, 1]) as mesh:
            let_go(mesh, 0, 1)
            list(mesh.events())
            raise KeyError("mine")


def test_stop_is_no_failure(hosts):
    with hosts.spawn(["sleep", "60"], 1) as mesh:
        outcome = mesh.stop(reason="enough")
        assert all(rank.cause == "stopped" for rank in outcome.ranks)
        assert outcome.ranks[0].stop_reason == "enough"
        assert mesh.wait(20).exit_code == 0


def test_stop_of_one_rank_leaves_the_others(hosts):
    with hosts.spawn(["sleep", "60"], 1) as mesh:
        mesh.stop(1)
        assert [rank.is_terminal for rank in mesh.reports] == [False, True]


def test_kill_waits_until_the_rank_is_gone(hosts):
    with hosts.spawn(["sleep", "60"], 1, on_failure=meshbus.ignore) as mesh:
        mesh.kill(0)
        report = mesh.reports[0]
        assert report.signal == signal.SIGKILL and report.is_failure
        assert not mesh.reports[1].is_terminal


def test_signal_reaches_a_rank(hosts):
    script = "trap 'exit 5' USR1; echo up; while :; do sleep 0.1; done"
    with hosts.spawn(sh(script), 1, output="stream", on_failure=meshbus.ignore) as mesh:
        for event in mesh.events():
            if event.kind == "output" and event.rank == 0:
                mesh.signal(signal.SIGUSR1, 0)
            if event.kind == "failure":
                assert (event.rank, event.report.exit_code) == (0, 5)
                break


def test_restart_begins_a_new_life(hosts):
    restarts = []
    with hosts.spawn(sh("sleep 0.3; test $MESHBUS_RESTARTS = 2"), 1,
                     restart=Restart(budget=3, delay=0.01), on_restart=restarts.append) as mesh:
        outcome = mesh.wait(40)
    assert [rank.restarts for rank in outcome.ranks] == [2, 2]
    assert len(outcome.former_lives) == 4 and restarts[0].cause.exit_code == 1


def test_events_by_for(hosts):
    with hosts.spawn(sh("echo out; echo err >&2; sleep 0.2"), 1, output="stream") as mesh:
        seen = list(mesh.events())
    output = sorted((e.rank, e.stream, e.text) for e in seen if e.kind == "output")
    assert output == [(0, "stderr", "err\n"), (0, "stdout", "out\n"),
                      (1, "stderr", "err\n"), (1, "stdout", "out\n")]
    assert seen[-1].kind == "end" and seen[-1].outcome.exit_code == 0


def test_events_by_async_for(hosts):
    async def main():
        kinds = []
        async with hosts.spawn(sh("read line; exit $RANK"), 1, stdin=[0, 1],
                               on_failure=meshbus.ignore) as mesh:
            let_go(mesh, 0, 1)
            async for event in mesh.events():
                kinds.append((event.kind, event.rank))
        return kinds
    kinds = asyncio.run(main())
    assert ("failure", 1) in kinds and kinds[-1] == ("end", -1)


def test_events_given_up_half_way(hosts):
    with hosts.spawn(sh("for i in 1 2 3; do echo $i; done; sleep 0.2"), 1,
                     output="stream") as mesh:
        for event in mesh.events():
            break
        with mesh.events() as stream:
            next(stream)
        assert mesh.wait(20).exit_code == 0


def test_on_output_gets_text(hosts):
    pieces = []
    with hosts.spawn(sh("echo of $RANK"), 1,
                     on_output=lambda rank, text: pieces.append((rank, text))) as mesh:
        mesh.wait(20)
    assert sorted(pieces) == [(0, "of 0\n"), (1, "of 1\n")]


def test_a_handler_that_raises_stops_nothing(hosts, capsys):
    def bad(rank, text):
        raise ValueError("mine")
    with hosts.spawn(sh("echo hi"), 1, on_output=bad) as mesh:
        assert mesh.wait(20).exit_code == 0
    assert "ValueError: mine" in capsys.readouterr().err


def test_a_handler_that_exits_stops_nothing(hosts, capsys):
    def bad(report):
        sys.exit("a rank died")
    with hosts.spawn(sh("read line; exit 3"), 1, stdin=[0, 1], on_failure=bad) as mesh:
        let_go(mesh, 0, 1)
        assert mesh.wait(20).exit_code == 3
    assert "SystemExit: a rank died" in capsys.readouterr().err


def test_a_stream_whose_loop_is_closed_holds_up_nobody(hosts):
    with hosts.spawn(sh("read line; exit 0"), 1, stdin=[0, 1]) as mesh:
        stream = mesh.events()

        async def look():
            while True:
                await asyncio.wait_for(stream.__anext__(), 0.3)
        with pytest.raises(asyncio.TimeoutError):
            asyncio.run(look())
        let_go(mesh, 0, 1)
        assert mesh.wait(20).exit_code == 0
        assert list(stream)[-1].kind == "end"


def test_a_wait_that_is_given_up_takes_nothing_from_others(hosts):
    with hosts.spawn(sh("sleep 0.5"), 1) as mesh:
        one, other = mesh.wait_async(), mesh.wait_async()
        assert one.cancel()
        assert other.result(20).exit_code == 0
        assert mesh.wait(20).exit_code == 0


def test_waiting_again_and_again_opens_no_more_files(hosts):
    with hosts.spawn(["sleep", "60"], 1) as mesh:
        left = {mesh.wait_async()}
        meshbus.wait(left, timeout=0)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            _, left = meshbus.wait(left, timeout=0)
        assert len(left) == 1 and len(os.listdir("/proc/self/fd")) <= before


def test_stdin(hosts):
    with hosts.spawn(["cat"], 1, stdin=[0], output="stream") as mesh:
        mesh.write(0, "hello\n")
        mesh.close_stdin(0)
        output = [e.text for e in mesh.events() if e.kind == "output"]
    assert output == ["hello\n"]


def test_logs_of_a_mesh(hosts):
    with hosts.spawn(sh("echo one; sleep 60"), 1, output="capture") as mesh:
        for rank, stream, data in hosts.logs(mesh, 0, follow=True):
            assert (rank, stream, data) == (0, "stdout", b"one\n")
            break
        assert [info.name for info in hosts.meshes() if info.name == mesh.name] == [mesh.name]


def test_environment_and_directory(hosts, tmp_path):
    with hosts.spawn(sh("echo $MINE $PWD >&2"), 1, env={"MINE": "1"}, cwd=tmp_path) as mesh:
        assert mesh.wait(20).ranks[0].stderr_tail == f"1 {tmp_path}\n"


def test_a_command_that_is_not_there(hosts):
    with pytest.raises(meshbus.SpawnError, match="/no/such"):
        hosts.spawn(["/no/such"], 1)


def test_wait_times_out_exactly(hosts):
    with hosts.spawn(["sleep", "60"], 1) as mesh:
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            mesh.wait(0.3)
        assert 0.29 < time.monotonic() - begin < 10


def interrupt(after):
    main = threading.main_thread().ident
    timer = threading.Timer(after, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    return timer


def test_ctrl_c_interrupts_waiting(hosts):
    with hosts.spawn(["sleep", "60"], 1) as mesh:
        for wait in (mesh.wait, lambda: list(mesh.events()),
                     lambda: hosts.spawn(["sleep", "60"], 1, mesh=True, ready=30)):
            timer = interrupt(0.2)
            begin = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                wait()
            timer.join()
            assert time.monotonic() - begin < 10


def test_a_cancelled_task_leaves_the_future(hosts):
    async def main():
        async with hosts.spawn(sh("sleep 1"), 1) as mesh:
            future = mesh.wait_async()

            async def waits():
                return await future
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waits(), 0.1)
            return await asyncio.gather(waits(), waits())
    first, second = asyncio.run(main())
    assert first.exit_code == second.exit_code == 0


def test_attached_hosts_stay(hosts):
    with meshbus.attach(hosts.ref) as same:
        assert same.hosts == hosts.hosts
        with same.spawn(["true"], 1) as mesh:
            mesh.wait(20)
    with meshbus.attach(*hosts.hosts) as same, same.spawn(["true"], 1) as mesh:
        assert mesh.wait(20).exit_code == 0


@pytest.mark.parametrize("act, error", [
    (lambda hosts: hosts.spawn([], 1), meshbus.ConfigurationError),
    (lambda hosts: hosts.spawn("ls -l", 1), meshbus.ConfigurationError),
    (lambda hosts: hosts.spawn(["true"], {"host": 2}), meshbus.ConfigurationError),
    (lambda hosts: hosts.spawn(["true"], {"gpu": -1}), ValueError),
    (lambda hosts: hosts.spawn(["true"], "gpu"), meshbus.ParseError),
    (lambda hosts: hosts.spawn(["true"], 1, output="both"), meshbus.ConfigurationError),
    (lambda hosts: Restart(gang="most"), meshbus.ConfigurationError),
    (lambda hosts: meshbus.attach(), meshbus.ConfigurationError),
    (lambda hosts: meshbus.attach("nonsense"), meshbus.ParseError),
    (lambda hosts: meshbus.attach("tcp:127.0.0.1:1"), ConnectionError),
    (lambda hosts: meshbus.take("nonsense"), meshbus.ParseError),
    (lambda hosts: meshbus.init(), LookupError),
    (lambda hosts: meshbus.this_proc(), LookupError),
    (lambda hosts: hosts.spawn(["true"], 1, limits=meshbus.Limits(memory="2 lots")), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, limits=meshbus.Limits(memory="inf")), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, limits=meshbus.Limits(memory=-1)), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, limits=meshbus.Limits(processes=-1)), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, limits={"memory": "2G"}), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, restart="failure"), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, restart=Restart(budget=-1)), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, restart=Restart(codes=137)), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, bind=True), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, cpus=2), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, cpus="0-3"), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, stdin=0), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, ready="30"), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, lease="1"), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, process={"nice": 1}), ValueError),
    (lambda hosts: hosts.spawn(["true"], 1, ready=float("nan")), ValueError),
    (lambda hosts: meshbus.start(settings={"log.level": None}), ValueError),
    (lambda hosts: meshbus.start(settings="log.level=debug"), ValueError),
    (lambda hosts: meshbus.start(ready="30"), ValueError),
    (lambda hosts: meshbus.ssh(["h1"]), ValueError),
    (lambda hosts: meshbus.attach(["tcp:h1:1"]), ValueError),
    (lambda hosts: hosts.inside(1, wrapper="unshare"), ValueError),
    (lambda hosts: hosts.spawn(["true"], 2.5), ValueError),
    (lambda hosts: hosts.spawn(["true"], {1: 2}), ValueError),
])
def test_bad_input_is_named(hosts, act, error):
    with pytest.raises(error) as caught:
        act(hosts)
    assert isinstance(caught.value, meshbus.Error) and caught.value.detail


def test_bad_ranks_and_slices(hosts):
    with hosts.spawn(["sleep", "60"], {"gpu": 2}) as mesh:
        for act, error in ((lambda: mesh[9], IndexError), (lambda: mesh.stop(9), IndexError),
                           (lambda: mesh.signal(1 << 40), IndexError),
                           (lambda: mesh.signal("TERM"), IndexError),
                           (lambda: mesh.write(0, 5), ValueError),
                           (lambda: mesh.call(1, b"", timeout="5"), ValueError),
                           (lambda: mesh.slice(gpu=7), IndexError),
                           (lambda: mesh.slice(gpu=-3), IndexError),
                           (lambda: mesh.slice(nope=1), ValueError),
                           (lambda: mesh.slice(gpu=slice(-1, None)), ValueError)):
            with pytest.raises(error):
                act()
        assert len(mesh.slice(host=0)) == 2 and str(mesh.slice(host=-1).extent) == "gpu=2"


def test_a_closed_mesh_says_so(hosts):
    with hosts.spawn(["sleep", "60"], 1) as mesh:
        pass
    mesh.close()
    assert "2 stopped" in repr(mesh) and "<table>" in mesh._repr_html_()
    with pytest.raises(meshbus.Refused, match="closed"):
        mesh.status()
    with pytest.raises(meshbus.Refused):
        mesh.stop()
    assert list(mesh.events())[-1].kind == "end"


def test_a_mesh_that_is_closed_early_ends_its_waiters(hosts):
    mesh = hosts.spawn(["sleep", "60"], 1)
    future = mesh.wait_async()
    mesh.close()
    with pytest.raises(meshbus.Refused, match="closed"):
        future.result(20)


def test_names_lead_to_what_was_meant():
    with pytest.raises(AttributeError, match="did you mean 'start'"):
        meshbus.strat  # noqa: B018


def test_versions_name_the_program_of_this_release():
    versions = meshbus.versions()
    assert versions["meshbus"] == meshbus.__version__ and versions["protocol"] == "1"
    said = subprocess.run([versions["program"], "--version"], capture_output=True, text=True)
    assert said.stdout == f"meshbus {versions['meshbus']}\n"


def make_program(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "meshbus").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "meshbus").chmod(0o755)
    return str(folder)


def test_a_program_in_path_is_never_started(tmp_path):
    other = make_program(tmp_path / "bin", f"touch {tmp_path}/started")
    program = "import meshbus\nwith meshbus.start() as hosts: print(len(hosts))\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env=os.environ | {"PATH": f"{other}:{os.environ['PATH']}"}, timeout=50)
    assert (done.stdout, done.stderr) == ("1\n", "") and not (tmp_path / "started").exists()


@pytest.mark.parametrize("text, reason", [
    ("echo meshbus 9.9.9", "says that it is 'meshbus 9.9.9', and this package is of release"),
    ("exit 3", "neither the meshbus program nor its folder"),
])
def test_a_program_of_another_release_is_refused(tmp_path, monkeypatch, text, reason):
    monkeypatch.setenv("MESHBUS_BIN", make_program(tmp_path / "bin", text))
    with pytest.raises(meshbus.ConfigurationError, match=reason):
        meshbus.start()


def test_logs_given_up_half_way(hosts):
    with hosts.spawn(["sh", "-c", "seq 1000; exec sleep 60"], 1) as mesh:
        lines = hosts.logs(mesh, follow=True)
        next(lines)
        lines.close()
        assert [report.state for report in mesh.status()] == ["ready"] * 2


def test_errors_pickle():
    import pickle
    error = pickle.loads(pickle.dumps(meshbus.ParseError("no", position=3)))
    assert (error.code, error.detail, error.position) == ("parse_error", "no", 3)
    assert isinstance(meshbus.Timeout("x"), TimeoutError)

def test_bound_ranks_run_where_the_map_says(hosts):
    script = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status >&2"
    try:
        mesh = hosts.spawn(sh(script), {"proc": 1}, bind="core")
    except meshbus.Error as error:
        if "hwloc" in str(error):
            pytest.skip("meshbus-topology was built without hwloc")
        raise
    with mesh:
        outcome = mesh.wait(30)
        assert [bound.rank for bound in mesh.bindings] == [0, 1]
        for rank, bound in zip(outcome.ranks, mesh.bindings):
            assert cpus_in(rank.stderr_tail) == list(bound.cpus)
            assert bound.gpu == bound.visible_devices == ""
        assert all(isinstance(text, str) for _, text in mesh.binding_notes)


def cpus_in(text):
    cpus = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


@pytest.mark.parametrize("wrong", [
    lambda: meshbus.Bind("socket"), lambda: meshbus.Bind("numa", cores=2),
    lambda: meshbus.Bind("core", cores=0), lambda: meshbus.Bind("core", memory="local")])
def test_a_binding_that_there_is_not_is_refused(wrong):
    with pytest.raises(meshbus.ConfigurationError):
        wrong()


def test_without_bind_there_is_no_binding(hosts):
    with hosts.spawn(["true"]) as mesh:
        assert mesh.bindings == [] and mesh.binding_notes == []
