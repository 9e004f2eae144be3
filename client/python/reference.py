#!/usr/bin/python3 -B
"""reference.py: prints the reference of the Python package, made of its signatures and docstrings.

docs/reference/python.md is what it prints; a test of the package compares them.
"""
from __future__ import annotations

import ast
import inspect
import pathlib
import re
import textwrap

PACKAGE = pathlib.Path(__file__).resolve().parent / "meshbus"
HEAD = """# The Python package, name by name

Made from the docstrings by `client/python/reference.py`.
[python.md](../guide/python.md) begins at the beginning.
"""
WIDTH = 100
SHARED = "ActorsView"
"""A base that nobody names: what it has is shown with the classes that it is the base of."""
MADE_BY_OTHERS = ["EventStream", "MeshInfo", "OneProc", "Peers", "ProcView", "Ranks",
                  "SpawnOptions", "Stream"]
"""Classes that nobody makes by their names: what the functions return."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> dict[str, ast.Module]:
    return {path.stem: ast.parse(path.read_text(encoding="utf-8"))
            for path in sorted(PACKAGE.glob("*.py"))}


def public_names(tree: ast.Module) -> list[str]:
    """What `from meshbus import *` gives."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    raise SystemExit("reference.py: meshbus/__init__.py has no __all__")


def definition(name: str, trees: dict[str, ast.Module]) -> ast.ClassDef | Function | None:
    for stem, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef | Function) and node.name == name \
                    and not stem.endswith("_plugin") and not is_overload(node):
                return node
    return None


def is_overload(node: ast.ClassDef | Function) -> bool:
    """Whether it only declares one of the forms of what follows."""
    return any(getattr(mark, "id", "") == "overload" for mark in node.decorator_list)


def signature(node: Function, name: str) -> str:
    arguments = ast.unparse(node.args)
    arguments = re.sub(r"^(self|cls)(, |$)", "", arguments)
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    line = f"{name}({arguments}){result}"
    return "\n".join(textwrap.wrap(line, WIDTH, subsequent_indent="    ",
                                   break_long_words=False, break_on_hyphens=False))


def text_of(node: ast.AST) -> str:
    """The docstring, one sentence a line."""
    text = ast.get_docstring(node) or ""  # type: ignore[arg-type]
    paragraphs = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("    "):
            paragraphs.append(f"```python\n{textwrap.dedent(paragraph)}\n```")
            continue
        line = " ".join(paragraph.split())
        paragraphs.append(re.sub(r"(?<=[.!?)]) (?=[A-Z`(])", "\n", line))
    return "\n\n".join(paragraphs)


def is_property(node: Function) -> bool:
    return any(ast.unparse(mark) in ("property", "functools.cached_property")
               for mark in node.decorator_list)


def members(node: ast.ClassDef) -> list[str]:
    """A line or a block for each public attribute and method."""
    found = []
    for place, child in enumerate(node.body):
        if isinstance(child, Function) and not child.name.startswith("_"):
            if is_property(child):
                kind = f": {ast.unparse(child.returns)}" if child.returns is not None else ""
                found.append(f"`.{child.name}{kind}`\n{text_of(child)}")
            else:
                call = signature(child, f".{child.name}")
                found.append(f"```python\n{call}\n```\n\n{text_of(child)}")
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name) \
                and not child.target.id.startswith("_"):
            after = node.body[place + 1] if place + 1 < len(node.body) else None
            what = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                what = " ".join(str(after.value.value).split())
            default = "" if child.value is None else f" = {ast.unparse(child.value)}"
            found.append(f"`.{child.target.id}: {ast.unparse(child.annotation)}{default}`\n{what}")
    return found


def constructor(node: ast.ClassDef) -> Function | None:
    for child in node.body:
        if isinstance(child, Function) and child.name == "__init__" and ast.get_docstring(child):
            return child
    return None


def section(name: str, node: ast.ClassDef | Function, trees: dict[str, ast.Module]) -> str:
    if isinstance(node, Function):
        return f"## {name}\n\n```python\n{signature(node, name)}\n```\n\n{text_of(node)}\n"
    bases = ", ".join(base for base in map(ast.unparse, node.bases)
                      if not base.startswith(("Generic", "Protocol", "ContextManager", SHARED)))
    parts = [f"## {name}" + (f"({bases})" if bases else ""), text_of(node)]
    if (made := constructor(node)) is not None:
        parts.append(f"```python\n{signature(made, name)}\n```\n\n{text_of(made)}")
    if any(ast.unparse(base) == SHARED for base in node.bases):
        shared = definition(SHARED, trees)
        assert isinstance(shared, ast.ClassDef)
        parts += members(shared)
    return "\n\n".join([*parts, *members(node)]) + "\n"


def reference() -> str:
    trees = modules()
    parts = [HEAD]
    for name in sorted(public_names(trees["__init__"]), key=str.lower):
        node = definition(name, trees)
        if node is None:
            raise SystemExit(f"reference.py: {name} is in __all__ and nowhere else")
        parts.append(section(name, node, trees))
    parts.append("# What functions return\n")
    for name in MADE_BY_OTHERS:
        node = definition(name, trees)
        assert node is not None, name
        parts.append(section(name, node, trees))
    return "\n".join(line.rstrip() for line in "\n".join(parts).splitlines()) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
