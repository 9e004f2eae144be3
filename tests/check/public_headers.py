#!/usr/bin/python3 -B
"""Every public header compiles alone, and from none is anything reachable but public headers, the
standard library, the system's own headers and tl/expected. Judged by what the compiler read (-MD),
not by the text. Whole programs in their comments, those with a main(), compile."""
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import sources

# Packages whose headers a public header may reach, whatever their version.
ALLOWED = re.compile(
    r"^(libc6-dev|linux-libc-dev|libstdc\+\+-\d+-dev|libgcc-\d+-dev|libexpected-dev)(:.*)?$"
)
FLAGS = [
    "-std=c++20",
    "-fsyntax-only",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Werror",
]


EXAMPLE = re.compile(r"((?:^///(?:     .*)?\n)+)", re.M)


def programs_in(header):
    """The examples in its comments that are whole programs."""
    for block in EXAMPLE.findall(sources.text(header)):
        code = "\n".join(line[3:].removeprefix("     ") for line in block.splitlines())
        if re.search(r"^int main\(", code, re.M):
            yield code + "\n"


def example_problems(header):
    """What the compiler says of them."""
    folders = [f"-I{os.path.join(sources.ROOT, folder)}" for folder in sources.include_folders()]
    for code in programs_in(header):
        done = subprocess.run(
            [os.environ.get("CXX", "g++"), *FLAGS[:2], *folders, "-x", "c++", "-"],
            input=code,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            return f"{header}: the example in its comment does not compile:\n{done.stderr.rstrip()}"
    return ""


def compile_alone(header):
    """(the compiler's complaints, every file that it read)"""
    with tempfile.TemporaryDirectory() as folder:
        source, depends = os.path.join(folder, "alone.cpp"), os.path.join(folder, "alone.d")
        with open(source, "w", encoding="utf-8") as file:
            file.write(f"#include <{header[header.index('/include/') + len('/include/'):]}>\n")
        folders = [
            f"-I{os.path.join(sources.ROOT, folder)}" for folder in sources.include_folders()
        ]
        done = subprocess.run(
            [os.environ.get("CXX", "g++"), *FLAGS, *folders, "-MD", "-MF", depends, source],
            capture_output=True,
            text=True,
        )
        read = []
        if os.path.exists(depends):
            with open(depends, encoding="utf-8") as file:
                read = file.read().replace("\\\n", " ").split(": ", 1)[-1].split()
        return done.stderr if done.returncode else "", {os.path.realpath(name) for name in read} - {
            os.path.realpath(source)
        }


def owners(paths):
    """{path: package}; what no package owns is missing."""
    found = {}
    done = subprocess.run(["dpkg-query", "-S", *sorted(paths)], capture_output=True, text=True)
    for line in done.stdout.splitlines():
        package, _, path = line.partition(": ")
        found[path] = package
    return found


def main():
    headers = sources.public_headers()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = dict(zip(headers, pool.map(compile_alone, headers)))
        examples = list(filter(None, pool.map(example_problems, headers)))
    ours = {os.path.join(sources.ROOT, header) for header in headers}
    others = {path for _, read in results.values() for path in read if path not in ours}
    package_of = owners(others)
    problems = examples
    for header, (complaints, read) in results.items():
        if complaints:
            problems.append(f"{header} does not compile alone:\n{complaints.rstrip()}")
        for path in sorted(read - ours):
            package = package_of.get(path, "")
            if not ALLOWED.match(package) and not (
                header in sources.OPT_IN and package.startswith(f"lib{sources.OPT_IN[header]}-dev")
            ):
                of = (
                    f"of {package_of[path]}"
                    if path in package_of
                    else "not a public header, of no package"
                )
                shown = (
                    os.path.relpath(path, sources.ROOT)
                    if path.startswith(sources.ROOT + os.sep)
                    else path
                )
                problems.append(
                    f"{header} reaches {shown} ({of}); whoever includes it would need that too"
                )
    if not headers:
        problems.append("no public header found")
    sources.finish(
        problems,
        f"{len(headers)} public headers compile alone and reach {len(others)} files of the "
        f"language and the system, nothing else; {sum(len(list(programs_in(h))) for h in headers)} "
        f"programs in their comments compile",
    )


if __name__ == "__main__":
    sys.exit(main())
