#!/usr/bin/python3 -B
"""dist_info.py VERSION INSTALLER FOLDER: writes the metadata of the installed Python package into
FOLDER/meshbus-VERSION.dist-info, out of what client/python/wheel.py puts into a wheel.

As PEP 627 wants it for what is not pip's: the file INSTALLER names another one, and there is no
RECORD, so that pip neither removes nor replaces it. The command `meshbus` is the program itself, so
it is no entry point here; the plugin of pytest is one.
"""
from __future__ import annotations

import configparser
import importlib.util
import pathlib
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[2]


def main() -> None:
    version, installer, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    spec = importlib.util.spec_from_file_location("wheel", SOURCES / "client/python/wheel.py")
    assert spec is not None and spec.loader is not None
    wheel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(wheel)
    major, minor = sys.version_info[:2]
    metadata = wheel.METADATA.format(version=version, major=major, minor=minor,
                                     next_minor=minor + 1)
    # The licence is where a distribution has it.
    lines = [line for line in metadata.splitlines() if not line.startswith("License-File:")]
    points = configparser.ConfigParser(delimiters="=")
    points.read_string(wheel.ENTRY_POINTS)
    points.remove_section("console_scripts")
    info = folder / f"meshbus-{version}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    (info / "INSTALLER").write_text(f"{installer}\n")
    with (info / "entry_points.txt").open("w") as file:
        points.write(file)


if __name__ == "__main__":
    main()
