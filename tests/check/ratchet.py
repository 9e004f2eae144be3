"""A baseline that only shrinks: today's offenders with their figures, one a line ("NAME figure=N
figure=N"), in tests/check/baseline.

A check compares what it finds with its baseline. It fails on new offenders, on figures that grew,
and on lines that are no longer true: --shrink brings the file up to date, and refuses to raise a
figure."""
import os
import sys

import sources

FOLDER = os.path.join(sources.ROOT, "tests/check/baseline")


def parse(text):
    """{name: {figure: count}}"""
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {
        name: {key: int(value) for key, value in (word.split("=") for word in words)}
        for name, *words in lines
    }


def render(found, header):
    lines = [
        " ".join([name] + [f"{key}={value}" for key, value in sorted(figures.items())])
        for name, figures in sorted(found.items())
    ]
    return "".join(f"{line}\n" for line in [f"# {header}"] + lines)


def compare(found, allowed):
    """(what grew or is new, what is no longer true), each a list of (name, figure, now, in the
    baseline)."""
    grown, stale = [], []
    for name in sorted(set(found) | set(allowed)):
        now, then = found.get(name, {}), allowed.get(name, {})
        for key in sorted(set(now) | set(then)):
            row = (name, key, now.get(key, 0), then.get(key, 0))
            if row[2] > row[3]:
                grown.append(row)
            elif row[2] < row[3]:
                stale.append(row)
    return grown, stale


def judge(check, found, header, explain):
    """The problems of `found` ({name: {figure: count}}); with --shrink writes the baseline first.
    explain(name, figure) -> what to do."""
    path = os.path.join(FOLDER, check)
    exists = os.path.isfile(path)
    allowed = {}
    if exists:
        with open(path, encoding="utf-8") as file:
            allowed = parse(file.read())
    grown, stale = compare(found, allowed)
    if "--shrink" in sys.argv[1:]:
        if exists and grown:
            print(f"    tests/check/baseline/{check} stays as it is: --shrink raises no figure")
        else:
            os.makedirs(FOLDER, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(render(found, header))
            grown, stale = [], []
    problems = [
        f"{name}: {key} {now}, {f'allowed {then}' if then else 'none allowed'}: "
        f"{explain(name, key)}"
        for name, key, now, then in grown
    ]
    problems += [
        f"{name}: {key} {now}, the baseline says {then}: lower it by tests/check/{check}.py "
        f"--shrink"
        for name, key, now, then in stale
    ]
    return problems


def self_test():
    text = "# words\na x=1 y=2\nb x=3\n"
    allowed = parse(text)
    assert allowed == {"a": {"x": 1, "y": 2}, "b": {"x": 3}} and render(allowed, "words") == text
    assert compare(allowed, allowed) == ([], [])
    assert compare({"a": {"x": 2}, "c": {"x": 1}}, allowed) == (
        [("a", "x", 2, 1), ("c", "x", 1, 0)],
        [("a", "y", 0, 2), ("b", "x", 0, 3)],
    )
