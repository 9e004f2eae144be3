"""Every wait can be interrupted, given up, and refused to a child of fork()."""
import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import meshbus
from conftest import left_behind, wait_until


def interrupt(seconds):
    """Sends Ctrl-C to this process, later."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


class Slow(meshbus.Actor):
    @meshbus.endpoint
    def doze(self, seconds):
        time.sleep(seconds)  # sleep-ok: what is waited for

    @meshbus.endpoint
    def take(self, body):
        return len(body)


def sh(script):
    return ["sh", "-c", script]


def test_ctrl_c_interrupts_every_wait(hosts):
    with (hosts.spawn(["sleep", "60"], 1, stdin=[0]) as mesh, hosts.workers(1) as procs,
          procs.spawn(Slow) as actors, meshbus.Pool(hosts, 1) as pool):
        name = mesh.name
        waits = {
            "endpoint": lambda: actors.doze(1),
            "result": lambda: actors.doze.call(1).result(),
            "stream": lambda: list(actors.doze.stream(1)),
            "reduce": lambda: actors.doze.reduce("count", 1).result(),
            "as_completed": lambda: list(meshbus.as_completed([actors.doze.call(1)])),
            "wait": lambda: meshbus.wait([actors.doze.call(1)]),
            "mesh.wait": mesh.wait,
            "events": lambda: list(mesh.events()),
            "logs": lambda: list(hosts.logs(name, follow=True)),
            "pool": lambda: list(pool.map(time.sleep, [3])),
            "run": lambda: procs.run(time.sleep, 3),
            "pipe": lambda: mesh.write(0, b"x" * (4 << 20)),
            "spawn of actors": lambda: procs.spawn(Late),
        }
        for what, wait in waits.items():
            with pytest.raises(KeyboardInterrupt):
                timer = interrupt(0.15)
                begin = time.monotonic()
                try:
                    wait()
                finally:
                    timer.cancel()
                    timer.join()
            assert time.monotonic() - begin < 2.5, what


class Late(meshbus.Actor):
    def __init__(self):
        time.sleep(3)  # sleep-ok: what is waited for


def test_ctrl_c_interrupts_a_large_cast(hosts):
    body = bytes(32 << 20)
    with hosts.workers(1) as procs, procs.spawn(Slow) as actors:
        actors.take(b"")
        pids = [report.pid for report in procs.reports]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(KeyboardInterrupt):
                timer = interrupt(0.3)
                begin = time.monotonic()
                while True:  # a first one may fit into what the receivers have room for
                    actors.take.cast(body)
            timer.join()
            assert time.monotonic() - begin < 5
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        assert list(actors.take.options(timeout=50)(b"xy")) == [2, 2]


CHILD = """
import os, sys
import meshbus
with meshbus.start() as hosts, hosts.spawn(["sleep", "60"], 1) as mesh, \\
        meshbus.Pool(hosts, 1) as pool:
    mesh_future, events = mesh.wait_async(), mesh.events()
    task = pool.submit(os.getpid)
    acts = {
        "wait": mesh.wait, "future": mesh_future.result, "events": lambda: list(mesh.events()),
        "old events": lambda: list(events), "as_completed":
        lambda: list(meshbus.as_completed([mesh_future])), "submit":
        lambda: pool.submit(os.getpid), "spawn": lambda: hosts.spawn(["true"], 1),
        "status": mesh.status, "kill": mesh.kill, "stop": mesh.stop, "run": hosts.workers,
        "wait_ready": mesh.wait_ready,
    }
    pid = os.fork()
    if pid == 0:
        for name, act in acts.items():
            try:
                act()
                print(name, "worked")
            except meshbus.Refused as error:
                pass
            except BaseException as error:
                print(name, repr(error))
        sys.stdout.flush()
        sys.exit(7)  # through all the ends of `with`
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    task.result(20)
    print("parent is fine:", mesh.reports[0].state)
