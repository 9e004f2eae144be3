"""What a process is set to before it executes its command."""
import os
import pwd

import pytest

import meshbus
from meshbus import Process


def test_what_a_process_is_set_to(hosts):
    said = "umask; ulimit -Sn; ulimit -Hn; nice; echo $OF_PROCESS"
    wrote = ["", ""]

    def keep(rank, text):
        wrote[rank] += text
    with hosts.spawn(["sh", "-c", said], 1, env={"OF_PROCESS": "set"}, on_output=keep,
                     process=Process(nice=3, umask=0o027, rlimits={"nofile": (64, 128)},
                                     no_new_privs=True)) as mesh:
        assert mesh.wait(20).exit_code == 0
    assert wrote == ["0027\n64\n128\n3\nset\n"] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs hosts that run as root")
def test_a_process_of_another_user(hosts):
    nobody = pwd.getpwnam("nobody")
    wrote = ["", ""]

    def keep(rank, text):
        wrote[rank] += text
    with hosts.spawn(["/bin/sh", "-c", "/usr/bin/id -u; /usr/bin/id -g; /usr/bin/env"], 1,
                     env={"ONLY": "this"}, cwd="/", on_output=keep,
                     process=Process(user="nobody", clean_env=True)) as mesh:
        assert mesh.wait(20).exit_code == 0
    lines = wrote[0].splitlines()
    assert lines[:2] == [str(nobody.pw_uid), str(nobody.pw_gid)]
    assert "ONLY=this" in lines and not any(line.startswith("HOME=") for line in lines)


@pytest.mark.parametrize("process, said", [
    (lambda: {"nice": 1}, "expected meshbus.Process"),
    (lambda: Process(user="nobody-here"), "nobody-here"),
    (lambda: Process(user=4_000_000_000), "give its group, too"),
    (lambda: Process(user=2**32 - 1, group=1), "Process.user is 4294967295"),
    (lambda: Process(user=True), "Process.user is True"),
    (lambda: Process(group=2**32 - 1), "Process.group is 4294967295"),
    (lambda: Process(rlimits={"files": 1}), "'files'; there are: .*nofile"),
    (lambda: Process(rlimits={"core": "1"}), "expected a number, or"),
    (lambda: Process(nice=40), "expected -20 to 19"),
    (lambda: Process(umask="022"), "expected 0 to 0o777"),
])
def test_bad_values_are_named(hosts, process, said):
    with pytest.raises(meshbus.ConfigurationError, match=said):
        hosts.spawn(["true"], 1, process=process())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a machine where this user may name others")
def test_a_user_whom_this_machine_does_not_know_has_no_other_groups(hosts):
    wrote = ["", ""]

    def keep(rank, text):
        wrote[rank] += text
    with hosts.spawn(["/bin/sh", "-c", "/usr/bin/id -u; /usr/bin/id -G"], 1, cwd="/",
                     on_output=keep, process=Process(user=4_000_000, group=4_000_001)) as mesh:
        assert mesh.wait(20).exit_code == 0
    assert wrote == ["4000000\n4000001\n"] * 2
