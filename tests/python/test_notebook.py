"""meshbus in a notebook, as its user sees it: in a browser."""
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import pytest

from browser import IN_TIME, Browser
from conftest import wait_until

MISSING = [name for name in ("notebook", "ipykernel") if importlib.util.find_spec(name) is None]
MISSING += [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs a notebook and a browser (./dev setup page), "
                                             f"without {', '.join(MISSING)}"),
    pytest.mark.limit(240),
]

CELLS = "#notebook-container > .code_cell"
INTERRUPT = "button[data-jupyter-action='jupyter-notebook:interrupt-kernel']"


class Jupyter:
    """A notebook server with folders of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.run_folder = folder / "run"
        self.run_folder.mkdir(mode=0o700)
        self._token = secrets.token_hex(16)
        kernel = folder / "data" / "kernels" / "python3"
        kernel.mkdir(parents=True)
        (kernel / "kernel.json").write_text(json.dumps({
            "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": "Python 3", "language": "python"}))
        (folder / "notebooks").mkdir()
        places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data",
                  "JUPYTER_RUNTIME_DIR": "jupyter", "IPYTHONDIR": "ipython",
                  "XDG_RUNTIME_DIR": "run"}
        environment = {**os.environ, **{key: str(folder / name) for key, name in places.items()}}
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]  # where another one was quicker, the next ones are tried
        self._log = (folder / "log").open("wb")
        self._server = subprocess.Popen(
            [sys.executable, "-m", "notebook", "--no-browser", "--allow-root", "--ip=127.0.0.1",
             f"--port={port}", f"--NotebookApp.token={self._token}", folder / "notebooks"],
            env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=self._log,
            stderr=subprocess.STDOUT)
        try:
            wait_until(self._is_up, IN_TIME)
        except BaseException:
            self.close()
            raise

    def _is_up(self) -> bool:
        assert self._server.poll() is None, (self.folder / "log").read_text()
        for file in self.folder.glob("jupyter/nbserver-*.json"):
            with contextlib.suppress(ValueError):  # it may be half written
                self.url = json.loads(file.read_text())["url"]
                return True
        return False

    def ask(self, method: str, path: str):
        """By the interface for programs."""
        request = urllib.request.Request(self.url + path, method=method,
                                         headers={"Authorization": f"token {self._token}"})
        with urllib.request.urlopen(request, timeout=IN_TIME) as answer:
            return json.loads(answer.read() or b"null")

    def page(self, name: str, cells: list[str]) -> str:
        """The address of a notebook with these cells."""
        made = {"nbformat": 4, "nbformat_minor": 4, "cells": [
            {"cell_type": "code", "execution_count": None, "outputs": [], "source": cell,
             # What follows a cell that raises runs all the same.
             "metadata": {"tags": ["raises-exception"]}} for cell in cells],
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3",
                                        "language": "python"}}}
        (self.folder / "notebooks" / f"{name}.ipynb").write_text(json.dumps(made))
        return f"{self.url}notebooks/{name}.ipynb?token={self._token}"

    def shut_down_kernels(self) -> None:
        """As closing all notebooks does it."""
        for session in self.ask("GET", "api/sessions"):
            self.ask("DELETE", f"api/sessions/{session['id']}")

    def processes(self) -> dict[int, str]:
        """{pid: command} of what runs below its kernels."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            is_ours = f"XDG_RUNTIME_DIR={self.run_folder}".encode() in environment
            if is_ours and state not in "ZX" and not re.search(
                    r"-m (notebook|ipykernel_launcher) ", command):
                found[int(entry.name)] = command
        return found

    def run_directories(self) -> list[pathlib.Path]:
        """The run directories of hosts."""
        return list(self.run_folder.glob("meshbus/*"))

    def close(self) -> None:
        """Ends it with its kernels, and waits."""
        with self._server, self._log:
            self._server.terminate()
            try:
                self._server.wait(30)
            except subprocess.TimeoutExpired:
                self._server.kill()


