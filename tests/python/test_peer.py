"""examples/peer.py: what comes in one frame is not lost."""
import importlib.util
import pathlib
from collections import deque

import pytest

PEER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "peer.py"


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
