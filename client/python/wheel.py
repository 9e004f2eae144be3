#!/usr/bin/python3 -B
"""wheel.py BUILD FOLDER: makes a wheel of the package out of a build folder, and prints its path.

The wheel holds the package, the programs (meshbus/_bin), and the shared libraries of both
(meshbus.libs), each under a name of its own, so that it runs from wherever it is unpacked: nothing
in it names a folder of this machine. It needs the C library and libstdc++ of the build machine, or
newer ones, and the same minor version of Python. Needs patchelf and strip.
"""
from __future__ import annotations

import argparse
import base64
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

SOURCES = pathlib.Path(__file__).resolve().parents[2]
# What every system has in its own version. PEP 600 names the same but for those of ncurses, which
# go with the descriptions of terminals of that system.
SYSTEM = re.compile(r"^(linux-vdso|ld-linux.*|libc|libm|libpthread|libdl|librt|libutil|libresolv|"
                    r"libstdc\+\+|libgcc_s|libncursesw|libtinfo)\.so")
PROGRAMS = ("meshbus", "meshbus-agent", "meshbus-broker", "meshbus-controller",
            "meshbus-exporter", "meshbus-hands", "meshbus-keeper", "meshbus-mpi",
            "meshbus-mpi-exec", "meshbus-tap", "meshbus-torch-exec")
# Those that were built only where their libraries are.
OPTIONAL = ("meshbus-stacks", "meshbus-topology")
METADATA = """Metadata-Version: 2.1
Name: meshbus
Version: {version}
Summary: Launches, addresses and supervises meshes of processes over many hosts
License: Apache-2.0
License-File: LICENSE
Requires-Python: >={major}.{minor},<{major}.{next_minor}
Requires-Dist: cloudpickle
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: {major}.{minor}
Classifier: Typing :: Typed
"""
ENTRY_POINTS = """[console_scripts]
meshbus = meshbus._program:main

[pytest11]
meshbus.pytest_plugin = meshbus.pytest_plugin
"""


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def libraries_of(file: pathlib.Path) -> dict[str, pathlib.Path]:
    """{name: path} of the libraries that a program or module loads, directly or not."""
    found = {}
    for line in run("ldd", str(file)).splitlines():
        match = re.match(r"\s*(\S+) => (\S+) \(", line)
        if match and not SYSTEM.match(match[1]):
            found[match[1]] = pathlib.Path(match[2]).resolve()
        elif "not found" in line:
            sys.exit(f"wheel.py: {file} lacks a library: {line.strip()}")
    return found


def needed(file: pathlib.Path) -> list[str]:
    return run("patchelf", "--print-needed", str(file)).split()


def relocate(file: pathlib.Path, names: dict[str, str], folder: str) -> None:
    """The file loads the libraries by their new names, from a folder beside it."""
    words = [word for name in needed(file) if name in names
             for word in ("--replace-needed", name, names[name])]
    # One after the other: patchelf 0.14 spoils the file when it does both at once.
    if words:
        run("patchelf", *words, str(file))
    run("patchelf", "--set-rpath", folder, str(file))


def pack(root: pathlib.Path, build: pathlib.Path) -> None:
    """Fills the folder with what the wheel holds."""
    package = root / "meshbus"
    shutil.copytree(build / "python" / "meshbus", package, symlinks=False,
                    ignore=shutil.ignore_patterns("__pycache__"))
    (package / "_bin").mkdir()
    for name in PROGRAMS:
        shutil.copy(build / "bin" / name, package / "_bin" / name)
    for name in OPTIONAL:
        if (build / "bin" / name).exists():
            shutil.copy(build / "bin" / name, package / "_bin" / name)
    modules = list(package.glob("*.so"))
    programs = list((package / "_bin").iterdir())
    libraries: dict[str, pathlib.Path] = {}
    for file in (*modules, *programs):
        libraries |= libraries_of(file)
    folder = root / "meshbus.libs"
    folder.mkdir()
    names, copies = {}, []
    for name, path in sorted(libraries.items()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        stem, _, rest = name.partition(".so")
        names[name] = f"{stem}-{digest}.so{rest}"
        copies.append(folder / names[name])
        shutil.copy(path, copies[-1])
        copies[-1].chmod(0o755)
        run("patchelf", "--set-soname", names[name], str(copies[-1]))
    for file in (*modules, *programs, *copies):
        run("strip", "--strip-unneeded", str(file))
    for file in modules:
        relocate(file, names, "$ORIGIN/../meshbus.libs")
    for file in programs:
        relocate(file, names, "$ORIGIN/../../meshbus.libs")
    for file in copies:
        relocate(file, names, "$ORIGIN")


def record_of(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(data)}\n"


def write(root: pathlib.Path, out: pathlib.Path, version: str) -> pathlib.Path:
    """The wheel of what is in the folder."""
    major, minor = sys.version_info[:2]
    python = f"cp{major}{minor}"
    glibc = "_".join(platform.libc_ver()[1].split(".")[:2])
    tag = f"{python}-{python}-manylinux_{glibc}_{platform.machine()}"
    info = root / f"meshbus-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA.format(version=version, major=major, minor=minor,
                                                   next_minor=minor + 1))
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: meshbus\nRoot-Is-Purelib: false\n"
                                f"Tag: {tag}\n")
    shutil.copy(SOURCES / "LICENSE", info / "LICENSE")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"meshbus-{version}-{tag}.whl"
    records = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*")):
            if not file.is_file():
                continue
            name = file.relative_to(root).as_posix()
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same bytes each time
            is_program = file.parent.name == "_bin" or file.suffix == ".so" or ".so." in name
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            data = file.read_bytes()
            archive.writestr(entry, data)
            records += record_of(name, data)
        name = f"{info.name}/RECORD"
        archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), records + f"{name},,\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build folder, of preset release")
    parser.add_argument("folder", type=pathlib.Path, help="where the wheel goes")
    given = parser.parse_args()
    build_info = (given.build / "python" / "meshbus" / "_build_info.py").read_text()
    found = re.search(r'^VERSION = "(.*)"', build_info, re.M)
    if found is None:
        sys.exit(f"wheel.py: {given.build} has no Python package: build it with MESHBUS_PYTHON")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if not list((given.build / "python" / "meshbus").glob(f"_client{suffix}")):
        sys.exit(f"wheel.py: {given.build} was not built for this Python ({suffix})")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        pack(root, given.build)
        print(write(root, given.folder, found[1]))


if __name__ == "__main__":
    main()