class Notebook:
    """A notebook in a browser. Cells are counted from 0."""

    def __init__(self, jupyter: Jupyter, browser: Browser, name: str, cells: list[str]) -> None:
        self._browser = browser
        browser.open(jupyter.page(name, cells))
        browser.wait("return document.querySelector('.kernel_idle_icon') !== null",
                     what="a kernel that is idle")

    def run_all(self) -> None:
        """Menu Cell, Run All."""
        self._browser.click("#celllink")
        self._browser.click("#run_all_cells a")

    def interrupt(self) -> None:
        """Presses the square."""
        self._browser.click(INTERRUPT)

    def output(self, cell: int, text: str = "", seconds: float = IN_TIME) -> str:
        """What is shown below a cell, as soon as this text is in it."""
        script = ("const text = document.querySelectorAll(arguments[0])[arguments[1]]"
                  ".querySelector('.output').innerText;"
                  "return text.includes(arguments[2]) && (text || ' ')")
        return self._browser.wait(script, CELLS, cell, text, seconds=seconds,
                                  what=f"cell {cell} shows {text!r}")

    def table(self, cell: int) -> tuple[str, list[list[str]]]:
        """(caption, rows) of the table below a cell."""
        script = ("const table = document.querySelectorAll(arguments[0])[arguments[1]]"
                  ".querySelector('.output_html table');"
                  "return table && [table.caption.innerText, [...table.rows].map("
                  "(row) => [...row.cells].map((one) => one.innerText))]")
        caption, rows = self._browser.wait(script, CELLS, cell, what=f"a table in cell {cell}")
        return caption, rows


@pytest.fixture(scope="module")
def folder():
    """Short: addresses of sockets have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="meshbus-nb-", ignore_cleanup_errors=True) as name:
        yield pathlib.Path(name)


@pytest.fixture(scope="module")
def jupyter(folder):
    server = Jupyter(folder)
    yield server
    server.close()


@pytest.fixture(scope="module")
def browser(folder):
    window = Browser(folder / "browser", 1100, 2800)
    yield window
    window.close()


@pytest.fixture
def open_notebook(jupyter, browser):
    """Opens a notebook with such cells; at the end of the test its kernel is shut down."""
    def make(name, *cells):
        return Notebook(jupyter, browser, name, list(cells))
    yield make
    jupyter.shut_down_kernels()
    wait_until(lambda: not jupyter.processes(), 20)
    assert jupyter.run_directories() == []


START = """
import asyncio, os
import meshbus
hosts = meshbus.start(2)
print("kernel", os.getpid())
"""
ACTOR = """
class Counter(meshbus.Actor):
    def __init__(self, start: int) -> None:
        self.total = start

    @meshbus.endpoint
    def add(self, n: int) -> int:
        self.total += n
        return self.total

    @meshbus.endpoint
    def divide(self, n: int) -> float:
        return self.total / n

    @meshbus.endpoint
    async def hang(self) -> None:
        await asyncio.Event().wait()
