#!/usr/bin/python3 -B
"""Formatting of the C++ files by .clang-format; --fix applies it."""
import re
import subprocess
import sys

import sources


def main():
    paths = sources.cpp_files()
    if "--fix" in sys.argv[1:]:
        subprocess.run(["clang-format-19", "-i", *paths], cwd=sources.ROOT, check=True)
    done = subprocess.run(
        ["clang-format-19", "--dry-run", "--Werror", *paths],
        cwd=sources.ROOT,
        capture_output=True,
        text=True,
    )
    problems = [line for line in done.stderr.splitlines() if re.match(r"[^ ].*: error: ", line)]
    if done.returncode != 0:
        problems = (problems or [done.stderr.strip()]) + ["./dev check --fix formats them"]
    sources.finish(problems, f"{len(paths)} files are formatted")


if __name__ == "__main__":
    main()
