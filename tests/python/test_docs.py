"""The programs and commands of the documents, typed from the page, do what stands there."""
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "docs" / "typed"))
import typed_pages  # noqa: E402
BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n)?```python\n(.*?)```(?:\n\n```text\n(.*?)```)?",
                   re.S)


def programs():
    """(name, file that it is meant to be or None, program, what it prints or None)"""
    for document in ("README.md", "docs/guide/python.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        for number, match in enumerate(BLOCK.finditer(text), 1):
            yield f"{document}:{number}", *match.groups()


PROGRAMS = list(programs())


def test_the_reference_is_made_of_the_docstrings():
    made = subprocess.run([sys.executable, "-B", ROOT / "client" / "python" / "reference.py"],
                          capture_output=True, text=True, check=True).stdout
    assert made == (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8"), \
        "client/python/reference.py > docs/reference/python.md"


def run(words, folder):
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True,
                          timeout=50)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the files of the documents are."""
    return tmp_path_factory.mktemp("documents")


@pytest.mark.parametrize("name, file, program, output", PROGRAMS, ids=[p[0] for p in PROGRAMS])
def test_program(name, file, program, output, folder):
    (folder / (file or "program.py")).write_text(program)
    if file is None:
        comments = re.findall(r"print\(.*\) +# (.*)", program)
        assert run(["program.py"], folder) == (output or "".join(f"{c}\n" for c in comments))
    elif file == "rank.py":
        said = run(["-m", "meshbus.run", "-n", "2", file], folder)
        assert sorted(said.splitlines()) == ["[0] 0 of 2 HELLO", "[1] 1 of 2 HELLO"]
    elif file.startswith("test_"):
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "meshbus.pytest_plugin"]
        assert "1 passed" in run([*words, file], folder)
    else:
        compile(program, file, "exec")  # a later program starts it


def test_each_page_of_the_guide_is_typed_by_some_test():
    pages = {path.stem for path in (ROOT / "docs" / "guide").glob("*.md")}
    assert pages | {"README"} == {*typed_pages.PAGES, *typed_pages.ELSEWHERE}
    assert all((ROOT / program).exists() for program in typed_pages.ELSEWHERE.values())


def can_type():
    """Whether there are programs to type, and namespaces for it, as for root."""
    words = ["unshare", "--mount", "--net", "true"]
    return ((ROOT / "build" / "release" / "bin" / "meshbus").exists() and
            subprocess.run(words, capture_output=True).returncode == 0)


@pytest.mark.skipif(not can_type(), reason="takes build/release, and root for namespaces")
@pytest.mark.limit(300)
@pytest.mark.parametrize("page", typed_pages.PAGES)
def test_commands(page):
    program = ROOT / "tests" / "docs" / "typed" / "typed.py"
    done = subprocess.run([sys.executable, "-B", program, page], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
