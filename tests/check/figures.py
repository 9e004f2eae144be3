#!/usr/bin/python3 -B
"""Prints what the plan of the tree looks like in numbers, as a table: lines by area, lengths of
files and functions, classes, folders that include each other, English, and with --parse BUILD how
long the five heaviest headers take to parse. It checks nothing.

figures.py [--tree FOLDER] [--parse BUILD]
--tree measures another checkout of this repository, for a comparison."""
import argparse
import collections
import json
import os
import shlex
import statistics
import subprocess
import time

import classes
import english
import includes
import sources

PRODUCT = classes.AREAS
HEADERS = 5


class Lengths(classes.Parser):
    """Notes how many lines each function has that is defined in the file."""

    def __init__(self, path, text):
        super().__init__(path, text)
        self.lengths = []

    def brace(self, scopes, head, start, position):
        begin, at = super().brace(scopes, head, start, position)
        # A body that was skipped whole: the next statement begins behind it.
        if begin == at and at > position + 1:
            first = start + len(head) - len(head.lstrip())
            self.lengths.append(self.text.count("\n", first, at) + 1)
        return begin, at


def spread(numbers):
    """median / p90 / max"""
    ordered = sorted(numbers)
    return f"{statistics.median(ordered):.0f} / {ordered[len(ordered) * 9 // 10]} / {ordered[-1]}"


def parse_times(build, paths):
    """{header: seconds} of the headers that take longest, out of those that include most."""
    commands = json.load(open(os.path.join(build, "compile_commands.json"), encoding="utf-8"))
    words = shlex.split(commands[0]["command"])
    compiler = next(word for word in words if "clang" in word or "g++" in word)
    folders = {
        word for one in commands for word in shlex.split(one["command"]) if word.startswith("-I")
    }
    system = os.path.join(build, "schemas", "include")
    heavy = sorted(
        (path for path in paths if path.endswith(".h")),
        key=lambda path: -len(sources.reachable(path)),
    )
    times = {}
    for path in heavy[: 4 * HEADERS]:
        begin = time.monotonic()
        subprocess.run(
            [compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", *sorted(folders), "-I."]
            + ["-isystem", system, path],
            cwd=sources.ROOT,
            capture_output=True,
            check=False,
        )
        times[path] = time.monotonic() - begin
    return dict(sorted(times.items(), key=lambda item: -item[1])[:HEADERS])


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--tree", default=sources.ROOT)
    arguments.add_argument("--parse", metavar="BUILD")
    given = arguments.parse_args()
    sources.ROOT = os.path.realpath(given.tree)
    paths = [path for path in sources.cpp_files() if path.startswith(PRODUCT)]
    texts = {path: sources.text(path) for path in paths}
    lines = {path: text.count("\n") for path, text in texts.items()}
    rows = [("product files", len(paths)), ("product lines", sum(lines.values()))]
    for area in PRODUCT:
        rows.append(
            (f"lines in {area}", sum(n for path, n in lines.items() if path.startswith(area)))
        )
    rows.append(("lines a file, median / p90 / max", spread(lines.values())))
    lengths = [n for path, text in texts.items() for n in Lengths(path, text).parse().lengths]
    rows.append(("functions", len(lengths)))
    rows.append(("lines a function, median / p90 / max", spread(lengths)))
    rows.append(("functions of more than 60 lines", sum(n > 60 for n in lengths)))
    found = classes.survey(texts)
    rows.append(("classes", len(found)))
    rows.append(
        ("classes in more than two .cpp files", sum(one["files"] > 2 for one in found.values()))
    )
    for kind in ("functions", "data"):
        numbers = [one[kind] for one in found.values()]
        rows.append((f"{kind} a class, median / p90 / max", spread(numbers)))
        limit = classes.LIMITS[kind]
        rows.append((f"classes of more than {limit} {kind}", sum(n > limit for n in numbers)))
    pairs = includes.mutual_pairs(paths)
    rows.append(("folders that include each other", len(pairs)))
    counts = collections.Counter()
    for figures in english.survey(sources.files()).values():
        counts.update(figures)
    rows += [(f"English: {key}", counts[key]) for key in english.WHAT]
    if given.parse:
        for path, seconds in parse_times(os.path.realpath(given.parse), paths).items():
            rows.append((f"parsing {path}", f"{seconds:.1f} s"))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:{width}}  {value}")


if __name__ == "__main__":
    main()
