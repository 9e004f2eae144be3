#!/usr/bin/python3 -B
"""What README.md and docs/guide quote is in programs that are built and run: each block of C++ or
CMake names its file in a comment in front, `<!-- examples/guide.cpp -->`, and stands there line for
line, but for indentation. A line `// ...` (`# ...`) leaves something out."""
import re
import sys
import textwrap

import sources

GUIDES = ["README.md"]
GUIDES += [file for file in sources.files() if re.fullmatch(r"docs/guide/.*\.md", file)]
BLOCK = re.compile(
    r"^(?:<!-- (?P<file>\S+) -->\n)?```(?P<kind>cpp|cmake)\n(?P<code>.*?)^```$", re.M | re.S
)
GAP = re.compile(r"^ *(?://|#) \.\.\.$")


def parts_of(code):
    """The pieces between the gaps, each without its common indentation."""
    parts, part = [], []
    for line in [*code.rstrip("\n").split("\n"), "// ..."]:
        if GAP.match(line):
            piece = textwrap.dedent("\n".join(part)).strip("\n")
            parts += [piece.split("\n")] if piece.strip() else []
            part = []
        else:
            part.append(line)
    return parts


def find(part, lines, begin):
    """Where that piece ends in `lines`, from `begin` on; None when it is not there."""
    for at in range(begin, len(lines) - len(part) + 1):
        if textwrap.dedent("\n".join(lines[at : at + len(part)])).split("\n") == part:
            return at + len(part)
    return None


def check_block(where, name, code):
    if name is None:
        return [
            f"{where}: a block of code that does not say where it is from: <!-- FILE --> in the "
            f"line before it"
        ]
    if name not in sources.files():
        return [f"{where}: there is no {name}"]
    lines, at = sources.text(name).split("\n"), 0
    for part in parts_of(code):
        end = find(part, lines, at)
        if end is None:
            return [
                f"{where}: this is not in {name}{' after what stands before it' if at else ''}: "
                f"{part[0].strip()} ..."
            ]
        at = end
    return []


def main():
    problems, count = [], 0
    for guide in GUIDES:
        text = sources.text(guide)
        for block in BLOCK.finditer(text):
            count += 1
            where = f"{guide}:{text.count(chr(10), 0, block.start()) + 1}"
            problems += check_block(where, block["file"], block["code"])
    if not count:
        problems.append("no block of code found in README.md and docs/guide")
    sources.finish(
        problems,
        f"{count} blocks of code in {len(GUIDES)} pages are as in the programs that they are from",
    )


if __name__ == "__main__":
    sys.exit(main())
