#!/usr/bin/env python3
"""A peer of a broker in nothing but Python, ZeroMQ and the schemas, as
docs/reference/protocol.md describes one:

    peer.py HOST                            what runs on that host, as one line of JSON per rank
    peer.py HOST call PROC PORT [TEXT]      calls a port of a mesh proc ("work_3-13Se1Maqzryj")
                                            and prints the answer

HOST is an address as `meshbus host` prints it: unix:/path (or tcp:HOST:PORT of a host that runs
with --insecure). Needs python3-zmq, python3-flatbuffers and flatc (Debian: apt install python3-zmq
python3-flatbuffers flatbuffers-compiler).
"""
import collections
import importlib
import itertools
import json
import pathlib
import secrets
import struct
import subprocess
import sys
import tempfile
import time

import flatbuffers
import zmq

FRAME = struct.Struct("<HBBHHQ")  # FrameHeader: magic, version, lane, count, flags, credit
ENVELOPE = struct.Struct("<6Q2I4BI")  # Envelope, in the order of frame.fbs
CALL = struct.Struct("<QIHH")  # CallHeader: id, deadline_ms, code, reserved
MAGIC, LAYOUT = 0x424D, 1
CONTROL, DATA = 0, 1  # Lane
KIND_CONTROL, KIND_CALL, KIND_REPLY, KIND_ERROR = 0, 2, 3, 4
DETACHED, INLINE_LIMIT, BODY_LIMIT = 1, 32 * 1024, 1024 * 1024
LIMIT = 10.0  # seconds to wait for an answer
ALPHABET = "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"


def load_schema(folder, name):
    """Lets flatc write the Python classes of a schema (control, monitor), and imports them."""
    beside = pathlib.Path(__file__).resolve().parent.parent / "schemas" / f"{name}.fbs"
    installed = pathlib.Path("/usr/share/meshbus/schemas") / f"{name}.fbs"
    schema = beside if beside.exists() else installed
    if not schema.exists():
        sys.exit(f"peer.py: there is no {beside} nor {installed}: install libmeshbus-dev")
    flatc = [
        "flatc",
        "--python",
        "--gen-all",
        "--gen-onefile",
        "--gen-object-api",
        "-o",
        folder,
        str(schema),
    ]
    subprocess.run(flatc, check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, folder)
    return importlib.import_module(f"{name}_generated")


def key_of(text):
    """The 64-bit key of an address: common/include/meshbus/key.h."""
    mask = 2**64 - 1
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & mask
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & mask
    value ^= value >> 33
    return value or 1


def make_uuid():
    number, text = secrets.randbits(64), ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABET[digit] + text
    return text.rjust(12, ALPHABET[0])


class Failed(Exception):
    """What the other side refused or returned, in its words."""


