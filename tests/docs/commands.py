#!/usr/bin/python3 -B
"""Every `meshbus ...` in a block or a quoted word of README.md and docs/ is a command that there
is, with flags that it takes: by docs/reference/commands.md, which is what the program prints."""
import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BLOCK = re.compile(r"^```(?:sh|console|text|)\n(.*?)^```", re.M | re.S)
QUOTED = re.compile(r"`(meshbus [^`\n]+)`")
BEFORE = r"(?:^|[|;&(]|\$ |\$\(| -- |exec |rm (?:-T )?launcher )"
COMMAND = re.compile(BEFORE + r"\s*(?:sudo (?:-u \S+ )?)?(?:[A-Z_]+=\S+ )*(meshbus [^|;&)]+)")


def known():
    """{words of a command: its flags}"""
    text = (ROOT / "docs/reference/commands.md").read_text()
    parts = re.findall(r"^## (meshbus.*?)\n\n```text\n(.*?)^```", text, re.M | re.S)
    return {name: set(re.findall(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", page)) for name, page in parts}


def problem_of(command, commands):
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        words = command.split()
    if len(words) < 2 or words[1].startswith("-") or not re.fullmatch(r"[a-z]+", words[1]):
        return ""
    name = f"meshbus {words[1]}"
    if name not in commands:
        return f"there is no {name}"
    rest = words[2:]
    if rest and f"{name} {rest[0]}" in commands:
        name, rest = f"{name} {rest[0]}", rest[1:]
    flags = commands[name]
    for word in rest:
        if word == "--":
            break
        flag = word.split("=")[0]
        if re.fullmatch(r"--[a-z][a-z-]*", flag) and flag not in flags:
            return f"{name} has no {flag}"
    return ""


def main():
    commands, problems, count = known(), [], 0
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        if page.name == "commands.md" or "decisions" in page.parts:
            continue
        text = page.read_text(encoding="utf-8")
        lines = [line for block in BLOCK.findall(text)
                 for line in re.sub(r"\\\n\s*", " ", block).split("\n")]
        found = [match[1] for line in lines for match in COMMAND.finditer(line)]
        # A flag in quotes may stand for many: `meshbus run --mpi=...`.
        found += [word for word in QUOTED.findall(BLOCK.sub("", text))]
        for command in found:
            count += 1
            if what := problem_of(command, commands):
                problems.append(f"{page.relative_to(ROOT)}: {what}: {command.strip()}")
    for line in problems:
        print("    " + line)
    if not problems:
        print(f"    {count} commands in {len(pages)} pages are as the program has them")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())
