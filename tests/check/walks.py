#!/usr/bin/python3 -B
"""What docs/architecture.md, docs/glossary.md and CONTRIBUTING.md say of the sources is true: each
path in backticks is there, and each function or class that follows it (`path`: `Class::name`) is in
that file, or in the header or source beside it. The tests that docs/reference/promises.md names
are there, too."""
import glob
import os
import re

import sources

PAGES = ("docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md")
TOPS = ("schemas", "mesh", "common", "broker", "agent", "client", "bench", "cli", "examples")
TOPS += ("docker", "cmake", "tests", "docs")
CODE = re.compile(r"`([^`\n]+)`")
DEFINED = r"(class|struct|enum) %s\b|\b%s(?:[({]| =)"
SAID = re.compile(r"`([\w./]+\.(?:h|cpp))`: `([A-Za-z_][\w:]*)`")


def unfold(pattern):
    """ "a/{b,c}.h" -> ["a/b.h", "a/c.h"]."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    head, tail = pattern[: found.start()], pattern[found.end() :]
    return [path for part in found[1].split(",") for path in unfold(head + part + tail)]


def missing_paths(text):
    for code in CODE.findall(text):
        path = code.removesuffix("/")
        if not re.fullmatch(r"[\w./*{},-]+", path) or path.split("/")[0] not in TOPS:
            continue
        for one in unfold(path):
            is_pattern = re.search(r"[A-Z]{3}", one)  # cli/AREA/NAME_command.*
            if "/" in one and not is_pattern and not glob.glob(os.path.join(sources.ROOT, one)):
                yield f"there is no {one}"


def missing_names(text):
    for path, name in SAID.findall(text):
        base = os.path.join(sources.ROOT, path.rsplit(".", 1)[0])
        beside = [base + end for end in (".h", ".cpp", "_impl.h") if os.path.isfile(base + end)]
        content = "".join(open(one, encoding="utf-8").read() for one in beside)
        last = name.split("::")[-1]
        if beside and not all(re.search(rf"\b{part}\b", content) for part in name.split("::")):
            yield f"{path} has no {name}"
        elif beside and not re.search(DEFINED % (last, last), content):
            yield f"{path} mentions {name}, but does not define it"


PROMISES = "docs/reference/promises.md"
TEST_NAME = re.compile(r'TEST_CASE\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)|^def (test_\w+)', re.M)


def test_names():
    for path in sources.files():
        if not path.startswith("tests/") or not path.endswith((".cpp", ".py")):
            continue
        for strings, function in TEST_NAME.findall(sources.text(path)):
            yield function or "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings))


def missing_tests(text):
    """The last cell of each row names parts of the names of tests, as --filter takes them."""
    names = list(test_names())
    for line in text.splitlines():
        cell = line.rsplit("|", 2)[-2] if line.startswith("| ") else ""
        for word in CODE.findall(cell):
            if word.startswith("./dev ") or any(word in name for name in names):
                continue
            if not glob.glob(os.path.join(sources.ROOT, word)):
                yield f"there is no test {word!r}"


def main():
    problems, count = [], 0
    promises = sources.text(PROMISES)
    count += len(CODE.findall(promises))
    problems += [f"{PROMISES}: {problem}" for problem in missing_tests(promises)]
    for page in PAGES:
        text = sources.text(page)
        count += len(CODE.findall(text))
        for problem in [*missing_paths(text), *missing_names(text)]:
            problems.append(f"{page}: {problem}")
    sources.finish(problems, f"{count} names in {len(PAGES) + 1} pages are in the sources")


if __name__ == "__main__":
    main()