"""


def test_a_child_of_fork_waits_for_nothing():
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.returncode) == ("parent is fine: ready\n", 0), done.stderr


def test_two_tasks_share_events_and_a_stream(hosts):
    async def main():
        async with hosts.spawn(sh("exit 0"), 1) as mesh:
            events = mesh.events()

            async def read():
                return [event async for event in events]
            first, second = await asyncio.gather(read(), read())
            assert sorted(map(str, first + second)) == sorted(map(str, mesh.events()))
        async with await hosts.workers_async(1) as procs:
            actors = await procs.spawn_async(Slow)
            stream = actors.take.stream(b"abc")

            async def some():
                return [value async for _, value in stream]
            first, second = await asyncio.gather(some(), some())
            assert first + second == [3, 3]
            await asyncio.to_thread(actors.stop)
    asyncio.run(main())


def test_everything_by_await():
    async def main():
        async with await meshbus.start_async(2) as hosts:
            async with await meshbus.attach_async(*hosts.hosts) as same:
                assert same.hosts == hosts.hosts
            async with await hosts.workers_async({"gpu": 1}, setup=os.getpid) as procs:
                assert [r.state for r in await procs.status_async()] == ["ready"] * 2
                actors = await procs.options(name="slow").spawn_async(Slow)
                assert list(await actors.take.call(b"ab")) == [2, 2]
                await procs.stop_async()
            summary = await hosts.shutdown_async()
            assert summary["hosts"] == 2
    asyncio.run(main())


def test_a_launcher_that_holds_the_lock_keeps_its_ranks(hosts):
    """No C++ thread of a launcher needs the GIL: leases are renewed all the same."""
    code = """
import ctypes, meshbus
meshbus.context({"lease": "2s"})
with meshbus.attach(*%r) as hosts, hosts.spawn(["sleep", "60"], 1) as mesh:
    ctypes.PyDLL(None).sleep(6)  # sleep-ok: three leases long
    print([rank.state for rank in mesh.status()])
""" % (hosts.hosts,)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.stdout == "['ready', 'ready']\n", done.stderr


def test_a_host_that_does_not_answer_is_named():
    with meshbus.start(2) as hosts, meshbus.attach(*hosts.hosts) as both:
        frozen = [int(file.parent.name) for file in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                  if "meshbus-agent" in (text := _read(file)) and hosts.hosts[1] in text]
        assert len(frozen) == 1
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(meshbus.Unreachable, match="hosts that do not answer: unix:"):
                both.meshes(timeout=1)
            assert both.meshes(timeout=1, partial=True) == []
            with pytest.raises(meshbus.Unreachable, match="partial=True"):
                both.events(timeout=1)
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        wait_until(lambda: both.meshes(partial=True) == [])


def _read(file):
    try:
        return file.read_text()
    except OSError:  # it has ended
        return ""


def test_a_spawn_that_is_given_up_keeps_nothing():
    """By cancel(), by Ctrl-C, and by the end of its hosts."""
    with meshbus.start(1) as hosts:
        command = ["sh", "-c", "exec sleep 987"]
        made = hosts.spawn_async(command, 1, mesh=True, ready=50)
        wait_until(lambda: _count("sleep 987") == 1)
        assert made.cancel()
        wait_until(lambda: _count("sleep 987") == 0, 10)
        with pytest.raises(KeyboardInterrupt):
            timer = interrupt(0.3)
            hosts.spawn(command, 1, mesh=True, ready=50)
        timer.join()
        wait_until(lambda: _count("sleep 987") == 0, 10)
        hosts.spawn_async(command, 1, mesh=True, ready=50)  # nobody has the Future: given up
        wait_until(lambda: _count("sleep 987") == 0, 10)
        kept = hosts.spawn_async(command, 1, mesh=True, ready=50)
        wait_until(lambda: _count("sleep 987") == 1)
        hosts.close()
        assert kept.cancelled()
        wait_until(lambda: _count("sleep 987") == 0, 10)


def _count(words):
    return sum(words in command for command in left_behind().values())


def test_a_spawn_that_is_ready_when_it_is_given_up_is_stopped(hosts):
    made = hosts.spawn_async(["sleep", "986"], 1)
    wait_until(made.done)
    assert not made.cancel()  # too late
    with made.result() as mesh:
        assert len(mesh) == 2
    made = hosts.spawn_async(["sleep", "986"], 1)
    wait_until(made.done)
    del made
    wait_until(lambda: _count("sleep 986") == 0, 10)
    workers = hosts.workers_async(1, name="unwanted")
    assert workers.cancel()
    wait_until(lambda: not any("unwanted" in mesh.name and any(
        not rank.is_terminal for rank in mesh.ranks) for mesh in hosts.meshes()))
