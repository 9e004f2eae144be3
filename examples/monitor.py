#!/usr/bin/env python3
"""Prints what happens in a broker, as JSON lines: monitor.py SOCKET [TOPIC...]

SOCKET is what `meshbus host` prints as "monitor" (unix:/path), TOPIC the beginning of a topic of
schemas/monitor.fbs ("peer", "counters"; none = all). Needs python3-zmq, python3-flatbuffers and
flatc (Debian: apt install python3-zmq python3-flatbuffers flatbuffers-compiler). Any ZeroMQ SUB
socket in any language can do the same: two parts, the topic and a MonitorEvent. """
import json
import sys
import tempfile

import zmq

from peer import load_schema  # beside this file


def plain(value):
    """Objects as flatc makes them, as what json takes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [plain(item) for item in value]
    if hasattr(value, "__dict__"):
        return {name: plain(item) for name, item in vars(value).items()}
    return value


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    with (
        zmq.Context() as context,
        context.socket(zmq.SUB) as socket,
        tempfile.TemporaryDirectory() as folder,
    ):
        socket.connect(sys.argv[1].replace("unix:", "ipc://", 1))
        for topic in sys.argv[2:] or [""]:
            socket.subscribe(topic)
        wire = load_schema(folder, "monitor")
        kinds = {
            number: name
            for name, number in vars(wire.MonitorBody).items()
            if not name.startswith("_")
        }
        print("listening", file=sys.stderr, flush=True)
        while True:
            topic, data = socket.recv_multipart()
            event = plain(wire.MonitorEventT.InitFromObj(wire.MonitorEvent.GetRootAs(data, 0)))
            print(
                json.dumps(
                    {"topic": topic.decode(), "type": kinds[event.pop("bodyType")], **event}
                ),
                flush=True,
            )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
