#!/usr/bin/python3 -B
"""clang-tidy (.clang-tidy) over every .cpp file, in parallel and as the compiler reads them,
several together: tidy.py BUILD_FOLDER, which has compile_commands.json and the generated header.

What passed is remembered by a hash of all that the answer depends on, in
$XDG_CACHE_HOME/meshbus/tidy (~/.cache), so that only what changed is looked at again.
TIDY_CACHE=off looks at everything."""
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import lru_cache

import sources

TIDY = "clang-tidy-19"
# Its own resource folder is all it takes from its compiler; what it reads besides are these
# packages' headers.
PACKAGES = [
    "clang-tidy-19",
    "libstdc++-12-dev",
    "libc6-dev",
    "cppzmq-dev",
    "libsodium-dev",
    "libflatbuffers-dev",
    "libpoco-dev",
    "prometheus-cpp-dev",
    "libspdlog-dev",
    "libcli11-dev",
    "libexpected-dev",
    "nlohmann-json3-dev",
    "libtomlplusplus-dev",
    "libncurses-dev",
    "doctest-dev",
]
OTHER_PRESETS = (
    "client/python/",
    "tests/fuzz/",
    "tests/tsan/",
    "tests/consumer/",
)  # what the dev preset does not build
KEPT_SECONDS = 30 * 24 * 3600


def cache_folder():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(
        os.environ.get("HOME", "/tmp"), ".cache"
    )
    return os.path.join(home, "meshbus", "tidy")


def surroundings():
    """What every answer depends on."""
    digest = hashlib.sha256()
    versions = subprocess.run(["dpkg-query", "-W", *PACKAGES], capture_output=True)
    digest.update(versions.stdout)
    for config in (".clang-tidy", "tests/.clang-tidy"):
        digest.update(sources.text(config).encode())
    return digest


@lru_cache(maxsize=None)
def generated(build, header):
    """{generated header: its text}, of that one (wire/...) and of those that it includes."""
    path = os.path.join(build, "schemas", "include", header)
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        found = {header: file.read()}
    for name in re.findall(r'^#include "(\w+\.h)"', found[header], re.MULTILINE):
        found.update(generated(build, f"wire/{name}"))
    return found


def flags_of(entry):
    """What says how a source is to be read; g++'s warnings, sanitizers and the like are g++'s
    business."""
    words, flags = shlex.split(entry["command"]), []
    for i, word in enumerate(words):
        if word == "-isystem":
            flags += [word, words[i + 1]]
        elif re.match(r"-(D|I|std=)", word):
            flags.append(word)
    return flags


def key(entry, shared, build):
    digest = shared.copy()
    path = os.path.relpath(entry["file"], sources.ROOT)
    digest.update("\0".join([path, *flags_of(entry)]).replace(sources.ROOT, "").encode())
    for name in [path, *sorted(sources.reachable(path))]:
        if name.startswith("wire/"):
            for header, text in sorted(generated(build, name).items()):
                digest.update(header.encode() + b"\0" + text.encode())
        elif os.path.isfile(os.path.join(sources.ROOT, name)):
            digest.update(name.encode() + b"\0" + sources.text(name).encode())
    return digest.hexdigest()


def compiled(build):
    """{source: its entry in compile_commands.json}, and which sources are compiled as one: a unity
    build names only the files that include them."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        listed = json.load(file)
    entries, together = {}, []
    for entry in listed:
        files = [entry["file"]]
        if "/Unity/" in entry["file"]:
            with open(entry["file"], encoding="utf-8") as file:
                files = [
                    name for bracket, name in sources.INCLUDE.findall(file.read()) if bracket == '"'
                ]
        files = [name for name in files if not name.startswith(build)]
        entries.update({name: {**entry, "file": name} for name in files})
        together.append(files)
    return entries, together


def run(group):
    """(the files that passed, what was found in the others)"""
    with tempfile.TemporaryDirectory() as folder:
        # Options are those of the folder that the source is in: tests have some of their own.
        shutil.copy(os.path.join(sources.ROOT, ".clang-tidy"), folder)
        if os.path.relpath(group[0]["file"], sources.ROOT).startswith("tests/"):
            folder = os.path.join(folder, "tests")
            os.mkdir(folder)
            shutil.copy(os.path.join(sources.ROOT, "tests/.clang-tidy"), folder)
        together = os.path.join(folder, "together.cpp")
        with open(together, "w", encoding="utf-8") as file:
            file.writelines(f'#include "{entry["file"]}"\n' for entry in group)
        done = subprocess.run(
            [TIDY, "--quiet", together, "--", *flags_of(group[0]), "-w"],
            cwd=sources.ROOT,
            capture_output=True,
            text=True,
        )
    if done.returncode == 0:
        return group, []
    if len(group) == 1:
        return [], [done.stdout.strip() or done.stderr.strip()]
    # Each finding is to be told with its own file.
    passed, problems = [], []
    for entry in group:
        good, bad = run([entry])
        passed, problems = passed + good, problems + bad
    return passed, problems


def main():
    build = os.path.realpath(sys.argv[1])
    entries, together = compiled(build)
    problems = [
        f"    {path}: no target compiles it, so nothing checks it"
        for path in sources.cpp_files()
        if path.endswith(".cpp")
        and os.path.join(sources.ROOT, path) not in entries
        and not path.startswith(OTHER_PRESETS)
    ]
    for problem in problems:
        print(problem)
    cache, use_cache = cache_folder(), os.environ.get("TIDY_CACHE") != "off"
    os.makedirs(cache, exist_ok=True)
    shared = surroundings()
    keys = {name: key(entry, shared, build) for name, entry in entries.items()}
    stamp = {name: os.path.join(cache, value) for name, value in keys.items()}
    known = {name for name in entries if use_cache and os.path.exists(stamp[name])}
    for name in known:
        os.utime(stamp[name])
    todo = [[entries[name] for name in files if name not in known] for files in together]
    todo, done, last = sorted(filter(None, todo), key=len, reverse=True), 0, time.monotonic()
    with ThreadPoolExecutor(max_workers=int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        running = {pool.submit(run, group): len(group) for group in todo}
        for future in as_completed(running):
            passed, found = future.result()
            done += running[future]
            for entry in passed:
                open(stamp[entry["file"]], "w", encoding="utf-8").close()
            for problem in found:
                problems.append(problem.replace(sources.ROOT + os.sep, ""))
                print(problems[-1], flush=True)
            if time.monotonic() - last > 20:
                print(f"    {done} of {len(entries) - len(known)} files", flush=True)
                last = time.monotonic()
    for name in os.listdir(cache):
        path = os.path.join(cache, name)
        if time.time() - os.stat(path).st_mtime > KEPT_SECONDS:
            os.unlink(path)
    used = os.times()
    count = (
        f"{len(entries)} files, {len(known)} of them unchanged since they passed; "
        f"{used.children_user + used.children_system:.0f} s of CPU for the others"
    )
    print(f"    {count}; {f'findings in {len(problems)}' if problems else 'no finding'}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
