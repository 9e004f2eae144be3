#!/usr/bin/python3 -B
"""Writes what docs/reference has from the source of truth.

    reference.py                    settings.md and errors.md, from headers
    reference.py --program MESHBUS  and commands.md, from what that program says of itself
    reference.py --check            writes nothing; fails, and names what is out of date
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "docs/reference"
NOTE = "<!-- Made by tests/docs/reference.py; edit {source} instead. -->\n"
STRING = r'"(?:[^"\\]|\\.)*"'


def joined(literals):
    """The text of C++ string literals in a row."""
    return "".join(part[1:-1].replace('\\"', '"') for part in re.findall(STRING, literals))


def cell(text):
    return text.replace("|", "\\|")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows]) + "\n"


def settings():
    source = "common/config/config_keys.h"
    text = (ROOT / source).read_text()
    rows = re.findall(
        rf"\{{({STRING}), ValueKind::(\w+), ({STRING}), ({STRING}), ({STRING}), ({STRING}),\s*"
        rf"((?:{STRING}\s*)+)\}},",
        text,
    )
    shown = []
    for name, kind, unit, standard, least, most, meaning in rows:
        name, unit, standard = joined(name), joined(unit), joined(standard)
        least, most = joined(least), joined(most)
        form = {"word": unit.replace(",", ", "), "boolean": "true, false", "path": "a path"}.get(
            kind, f"{least} to {most}"
        )
        if kind == "duration":
            form += f"; a plain number is in {unit}"
        variable = "MESHBUS_" + name.upper().replace(".", "_")
        shown.append([f"`{name}`", f"`{standard}`" if standard else "empty", form,
                      f"`{variable}`", joined(meaning)])
    return NOTE.format(source=source) + f"""# Settings

Strongest first: `--set KEY=VALUE`, the environment variable, the file, the launcher's, the default.
The file is the first of these that is there:
`$MESHBUS_CONFIG`, `$XDG_CONFIG_HOME/meshbus/config`, `~/.config/meshbus/config`,
`/etc/meshbus/config`.
It has lines `spawn.ready = 30s`, or `ready = 30s` below `[spawn]`; `#` and `;` begin a comment.
`meshbus config` prints each value and where it came from.
A value that cannot be is an error that names key, value, place and what is expected.

""" + table(["key", "default", "values", "environment", "meaning"], shown)


def errors():
    source = "mesh/include/meshbus/result.h and docs/reference/remedies.txt"
    text = (ROOT / "mesh/include/meshbus/result.h").read_text()
    body = text[text.index("enum class ErrorCode") : text.index("};")]
    codes = re.findall(r"(\w+)\s*=\s*(\d+),\s*///<\s*((?:[^\n]*)(?:\n\s*///<[^\n]*)*)", body)
    remedies = {}
    for line in (FOLDER / "remedies.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            code, rest = line.split(":", 1)
            cause, remedy = rest.split(" | ")
            remedies[code] = (cause.strip(), remedy.strip())
    names = [name for name, _, _ in codes if name != "none"]
    if sorted(remedies) != sorted(names):
        odd = sorted(set(names) ^ set(remedies))
        sys.exit(f"docs/reference/remedies.txt and ErrorCode differ in: {', '.join(odd)}")
    rows = []
    for name, number, meaning in codes:
        if name != "none":
            plain = re.sub(r"\s*///<\s*", " ", meaning).strip()
            rows.append([number, f"`{name}`", plain, *remedies[name]])
    return NOTE.format(source=source) + """# Error codes

An error is a code, which programs test, and a text, which says what, where and why.
The numbers are the same on the wire and in C++ (`ErrorCode`), and keep their meaning for ever.
Python has the names (`MeshError.code`).

""" + table(["number", "code", "meaning", "common cause", "what to do"], rows)


def commands(program):
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "help", "--man", folder], check=True, env=environment)
        names = sorted(path.stem for path in pathlib.Path(folder).glob("*.1"))
    parts = []
    for name in names:
        words = name.split("-")
        shown = subprocess.run([program, *words[1:], "--help"], check=True, env=environment,
                               capture_output=True, text=True).stdout
        parts.append(f"## {' '.join(words)}\n\n```text\n{shown.rstrip()}\n```\n")
    return NOTE.format(source="the help in cli/") + """# Commands

What `meshbus COMMAND --help` prints; `man meshbus-COMMAND` has the same.

""" + "\n".join(parts)


def wrong_exit_codes(program):
    """Where the table of exit codes, their header and the help of commands differ."""
    table = (FOLDER / "exit-codes.md").read_text()
    rows = " ".join(re.findall(r"^\| ([\d, ]+) \|", table, re.M))
    known = set(map(int, re.findall(r"\d+", rows)))
    header = (ROOT / "common/base/exit_codes.h").read_text()
    named = set(map(int, re.findall(r"constexpr int k\w+ = (\d+);", header)))
    # 0, and 128 + a signal.
    wrong = [f"exit code {code} is in common/base/exit_codes.h alone" for code in named - known]
    wrong += [f"exit code {code} is in exit-codes.md alone"
              for code in known - named if 0 < code < 128]
    if program:
        parts = commands(program).split("\n## ")[1:]
        for part in parts:
            said = part[part.rfind("\nExit code: "):] if "\nExit code: " in part else ""
            name = part.splitlines()[0]
            if not said and "COMMAND" not in part.split("Usage:")[1].splitlines()[0]:
                wrong.append(f"{name} --help names no exit codes")
            for code in map(int, re.findall(r"(?:^\nExit code: |; )(\d+)\b", said)):
                if code not in known and code != 128:
                    wrong.append(f"{name} --help: exit code {code} is not in exit-codes.md")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="a meshbus that is built")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    pages = {"settings.md": settings(), "errors.md": errors()}
    if arguments.program:
        pages["commands.md"] = commands(arguments.program)
    stale = []
    for name, text in pages.items():
        path = FOLDER / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not arguments.check:
            path.write_text(text)
    wrong = wrong_exit_codes(arguments.program)
    for text in wrong:
        print(text)
    if arguments.check and wrong:
        return 1
    if arguments.check and stale:
        print(f"docs/reference is out of date: {', '.join(stale)}; run tests/docs/reference.py "
              "--program build/release/bin/meshbus")
        return 1
    print(f"    docs/reference: {', '.join(pages)} are as the sources say"
          if not stale else f"    written: {', '.join(stale)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
