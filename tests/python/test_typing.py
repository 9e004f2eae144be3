"""What type checkers say to programs of users, and whether the stubs are as the modules are."""
import ast
import importlib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

import meshbus

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = pathlib.Path(meshbus.__file__).parent
EXPECTED = re.compile(r"  # (note|error): (.*)$")
REPORT = re.compile(r"^.*typing_probe\.py:(\d+): (note|error): (.*)$")
ALIASES = ("Parts", "Place", "Settings", "Shape")
MODULE = re.compile(r"\b(?:builtins|typing_probe|meshbus(?:\.\w+)*)\.")

needs_mypy = pytest.mark.skipif(importlib.util.find_spec("mypy") is None,
                                reason="needs mypy: apt-get install mypy")


def run(folder, module, *words):
    """(exit code, output) of a program of mypy that knows the package that the tests use."""
    environment = dict(os.environ)
    if PACKAGE.parent.name not in ("site-packages", "dist-packages"):
        # An installed package is found by its py.typed.
        environment["MYPYPATH"] = str(PACKAGE.parent)
    done = subprocess.run([sys.executable, "-m", module, *words], cwd=folder, env=environment,
                          capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@needs_mypy
@pytest.mark.limit(240)
def test_programs_of_users(tmp_path):
    probe = HERE / "typing_probe.py"
    expected = {number: match.groups()
                for number, line in enumerate(probe.read_text(encoding="utf-8").split("\n"), 1)
                if (match := EXPECTED.search(line))}
    # The package itself is checked elsewhere, with settings of its own.
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = True\nshow_error_codes = True\n[mypy-meshbus.*]\nignore_errors = True\n")
    _, output = run(tmp_path, "mypy", "--cache-dir", tmp_path / "cache", probe)
    said = {}
    for line in output.splitlines():
        if not (match := REPORT.match(line)):
            continue
        number, kind, text = int(match[1]), match[2], match[3]
        if revealed := re.fullmatch(r'Revealed type is "(.*)"', text):
            said[number] = kind, MODULE.sub("", revealed[1].replace("Tuple", "tuple"))
        elif kind == "error":
            said[number] = kind, text.rpartition("[")[2].rstrip("]")
    assert said == expected, output
    assert len(expected) > 25


@needs_mypy
@pytest.mark.limit(240)
def test_stubs_have_the_names_of_the_modules(tmp_path):
    code, output = run(tmp_path, "mypy.stubtest", "meshbus._client", "meshbus._proc",
                       "--allowlist", HERE / "stubtest_allowlist.txt", "--concise")
    # Its own names for types are the stub's alone.
    aliases = re.compile(r"meshbus\._(client|proc)\.\w+ is not present at runtime")
    found = [line for line in output.splitlines() if not (
        aliases.fullmatch(line) and line.split()[0].rpartition(".")[2] in ALIASES)]
    assert found == [], output


def functions(tree, prefix=""):
    """(name, definition) of the functions of a stub and of its classes."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node


def types_of(definition, aliases):
    """The types of its parameters and of what it returns, without the module of each."""
    class Plain(ast.NodeTransformer):
        def visit_Attribute(self, node):
            return ast.Name(node.attr)

        def visit_Name(self, node):
            return aliases.get(node.id, node)

    given = [arg.annotation for arg in definition.args.args if arg.arg != "self"]
    return [ast.unparse(Plain().visit(one)) for one in (*given, definition.returns)]


def is_same(stub, said):
    """Whether a type of a stub is one that pybind11 writes like this."""
    if said in ("handle", "object"):
        return True
    said = re.sub(r"\b(List|Tuple|Dict)\[", lambda match: match[0].lower(), said)
    said = re.sub(r"^Optional\[(.*)\]$", r"\1 | None", said)
    return stub == said or (said in ("dict", "list", "tuple") and stub.startswith(f"{said}["))


@pytest.mark.parametrize("name", ["_client", "_proc"])
def test_stubs_have_the_signatures_of_the_modules(name):
    """pybind11 writes them into docstrings, where stubtest does not look."""
    module = importlib.import_module(f"meshbus.{name}")
    tree = ast.parse((PACKAGE / f"{name}.pyi").read_text(encoding="utf-8"))
    aliases = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign)}
    compared, different = 0, []
    for path, stub in functions(tree):
        one = module
        for part in path.split("."):
            one = getattr(one, part)
        if isinstance(one, property):
            continue
        lines = (one.__doc__ or "").splitlines()
        signature = next(line for line in lines if line.startswith(f"{stub.name}("))
        built = ast.parse(f"def {signature}: ...").body[0]
        wanted, said = types_of(stub, aliases), types_of(built, {})
        if len(wanted) != len(said) or not all(map(is_same, wanted, said)):
            different.append(f"{path}: the stub has {wanted}, the module {said}")
        compared += 1
    assert different == [] and compared > 20
