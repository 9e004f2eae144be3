"""Hosts that are reached by ssh, taken, and meshes that are handed over."""
import ctypes
import itertools
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time

import pytest

import meshbus
from conftest import left_behind, wait_until

PROGRAM = meshbus.versions()["program"]
FOLDER = os.path.dirname(os.path.realpath(PROGRAM))


def why_no_ssh():
    path = "/usr/sbin:/usr/bin:/usr/local/sbin"
    for name in ("sshd", "ssh", "ssh-keygen"):
        if shutil.which(name, path=path) is None:
            return f"{name} is not installed (openssh-server, openssh-client)"
    try:
        pwd.getpwnam("sshd")
    except KeyError:
        return "there is no user sshd" if os.geteuid() == 0 else ""
    return ""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def ssh_server(tmp_path, monkeypatch):
    """An sshd of this test, and an `ssh` in PATH that knows where it is."""
    path = "/usr/sbin:/usr/bin:/usr/local/sbin"
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name],
                       check=True)
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    port = free_port()
    tag = os.environ["MESHBUS_PYTHON_TEST"]
    (tmp_path / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host_key\n"
        f"AuthorizedKeysFile {tmp_path}/user_key.pub\nPidFile none\nUsePAM no\nStrictModes no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
        f"PrintMotd no\nSetEnv PATH={FOLDER}:/usr/bin:/bin MESHBUS_PYTHON_TEST={tag}\n")
    (tmp_path / "known_hosts").write_text(
        f"[127.0.0.1]:{port} " + (tmp_path / "host_key.pub").read_text())
    (tmp_path / "ssh_config").write_text(
        f"Host *\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {tmp_path}/user_key\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {tmp_path}/known_hosts\n"
        "  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ssh"
    program.write_text(f"#!/bin/sh\nexec {shutil.which('ssh', path=path)} -F "
                       f"{tmp_path}/ssh_config \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    server = subprocess.Popen([shutil.which("sshd", path=path), "-D", "-e", "-f",
                               tmp_path / "sshd_config"], stderr=subprocess.PIPE, text=True)
    try:
        line = ""
        while "Server listening on" not in line:
            line = server.stderr.readline()
            assert line, "sshd does not start"
        yield
    finally:
        server.terminate()
        server.wait(20)
        server.stderr.close()


@pytest.mark.skipif(bool(why_no_ssh()), reason=why_no_ssh())
def test_hosts_by_ssh(ssh_server, monkeypatch):
    with meshbus.ssh("one", "two") as hosts:
        assert all(host.startswith("tcp:127.0.0.1:") for host in hosts.hosts)
        with hosts.workers({"gpu": 2}, python=sys.executable) as procs:
            assert list(procs.run(lambda: 1 + 1)) == [2] * 4
    wait_until(lambda: not any("host --remote" in one for one in left_behind().values()))
    # Another release in PATH there is not taken by mistake.
    from meshbus import _build_info
    monkeypatch.setattr(_build_info, "VERSION", "0.0.7")
    with pytest.raises(meshbus.VersionMismatch, match="and this package is of release 0.0.7"):
        meshbus.ssh("one")
    wait_until(lambda: not any("host --remote" in one for one in left_behind().values()))
    with meshbus.ssh("one", program=PROGRAM) as hosts:
        assert len(hosts) == 1
    with pytest.raises(meshbus.Error, match="no-such-program"):
        meshbus.ssh("one", program="/no-such-program")


def standing_host():
    """A host that no program owns: (process, address)."""
    process = subprocess.Popen([PROGRAM, "host"], stdout=subprocess.PIPE, text=True)
    return process, json.loads(process.stdout.readline())["host"]


@pytest.mark.parametrize("how", ["ref", "address"])
def test_a_taken_host_ends_with_its_taker(how):
    process, address = standing_host()
    try:
        with meshbus.attach(address) as same:
            ref = same.ref
        assert process.poll() is None
        with meshbus.take(ref if how == "ref" else address) as hosts:
            with hosts.spawn(["true"], 2) as mesh:
                assert mesh.wait(20).exit_code == 0
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_mesh_that_is_handed_over_outlives_its_launcher():
    process, address = standing_host()
    controller = subprocess.Popen([os.path.join(FOLDER, "meshbus-controller"), "--hosts", address],
                                  stdout=subprocess.DEVNULL)
    try:
        def controllers():
            listed = subprocess.run([PROGRAM, "controller", "list", "--hosts", address, "--json"],
                                    capture_output=True, text=True)
            return [one["controller"] for one in json.loads(listed.stdout or "[]")]
        wait_until(controllers)
        code = ("import sys, meshbus\n"
                "with meshbus.attach(sys.argv[1]) as hosts, "
                "hosts.spawn(['sleep', '60'], 1, name='kept') as mesh:\n"
                "    mesh.handover(sys.argv[2])\n"
                "    print(mesh.name)\n")
        done = subprocess.run([sys.executable, "-c", code, address, controllers()[0]],
                              capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stderr
        with meshbus.attach(address) as hosts:
            mesh = next(mesh for mesh in hosts.meshes() if mesh.name == done.stdout.strip())
            assert [rank.state for rank in mesh.ranks] == ["ready"]
            assert "controller" in mesh.owner
            hosts.drain(mesh.name)
        with pytest.raises(meshbus.ParseError), meshbus.attach(address) as hosts, \
                hosts.spawn(["sleep", "60"], 1) as other:
            other.handover("nobody")
    finally:
        controller.terminate()
        controller.wait(20)
        process.terminate()
        process.wait(20)
        process.stdout.close()


def test_errors_have_the_reports_of_the_ranks(hosts):
    with pytest.raises(meshbus.SpawnError) as caught:
        hosts.spawn(["sh", "-c", "echo no luck >&2; exit $((RANK + 3))"], 1, mesh=True)
    assert {report.exit_code for report in caught.value.reports} <= {3, 4}
    assert caught.value.reports[0].stderr_tail == "no luck\n"
    deaf = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    with hosts.spawn(["sh", "-c", deaf], 1, output="stream") as mesh:
        ranks = {event.rank for event in itertools.islice(
            (event for event in mesh.events() if event.kind == "output"), 2)}
        assert ranks == {0, 1}
        with pytest.raises(meshbus.StopError) as caught:
            mesh.stop(grace=60, timeout=0.5)
        assert [report.rank for report in caught.value.reports] == [0, 1]
        mesh.stop(grace=0)


@pytest.mark.limit(120)
def test_a_rank_that_holds_the_lock_for_long_is_well(hosts):
    """In C, so that the lock is never given up. MESHBUS_HOLD=60 makes it a minute."""
    seconds = int(os.environ.get("MESHBUS_HOLD", "6"))

    class Holder(meshbus.Actor):
        @meshbus.endpoint
        def hold(self):
            return ctypes.PyDLL(None).sleep(seconds)  # sleep-ok: what is waited for

    with hosts.workers(1) as procs, procs.spawn(Holder) as actors:
        future = actors.hold.options(timeout=100).call()
        begin = time.monotonic()
        while not future.done():
            assert [rank.state for rank in procs.status()] == ["ready"] * 2
            assert {rank.trouble for rank in procs.reports} <= {"none", "stuck"}
            time.sleep(0.2)  # sleep-ok: what is looked at meanwhile
        assert list(future.result()) == [0, 0]
        assert time.monotonic() - begin >= seconds - 1