class Peer:
    """One session with the broker of one host, as a launcher."""

    def __init__(self, host, wire):
        self.host, self.wire = host, wire
        self.name = "client-" + make_uuid()
        self.incarnation = secrets.randbits(64) or 1
        self.ids, self.sequence = itertools.count(1), itertools.count(1)
        self.messages = collections.deque()  # of frames that came, not looked at yet
        self.taken = 0  # bytes of data that we took: our FrameHeader.credit
        scheme, _, rest = host.partition(":")
        if scheme not in ("unix", "tcp"):
            raise Failed(f"{host} is no address of a host: unix:/path or tcp:HOST:PORT")
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 1000)
        self.socket.setsockopt(
            zmq.RECONNECT_IVL, 86_400_000
        )  # ms: a new connection would need a new Hello (not -1: docs/reference/protocol.md)
        self.socket.connect({"unix": "ipc://", "tcp": "tcp://"}[scheme] + rest)
        hello = wire.HelloT()
        hello.version = hello.oldest = 1
        hello.peer, hello.kind, hello.incarnation = (
            f"{host},{self.name}",
            wire.PeerKind.launcher,
            self.incarnation,
        )
        self.welcome = self.request("Hello", hello, 0, ends_with=wire.Body.Welcome)

    def close(self):
        self.send_control("Bye", self.wire.ByeT(), 0, 0)
        self.socket.close()

    def request(self, name, body, to, ends_with=None):
        """A control message to that proc (its key; 0 = the broker), and its answer. Hello has no
        id: its answer is known by its type."""
        number = 0 if ends_with else next(self.ids)
        self.send_control(name, body, to, number)
        for envelope, data in self.receive():
            if envelope[8] != KIND_CONTROL:
                continue
            control = self.wire.ControlT.InitFromObj(self.wire.Control.GetRootAs(data, 0))
            if control.bodyType == self.wire.Body.Undeliverable:
                raise Failed(control.body.detail.decode())
            if control.bodyType == self.wire.Body.Refusal and control.id == number:
                raise Failed(control.body.detail.decode())
            if control.bodyType == ends_with or control.isAnswer and control.id == number:
                return control.body
        raise Failed(f"no answer from {self.host} to {name} within {LIMIT:g} s")

    def call(self, proc, port, text):
        """A call to a port of a proc of this host: its answer, as bytes."""
        number = next(self.ids)
        self.send(
            DATA,
            KIND_CALL,
            key_of(f"{self.host},{proc}"),
            port,
            CALL.pack(number, int(LIMIT * 1000), 0, 0) + text,
        )
        for envelope, data in self.receive():
            if envelope[8] == KIND_CONTROL:
                control = self.wire.ControlT.InitFromObj(self.wire.Control.GetRootAs(data, 0))
                if control.bodyType == self.wire.Body.Undeliverable:
                    raise Failed(control.body.detail.decode())
            elif envelope[8] in (KIND_REPLY, KIND_ERROR) and CALL.unpack_from(data)[0] == number:
                if envelope[8] == KIND_ERROR:
                    raise Failed(data[CALL.size :].decode(errors="replace"))
                return data[CALL.size :]
        raise Failed(f"no answer from {proc} within {LIMIT:g} s")

    def send_control(self, name, body, to, number):
        control = self.wire.ControlT()
        control.id, control.deadlineMs = number, int(LIMIT * 1000)
        control.bodyType, control.body = getattr(self.wire.Body, name), body
        builder = flatbuffers.Builder(256)
        builder.Finish(control.Pack(builder), b"MBC1")
        self.send(CONTROL, KIND_CONTROL, to, 0, bytes(builder.Output()))

    def send(self, lane, kind, to, port, body):
        """A frame with one message."""
        if len(body) > BODY_LIMIT:
            raise Failed(f"{len(body)} bytes are too many: a message has {BODY_LIMIT} at most")
        detached = len(body) > INLINE_LIMIT
        envelope = ENVELOPE.pack(
            to,
            key_of(self.host) if to else 0,
            0,
            0,
            0,
            next(self.sequence),
            len(body),
            port,
            kind,
            lane,
            0,
            0,
            DETACHED if detached else 0,
        )
        frame = FRAME.pack(MAGIC, LAYOUT, lane, 1, 0, self.taken) + envelope
        self.socket.send_multipart(
            [frame, body] if detached else [frame + body + bytes(-len(body) % 8)]
        )

    def receive(self):
        """The messages that come until LIMIT, as (envelope, body)."""
        end = time.monotonic() + LIMIT
        while True:
            while self.messages:
                yield self.messages.popleft()
            left = end - time.monotonic()
            if left <= 0 or not self.socket.poll(left * 1000):
                return
            self.take_frame(*self.socket.recv_multipart())

    def take_frame(self, packed, *detached):
        """A frame has many messages; a caller of receive() may want only the first of them."""
        magic, layout, lane, count, flags, _ = FRAME.unpack_from(packed)
        if (magic, layout, flags) != (MAGIC, LAYOUT, 0):
            raise Failed(f"{self.host} speaks another layout of frames: {layout}")
        at, bodies = FRAME.size, iter(detached)
        for _ in range(count):
            envelope = ENVELOPE.unpack_from(packed, at)
            at += ENVELOPE.size
            length = envelope[6]
            if envelope[-1] & DETACHED:
                body = next(bodies)
            else:
                body, at = packed[at : at + length], at + length + -length % 8
            if lane == DATA:
                self.taken += ENVELOPE.size + length
            self.messages.append((envelope, body))


def show(peer, wire):
    """ListMeshes of the host's agent, page by page."""
    states = {
        number: name for name, number in vars(wire.ProcState).items() if not name.startswith("_")
    }
    request, more = wire.ListMeshesT(), True
    while more:
        answer = peer.request("ListMeshes", request, key_of(peer.host + ",service"))
        for mesh in answer.meshes or []:
            for rank in mesh.ranks or []:
                print(
                    json.dumps(
                        {
                            "mesh": mesh.mesh.decode(),
                            "rank": rank.rank,
                            "state": states[rank.state],
                            "pid": rank.pid,
                        }
                    ),
                    flush=True,
                )
            request.after = mesh.mesh.decode()
        more = answer.more


def main():
    if not (
        len(sys.argv) == 2
        or len(sys.argv) in (5, 6)
        and sys.argv[2] == "call"
        and sys.argv[4].isdecimal()
    ):
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        wire = load_schema(folder, "control")
        try:
            peer = Peer(sys.argv[1], wire)
            if len(sys.argv) == 2:
                show(peer, wire)
            else:
                sys.stdout.buffer.write(
                    peer.call(sys.argv[3], int(sys.argv[4]), "".join(sys.argv[5:]).encode()) + b"\n"
                )
            peer.close()
        except Failed as error:
            print(f"peer.py: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
