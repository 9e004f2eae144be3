#!/usr/bin/python3 -B
"""Comments are plain English, and lines are short.

It counts, for each file: comments that begin with Of, That, Who or Whoever (`begins`); a "who",
"whoever" or "he" for anything but a person (`who`); lines of code of more than 100 columns, and
lines of Markdown of more than 120 that are no single sentence, table or link (`columns`). What is
left of old ones is counted in tests/check/baseline/english, which only shrinks (--shrink). --where
FILE... shows the lines. --self-test proves that this check can fail."""
import io
import re
import sys
import tokenize

import ratchet
import sources
import texts

PERSON = (
    r"(?:people|persons?|users?|operators?|administrators?|admins?|readers?|developers?|authors?"
    r"|humans?|owner of the account)"
)
BEGINS = re.compile(r"(Of|That|Who|Whoever)\b")
WHO = re.compile(r"\b(who|whoever|he)\b", re.I)
HEADED = re.compile(PERSON + r"\b,?\s+$", re.I)
CPP = re.compile(
    r"""(?P<comment>//[^\n]*)|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"
                     |\b\d[\w.']*
                     |'(?:\\.|[^'\\\n])+'""",
    re.S | re.X,
)
# "* *Order.* " at the begin of a line
LABEL = re.compile(r"^\s*(?:(?:[-*]|\d+\.)\s+)?(?:(\*{1,2})[^*]+\1[.:]?\s+)?")
SENTENCE_END = re.compile(r"[.!?][)*\"”]*\s+[A-Z*`(\"“]")
SHELL = re.compile(r"(?:^|(?<=\s))#(?![!(])[^\n]*", re.M)
WHAT = {
    "begins": "no comment begins with Of, That, Who or Whoever: give the sentence a subject",
    "who": "name the role (sender, peer, host, proc, caller) instead of who, whoever or he",
    "columns": "at most 100 columns (CMake: 120; Markdown: one sentence a line, or 120)",
}


def comments(kind, text):
    """[(line, column, words, whether it is alone on its line)] of each comment line."""
    found = []
    if kind in (".h", ".cpp", ".fbs"):
        places = [
            (match.start(), match.group("comment"))
            for match in CPP.finditer(text)
            if match.group("comment")
        ]
    elif kind == ".py":
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        places = [
            (starts[token.start[0] - 1] + token.start[1], token.string)
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT
        ]
    else:
        places = [(match.start(), match.group(0)) for match in SHELL.finditer(text)]
    line = last = 0
    for position, comment in places:
        line += text.count("\n", last, position)
        last = position
        begin = text.rfind("\n", 0, position) + 1
        words = re.sub(r"^(//[/!]?<?|#+)\s*", "", comment)
        found.append((line + 1, position - begin, words, not text[begin:position].strip()))
    return found


def blocks(found):
    """Comment lines that belong together: [[(line, words)]]."""
    together, before = [], None
    for line, column, words, alone in found:
        if alone and before and before[0] == line - 1 and before[1] == column and words:
            together[-1].append((line, words))
        else:
            together.append([(line, words)])
        before = (line, column)
    return together


def of_comments(kind, text):
    """[(line, "begins" | "who")]"""
    found = []
    for block in blocks(comments(kind, text)):
        if BEGINS.match(block[0][1]):
            found.append((block[0][0], "begins"))
        whole, lines = "", []
        for line, words in block:
            lines += [line] * (len(words) + 1)
            whole += words + " "
        quiet = re.sub(r'"[^"]*"|`[^`]*`', lambda match: "." * len(match.group(0)), whole)
        found += [
            (lines[match.start()], "who")
            for match in WHO.finditer(quiet)
            if not HEADED.search(quiet[: match.start()])
        ]
    return found


def of_columns(kind, text):
    limit, fenced, found = (120 if kind in (".md", ".cmake") else 100), False, []
    for number, line in enumerate(text.split("\n"), 1):
        if kind == ".md":
            if line.lstrip().startswith("```"):
                fenced = not fenced
            sentences = len(SENTENCE_END.findall(LABEL.sub("", line)))
            is_free = (
                line.lstrip().startswith("|")
                or re.match(r"^\s*(?:[-*>]\s*)?\[?\S+$", line)
                or sentences == 0
            )
            if not fenced and is_free:
                continue
        if len(line) > limit and not re.match(r"^\s*(//+|#+)?\s*\S*://\S+$", line):
            found.append((number, "columns"))
    return found


def look_at(path, text):
    kind = ".py" if path.endswith(".py") else texts.kind_of(path)
    if kind == ".txt" and path.endswith("CMakeLists.txt"):
        kind = ".cmake"
    if kind == ".md":
        return of_columns(kind, text)
    if kind in (".h", ".cpp", ".fbs", ".py", ".cmake", ".sh"):
        return sorted(of_comments(kind, text) + of_columns(kind, text))
    return []


def survey(paths):
    found = {}
    for path in paths:
        # What was released never changes: golden bytes, and the schemas of each release.
        if (
            " " not in path
            and not path.startswith("tests/golden/")
            and not re.match(r"schemas/released/\d", path)
        ):
            try:
                text = sources.text(path)
            except UnicodeDecodeError:
                continue
            for _, key in look_at(path, text):
                figures = found.setdefault(path, {})
                figures[key] = figures.get(key, 0) + 1
    return found


def self_test():
    ratchet.self_test()
    bad = """// Of what this is.
int a;  // a peer that waits
/// Tells
/// who asked, and an operator who types. "who" and `who` are words.
const char* text = "// Who";  // Whoever: he ends
int b = 1'000;  // That one
"""
    assert look_at("a/b.h", bad) == [
        (1, "begins"),
        (4, "who"),
        (5, "begins"),
        (5, "who"),
        (5, "who"),
        (6, "begins"),
    ], look_at("a/b.h", bad)
    assert look_at("a.py", "x = '# Of'  # Who\n") == [(1, "begins"), (1, "who")]
    assert look_at("a.cmake", 'set(a "b")\n# That which\n') == [(2, "begins")]
    assert look_at("a.cpp", "int x;" + " " * 94 + "\n" + "int y;" + " " * 95 + "\n") == [
        (2, "columns")
    ]
    long = "A sentence of words " + "and more words " * 8
    page = f"{long}ends.\n{long}ends. Another one.\n| {long}. B |\n* *A label.* {long}ends.\n"
    assert look_at("a.md", page) == [(2, "columns")]
    print("    the check of English can fail")


def explain(path, key):
    return f"{WHAT[key]} (tests/check/english.py --where {path})"


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    if "--where" in sys.argv[1:]:
        for path in sys.argv[sys.argv.index("--where") + 1 :]:
            lines = sources.text(path).split("\n")
            for number, key in look_at(path, sources.text(path)):
                print(f"{path}:{number}: {key}: {lines[number - 1].strip()}")
        return 0
    found = survey(sources.files())
    header = "Old English and long lines. The counts only shrink: tests/check/english.py --shrink"
    problems = ratchet.judge("english", found, header, explain)
    return sources.finish(
        problems,
        f"no new ones; {sum(sum(figures.values()) for figures in found.values())} are left in "
        f"{len(found)} files",
    )


if __name__ == "__main__":
    sys.exit(main())
