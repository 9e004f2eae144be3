#!/usr/bin/python3 -B
"""Checks of single lines: scripts parse (bash -n, python), and tests have no bare sleeps.

A test waits for an event with a deadline. What must sleep all the same (the wait itself, a child
that is there to sleep) says why on the same line: "sleep-ok: because ..."."""
import ast
import re
import subprocess

import sources

SLEEP_CPP = re.compile(r"\b(sleep|usleep|nanosleep|clock_nanosleep|sleep_for|sleep_until)\s*\(")
SLEEP_SH = re.compile(r"(^|[;&|]|\b(do|then|else))\s*sleep\s")
SLEEP_PY = re.compile(r"\b(time\.)?sleep\s*\(")
KINDS = {
    ".h": (SLEEP_CPP, "//"),
    ".cpp": (SLEEP_CPP, "//"),
    ".sh": (SLEEP_SH, "#"),
    ".py": (SLEEP_PY, "#"),
}


def first_line(path):
    try:
        return sources.text(path).split("\n", 1)[0]
    except UnicodeDecodeError:
        return ""


def kind_of(path):
    """ ".cpp", ".sh", ...: also of a script that says what it is only in its first line."""
    suffix = re.search(r"(\.\w+)?$", path.rsplit("/", 1)[-1]).group(0)
    if not suffix:
        line = first_line(path)
        return (
            ".sh"
            if re.match(r"#!.*[/ ](ba)?sh( |$)", line)
            else ".py"
            if re.match(r"#!.*python3?( |$)", line)
            else ""
        )
    return suffix


def main():
    problems, scripts, tests = [], 0, 0
    for path in sources.files():
        kind = kind_of(path)
        if kind == ".sh":
            scripts += 1
            done = subprocess.run(
                ["bash", "-n", path], cwd=sources.ROOT, capture_output=True, text=True
            )
            problems += (
                [f"{path}: not valid bash: {done.stderr.strip()}"] if done.returncode else []
            )
        elif kind == ".py":
            scripts += 1
            try:
                ast.parse(sources.text(path), path)
            except SyntaxError as error:
                problems.append(f"{path}:{error.lineno}: not valid python: {error.msg}")
        if path.startswith("tests/") and not path.startswith("tests/check/") and kind in KINDS:
            tests += 1
            sleep, comment = KINDS[kind]
            for number, line in enumerate(sources.text(path).splitlines(), 1):
                if (
                    sleep.search(line)
                    and not line.lstrip().startswith(comment)
                    and "sleep-ok: " not in line
                ):
                    problems.append(
                        f"{path}:{number}: a bare sleep; wait for an event with a deadline, or "
                        f"say why on that line with "
                        f"\"sleep-ok: ...\": {line.strip()}"
                    )
    sources.finish(problems, f"{scripts} scripts parse; no bare sleep in {tests} files of tests/")


if __name__ == "__main__":
    main()
