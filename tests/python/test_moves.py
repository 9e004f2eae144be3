"""The ranks of a lost host move to a spare, and the others run on (Restart.spares)."""
import os
import signal
import threading

import pytest

import meshbus
from meshbus import Restart


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return int(stat.read().rpartition(")")[2].split()[1])


def kill_host_of(pid):
    """Its warden: the parent of the keeper, whose child the rank is."""
    os.kill(parent(parent(pid)), signal.SIGKILL)


@pytest.fixture(name="places")
def own_hosts():
    """Three hosts of this test alone: one of them is killed."""
    with meshbus.start(3) as all_hosts:
        yield all_hosts.hosts


def test_ranks_of_a_killed_host_start_on_the_spare(places):
    told = threading.Event()
    moves = []

    def on_move(move):
        moves.append(move)
        told.set()

    with meshbus.attach(*places[:2]) as two:
        mesh = two.spawn(["sleep", "600"], 2, restart=Restart(spares=(places[2],)),
                         on_move=on_move)
        with mesh:
            before = mesh.reports
            assert [rank.host for rank in before] == [places[0]] * 2 + [places[1]] * 2
            kill_host_of(before[2].pid)
            assert told.wait(30)
            assert moves == [meshbus.MoveReport(ranks=[2, 3], lost_host=places[1],
                                                new_host=places[2])]
            events = mesh.events()
            restart = next(event.restart for event in events if event.kind == "restart")
            assert restart.is_move and restart.ranks == [2, 3]
            assert restart.cause.cause == "host_lost" and places[1] in restart.cause.reason
            assert next(event.move for event in events if event.kind == "move") == moves[0]
            came = set()
            for event in events:
                if event.kind == "state" and event.report.state == "ready":
                    came.add(event.rank)
                if came >= {2, 3}:
                    break
            after = mesh.reports
            assert [rank.host for rank in after] == [places[0]] * 2 + [places[2]] * 2
            assert [rank.pid for rank in after[:2]] == [rank.pid for rank in before[:2]]
            assert [rank.state for rank in after] == ["ready"] * 4
            mesh.stop()


def test_actors_of_a_killed_host_answer_on_the_spare(places):
    with meshbus.attach(*places[:2]) as two:
        with two.workers(1, restart=Restart(spares=(places[2],)), env={"WHERE": "here"}) as mesh:
            pids = mesh.run(os.getpid)
            kill_host_of(pids[1])
            moved = next(event for event in mesh.events() if event.kind == "move")
            assert moved.move.ranks == [1]
            for event in mesh.events():
                if event.kind == "state" and event.rank == 1 and event.report.state == "ready" \
                        and event.report.host == places[2]:
                    break
            again = mesh.run(os.getpid)
            assert again[0] == pids[0] and again[1] != pids[1]


@pytest.mark.parametrize("spares, words", [
    (("nonsense",), "nonsense"), (("tcp:h1",), "tcp:h1")])
def test_spares_are_addresses(places, spares, words):
    with meshbus.attach(places[0]) as one, pytest.raises(meshbus.Error, match=words):
        one.spawn(["true"], 1, restart=Restart(spares=spares))
