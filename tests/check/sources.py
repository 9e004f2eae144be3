"""What the checks know about the tree: its C++ files, and which of them each one includes."""
import os
import re
import subprocess
import sys
from functools import lru_cache

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[>"]', re.M)


# Headers that are there for programs that use a library: they may include it, and no other header
# of ours may include them.
OPT_IN = {
    "mesh/include/meshbus/format.h": "fmt",
    "agent/proc/include/meshbus/actor_flatbuffers.h": "flatbuffers",
}


@lru_cache(maxsize=None)
def files():
    """Every file of ours that exists, as paths from the top of the tree; also without git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        if listed.returncode == 0:
            return sorted(
                path
                for path in set(listed.stdout.split("\0"))
                if os.path.isfile(os.path.join(ROOT, path))
            )
    except FileNotFoundError:
        pass
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in ("build", ".git", ".cache")]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return sorted(found)


def cpp_files():
    return [path for path in files() if path.endswith((".h", ".cpp"))]


def public_headers():
    """What people include as <meshbus/...>."""
    return [
        path
        for path in files()
        if re.search(r"(^|/)include/meshbus/.*\.h$", path) and not path.startswith("tests/")
    ]


def include_folders():
    """Where <meshbus/...> is looked for."""
    return sorted(
        {path[: path.index("/include/meshbus/")] + "/include" for path in public_headers()}
    )


@lru_cache(maxsize=None)
def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


@lru_cache(maxsize=None)
def includes(path):
    """[(line, "<" or '"', name as written)]"""
    content = text(path)
    return [
        (content.count("\n", 0, match.start()) + 1, match.group(1), match.group(2))
        for match in INCLUDE.finditer(content)
    ]


@lru_cache(maxsize=None)
def resolve(name):
    """The file of ours that an include means; None when it is none of ours."""
    for folder in [""] + include_folders():
        if os.path.isfile(os.path.join(ROOT, folder, name)):
            return os.path.join(folder, name)
    return None


@lru_cache(maxsize=None)
def reachable(path):
    """What `path` includes, directly or not: {file of ours or name of another header: the file that
    includes it}. `path` itself is not in it."""
    found, todo = {}, [path]
    while todo:
        current = todo.pop()
        for _, _, name in includes(current):
            target = resolve(name)
            key = target or name
            if key in found or key == path:
                continue
            found[key] = current
            if target:
                todo.append(target)
    return found


def finish(problems, well):
    """Prints what was found and ends: exit code 1 when there is anything."""
    for problem in problems:
        print(f"    {problem}")
    if not problems:
        print(f"    {well}")
    sys.exit(1 if problems else 0)
