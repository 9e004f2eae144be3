#!/usr/bin/env python3
"""Prints what happens in a broker, as JSON lines: monitor.py SOCKET [TOPIC...]

SOCKET is what `meshbus host` prints as "monitor" (unix:/path), TOPIC the beginning of a topic of
schemas/monitor.fbs ("peer", "counters"; none = all). Needs python3-zmq, python3-flatbuffers and
flatc (Debian: apt install python3-zmq python3-flatbuffers flatbuffers-compiler). Any ZeroMQ SUB
socket in any language can do the same: two parts, the topic and a MonitorEvent. """
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile

import zmq


def load_schema(folder):
    """Lets flatc write the Python classes of the schema, and imports them."""
    schema = pathlib.Path(__file__).resolve().parent.parent / "schemas" / "monitor.fbs"
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
    return importlib.import_module("monitor_generated")


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
    socket = zmq.Context().socket(zmq.SUB)
    socket.connect(sys.argv[1].replace("unix:", "ipc://", 1))
    for topic in sys.argv[2:] or [""]:
        socket.subscribe(topic)
    with tempfile.TemporaryDirectory() as folder:
        wire = load_schema(folder)
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
