#!/usr/bin/python3 -B
"""Decision records are short and have one form: docs/decisions/NNNN-title.md, numbered without a
gap, a heading `# N. Title`, then the parts Context, Decision, Consequences and Alternatives, in
that order, at most 40 lines. `**Decision: links.**` is a part, too, when a record decides several
things. A record is superseded by a new one, not edited into a logbook; figures are in
docs/performance.md. --self-test proves that this check can fail."""
import re
import sys

import sources

FOLDER = "docs/decisions/"
PARTS = ["Context", "Decision", "Consequences", "Alternatives"]
LIMIT = 40
PART = re.compile(r"^\*\*(%s)(?:: [^*]+)?\.\*\*" % "|".join(PARTS), re.M)


def look_at(number, text):
    """What is wrong with the record of that number."""
    found = []
    lines = text.rstrip("\n").count("\n") + 1
    if lines > LIMIT:
        found.append(f"{lines} lines, at most {LIMIT}: move figures to docs/performance.md")
    if not text.startswith(f"# {number}. "):
        found.append(f"it does not begin with '# {number}. '")
    parts = []
    for part in PART.findall(text):
        if not parts or parts[-1] != part:
            parts.append(part)
    if parts != PARTS:
        found.append(f"its parts are {', '.join(parts) or 'none'}; wanted: {', '.join(PARTS)}")
    return found


def survey(records):
    """The problems of {path: text}."""
    problems = []
    for number, path in enumerate(sorted(records), 1):
        if not re.fullmatch(rf"{FOLDER}{number:04}-[a-z0-9-]+\.md", path):
            problems.append(f"{path}: the next record is {number:04}-title.md")
        problems += [f"{path}: {problem}" for problem in look_at(number, records[path])]
    return problems


def self_test():
    good = "# 1. A\n\n**Context.** B.\n**Decision: c.** D.\n**Decision: e.** F.\n"
    good += "**Consequences.** G.\n**Alternatives.** H.\n"
    path = FOLDER + "0001-a.md"
    assert survey({path: good}) == [], survey({path: good})
    for bad in (
        good.replace("# 1", "# 2"),
        good.replace("**Alternatives.**", "*Considered*:"),
        good.replace("**Context.**", "**Consequences.**"),
        good + "more\n" * LIMIT,
    ):
        assert len(survey({path: bad})) == 1, bad
    assert len(survey({FOLDER + "0003-a.md": good})) == 1
    print("    the check of decisions can fail")


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    paths = [path for path in sources.files() if path.startswith(FOLDER)]
    problems = survey({path: sources.text(path) for path in paths})
    if not paths:
        problems = [f"there are no records in {FOLDER}"]
    return sources.finish(problems, f"{len(paths)} records of at most {LIMIT} lines, in one form")


if __name__ == "__main__":
    sys.exit(main())
