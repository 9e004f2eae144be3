"""The wheel: in a clean environment, wherever it is unpacked, with programs of its own."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """
import meshbus, os
class Counter(meshbus.Actor):
    @meshbus.endpoint
    def folder(self):
        import meshbus._proc
        return os.path.dirname(meshbus._proc.__file__)
if __name__ == "__main__":
    with meshbus.start(2) as hosts, hosts.workers(1, zygote=[]) as procs:
        print(*procs.spawn(Counter).folder(), sep="\\n")
    print(meshbus.versions()["program"])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if shutil.which("patchelf") is None:
        pytest.fail("the wheel needs patchelf: apt-get install patchelf")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([sys.executable, "-B", ROOT / "client" / "python" / "wheel.py",
                           ROOT / "build" / "release", folder], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return pathlib.Path(done.stdout.strip())


def clean(folder, *words):
    """Runs a program with nothing of this build in its environment, and `meshbus` of another
    release first in PATH."""
    (folder / "other").mkdir(exist_ok=True)
    (folder / "other" / "meshbus").write_text(f"#!/bin/sh\ntouch {folder}/started\nexit 1\n")
    (folder / "other" / "meshbus").chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if key.startswith("MESHBUS_PYTHON_")}
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=100,
                          env=kept | {"PATH": f"{folder}/other:/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert not (folder / "started").exists()
    return done.stdout


def add_cloudpickle(site):
    source = pathlib.Path(importlib.util.find_spec("cloudpickle").origin).parent
    shutil.copytree(source, site / "cloudpickle")


@pytest.mark.limit(240)
def test_it_is_installed_in_a_clean_environment(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python3"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel],
                   check=True, capture_output=True)
    site = tmp_path / "venv" / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    add_cloudpickle(site)
    (tmp_path / "program.py").write_text(PROGRAM)
    said = clean(tmp_path, python, "program.py").splitlines()
    assert said == [str(site / "meshbus")] * 2 + [str(site / "meshbus" / "_bin" / "meshbus")]
    program = tmp_path / "venv" / "bin" / "meshbus"
    assert clean(tmp_path, program, "--version") == "meshbus 0.1.0\n"
    assert clean(tmp_path, program, "run", "-n", "2", "echo", "hi").count("hi") == 2


def test_it_runs_from_wherever_it_is_unpacked(wheel, tmp_path):
    folder = tmp_path / "some where"
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = pathlib.Path(archive.extract(entry, folder))
            path.chmod(entry.external_attr >> 16 & 0o777)
    add_cloudpickle(folder)
    (folder / "program.py").write_text(PROGRAM)
    said = clean(tmp_path, sys.executable, folder / "program.py").splitlines()
    assert said == [str(folder / "meshbus")] * 2 + [str(folder / "meshbus/_bin/meshbus")]


def test_it_names_no_folder_of_the_build(wheel):
    with zipfile.ZipFile(wheel) as archive:
        named = [name for name in archive.namelist()
                 if str(ROOT).encode() in archive.read(name)]
        assert not named
        assert any(name.endswith("entry_points.txt") for name in archive.namelist())
        assert "meshbus/py.typed" in archive.namelist()
