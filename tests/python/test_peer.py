"""examples/peer.py: what comes in one frame is not lost."""
import importlib.util
import json
import pathlib
import shutil
import signal
import subprocess
import sys
from collections import deque

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER = ROOT / "examples" / "peer.py"


@pytest.fixture
def peer():
    pytest.importorskip("zmq")
    pytest.importorskip("flatbuffers")
    spec = importlib.util.spec_from_file_location("peer", PEER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Socket:
    """Frames that have come."""

    def __init__(self, *frames):
        self.frames = deque(frames)

    def poll(self, timeout):
        return len(self.frames)

    def recv_multipart(self):
        return self.frames.popleft()


def frame(peer, *bodies, detached=()):
    """A frame of data: bodies inside, then detached ones."""
    def envelope(body, flags):
        return peer.ENVELOPE.pack(0, 0, 0, 0, 0, 1, len(body), 1, peer.KIND_REPLY, peer.DATA, 0, 0,
                                  flags)
    count = len(bodies) + len(detached)
    packed = peer.FRAME.pack(peer.MAGIC, peer.LAYOUT, peer.DATA, count, 0, 0)
    for body in bodies:
        packed += envelope(body, 0) + body + bytes(-len(body) % 8)
    for body in detached:
        packed += envelope(body, peer.DETACHED)
    return [packed, *detached]


def test_messages_behind_the_one_that_was_wanted_are_kept(peer):
    one = object.__new__(peer.Peer)
    one.host, one.taken, one.messages = "unix:/x", 0, deque()
    one.socket = Socket(
        frame(peer, b"first", b"second", detached=(b"third",)), frame(peer, b"fourth")
    )
    got = []
    for _ in range(4):
        for _envelope, body in one.receive():
            got.append(body)
            break
    assert got == [b"first", b"second", b"third", b"fourth"]
    assert one.taken == 4 * peer.ENVELOPE.size + sum(map(len, got))


@pytest.fixture
def installed(tmp_path):
    """The programs as `cmake --install` lays them out, and links to them from elsewhere."""
    share = tmp_path / "share" / "meshbus"
    shutil.copytree(ROOT / "schemas", share / "schemas", ignore=shutil.ignore_patterns("released"))
    (share / "examples").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("peer.py", "monitor.py"):
        shutil.copy(ROOT / "examples" / name, share / "examples" / name)
        (tmp_path / "bin" / name).symlink_to(share / "examples" / name)
    return tmp_path / "bin"


def test_the_peer_is_found_from_anywhere(peer, installed, hosts):
    with hosts.spawn(["sleep", "60"], {"gpu": 2}) as mesh:
        done = subprocess.run([sys.executable, installed / "peer.py", hosts.hosts[0]], cwd="/",
                              capture_output=True, text=True, timeout=50)
        assert (done.returncode, done.stderr) == (0, "")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert [row["rank"] for row in rows if row["mesh"] == mesh.name] == [0, 1]


def test_the_monitor_is_found_from_anywhere(peer, installed, hosts):
    socket = hosts.hosts[0].rpartition("/")[0] + "/monitor"
    with subprocess.Popen([sys.executable, installed / "monitor.py", socket, "counters"], cwd="/",
                          stdout=subprocess.PIPE, text=True) as monitor:
        event = json.loads(monitor.stdout.readline())
        monitor.send_signal(signal.SIGINT)
    assert event["topic"].startswith("counters") and event["type"] == "BrokerCounters"