"""


def test_cells_show_values_tables_and_tracebacks(open_notebook, browser, tmp_path):
    notebook = open_notebook(
        "cells", START, "procs = hosts.workers(2)\nprocs", ACTOR,
        "counters = procs.spawn(Counter, 40)\ncounters.add(2)", "await counters.add.call(1)",
        "counters.slice(host=1, proc=0).divide(0)", "counters.divide(0)",
        "counters.add.reduce('sum', 0).result()", "hosts")
    notebook.run_all()
    assert notebook.output(7, "172")
    caption, rows = notebook.table(1)
    assert re.fullmatch(r"workers-.*: host=2,proc=2", caption)
    assert rows[0] == ["rank", "point", "state", "pid", "reason"]
    assert [row[:3] for row in rows[1:]] == [
        [str(rank), f"host={rank // 2}/2,proc={rank % 2}/2", "ready"] for rank in range(4)]
    for cell, value in ((3, "42"), (4, "43")):
        caption, rows = notebook.table(cell)
        assert caption == "host=2,proc=2"
        assert [row[2] for row in rows] == ["value"] + [value] * 4
    one = notebook.output(5, "RemoteError")
    assert "counters.slice(host=1, proc=0).divide(0)" in one  # the line of the cell
    assert "ZeroDivisionError: division by zero" in one and "in divide" in one
    assert "return self.total / n" in one  # and that of the class, which was defined in a cell
    several = notebook.output(6, "ExceptionGroup")
    assert "4 of 4 ranks failed; rank 0 (host=0,proc=0): ZeroDivisionError" in several
    caption, rows = notebook.table(8)
    assert caption == "host=2" and [row[0] for row in rows] == ["rank", "0", "1"]
    # For people: MESHBUS_NOTEBOOK_SCREENSHOT=FILE keeps what they would see.
    path = pathlib.Path(os.environ.get("MESHBUS_NOTEBOOK_SCREENSHOT", tmp_path / "notebook.png"))
    browser.screenshot(path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_cells_of_the_guide(open_notebook):
    """Typed from the page."""
    guide = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "python.md"
    cells = re.findall(r"```ipython\n(.*?)```", guide.read_text(encoding="utf-8"), re.S)
    notebook = open_notebook("guide", *cells)
    notebook.run_all()
    assert "'failed': 0" in notebook.output(3, "attempted")
    _, rows = notebook.table(0)
    assert [row[2] for row in rows[1:]] == ["ready"] * 4
    _, rows = notebook.table(1)
    assert [row[2] for row in rows[1:]] == ["42"] * 4
    assert notebook.output(2).strip().endswith("172")


def test_an_interrupt_ends_the_wait_of_a_cell(open_notebook):
    # The kernel cancels a cell that awaits; it interrupts another one.
    waits = {"procs.spawn(Counter, 0).hang()": "KeyboardInterrupt",
             "mesh.wait()": "KeyboardInterrupt",
             "for event in mesh.events(): pass": "KeyboardInterrupt",
             "await counters.hang.call()": "CancelledError",
             "await mesh.wait_async()": "CancelledError"}
    notebook = open_notebook(
        "interrupts", START, ACTOR, "procs = hosts.workers(1)\nmesh = hosts.spawn(['sleep', '900'])"
        "\ncounters = procs.spawn(Counter, 0)\nprint('made')",
        *(f"print('it ' + 'waits')\n{wait}" for wait in waits),
        "print(list(counters.add(2)), [report.state for report in mesh.reports])")
    notebook.run_all()
    for cell, raised in enumerate(waits.values(), 3):
        notebook.output(cell, "it waits")
        begin = time.monotonic()
        notebook.interrupt()
        notebook.output(cell, raised)
        assert time.monotonic() - begin < 10
    # Procs and actors live on: an interrupt is for the cell.
    assert notebook.output(3 + len(waits), "[2, 2] ['ready', 'ready']")


def test_a_killed_kernel_leaves_nothing(open_notebook, jupyter):
    notebook = open_notebook(
        "killed", START, "procs = hosts.workers(2)\nmesh = hosts.spawn(['sleep', '900'], 2)",
        ACTOR, "counters = procs.spawn(Counter, 0)\nlist(counters.add(1))",
        "print('it ' + 'waits')\ncounters.hang()")
    notebook.run_all()
    kernel = int(notebook.output(0, "kernel").split()[1])
    notebook.output(4, "it waits")
    there = " ".join(jupyter.processes().values())
    assert there.count("meshbus.worker") == 4 and there.count("sleep 900") == 4
    assert len(jupyter.run_directories()) == 2
    os.kill(kernel, signal.SIGKILL)
    begin = time.monotonic()
    wait_until(lambda: not jupyter.processes(), 20)
    wait_until(lambda: not jupyter.run_directories(), 20)
    assert time.monotonic() - begin < 10
