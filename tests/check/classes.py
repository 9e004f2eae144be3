#!/usr/bin/python3 -B
"""Classes that are too large: members in more than two .cpp files, more than 25 functions, or more
than 15 data members.

It reads the sources of meshbus itself. Those that are too large today are in
tests/check/baseline/classes, which only shrinks (--shrink). A class whose comment has a line "Large
because: ..." is allowed. Functions that are defaulted or deleted, friends, types and static
constants do not count. --self-test proves that this check can fail."""
import re
import sys

import ratchet
import sources

AREAS = ("mesh/", "common/", "broker/", "agent/", "client/", "bench/", "cli/")
LIMITS = {"files": 2, "functions": 25, "data": 15}
NOISE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\b\d[\w.']*
                       |'(?:\\.|[^'\\\n])+'
                       |^[ \t]*\#(?:[^\n\\]|\\.)*""",
    re.S | re.M | re.X,
)
ACCESS = re.compile(r"\b(public|private|protected)\s*:(?!:)")
TYPE = re.compile(r"\b(class|struct|union)\s+([\w:]+)[^()=]*$")
QUALIFIED = re.compile(r"((?:\w+::)+)~?\w+\s*\(")


def blank(match):
    """As many lines and columns, but nothing to read; a literal stays a 0."""
    word = match.group(0)
    empty = re.sub(r"[^\n]", " ", word)
    return empty if word[0] in "/ \t#" else "0" + empty[1:]


def without_templates(head):
    """The head of a declaration without <...>, attributes, and the signs of operators."""
    head = re.sub(
        r"\boperator\s*(\(\s*\)|[^\s\w(]+|[\w:<> &*]+?)\s*\(", "operator_(", head
    ).replace("->", "  ")
    head = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^()]*\)", " ", head, flags=re.S)
    while (shorter := re.sub(r"<[^<>]*>", "", head)) != head:
        head = shorter
    return head


def outside_parentheses(head):
    while (shorter := re.sub(r"\([^()]*\)", "()", head)) != head:
        if shorter.count("(") == head.count("(") and len(shorter) == len(head):
            break
        head = shorter
    return head


def kind_of_member(head):
    """("functions" | "data" | None, how many)"""
    head = " ".join(without_templates(head).split())
    if head.startswith("template "):
        head = head[len("template ") :]
    if (
        not head
        or re.match(r"(friend|using|typedef|static_assert|enum)\b", head)
        or re.match(r"(class|struct|union) [\w:]+$", head)
    ):
        return None, 0
    plain = outside_parentheses(head)
    if re.search(r"=\s*(default|delete)$", plain):
        return None, 0
    before = plain.split("=")[0] if "operator_" not in plain else plain
    if re.search(r"[\w~]\s*\(", before) and not re.search(
        r"\(\s*[\w:]*\*", head.split("=")[0].split(")")[0]
    ):
        return "functions", 1
    if re.match(r"(inline )?(static )?constexpr\b|static (inline )?(const|constexpr)\b", plain):
        return None, 0
    return "data", 1 + plain.count(",")


class Parser:
    """One file: its classes with their figures, and which classes its functions belong to."""

    def __init__(self, path, text):
        self.path, self.lines = path, text.split("\n")
        self.text = ACCESS.sub(
            lambda match: ";" + " " * (len(match.group(0)) - 1), NOISE.sub(blank, text)
        )
        self.classes, self.owners = (
            {},
            [],
        )  # {name: {"functions", "data", "allowed"}}, [(namespace, owner as written)]

    def close(self, at):
        """The position behind the brace that ends what begins at `at`."""
        depth = 0
        for match in re.compile(r"[{}]").finditer(self.text, at):
            depth += 1 if match.group(0) == "{" else -1
            if depth == 0:
                return match.end()
        return len(self.text)

    def is_excused(self, position):
        line = self.text.count("\n", 0, position) - 1
        while line >= 0 and re.match(r"\s*(//|template\b|requires\b)", self.lines[line]):
            if "Large because: " in self.lines[line]:
                return True
            line -= 1
        return False

    def member(self, scope, head):
        kind, count = kind_of_member(head)
        if kind:
            self.classes[scope][kind] += count

    def parse(self):
        scopes = [("namespace", "")]
        start = at = depth = 0
        marks = re.compile(r"[{}();]")
        while match := marks.search(self.text, at):
            at, sign = match.end(), match.group(0)
            if sign in "()":
                depth += 1 if sign == "(" else -1
                continue
            if depth > 0:
                continue
            head, (kind, scope) = self.text[start : match.start()], scopes[-1]
            if sign == ";":
                if kind == "class":
                    self.member(scope, head)
                start = at
            elif sign == "}":
                if len(scopes) > 1:
                    scopes.pop()
                start = at
            elif re.search(r"\bnamespace\b[\w:\s]*$|\bextern\s+0\s*$", head):
                name = re.search(r"\bnamespace\s*([\w:]*)", head)
                name = (name.group(1) if name else "") or ("" if not name else f"({self.path})")
                scopes.append(("namespace", f"{scope}::{name}".strip(":") if name else scope))
                start = at
            else:
                start, at = self.brace(scopes, head, start, match.start())
        return self

    def brace(self, scopes, head, start, position):
        """What a brace at namespace or class scope opens: (where the next statement begins, where
        to go on)."""
        kind, scope = scopes[-1]
        bare = without_templates(head)
        plain = outside_parentheses(bare)
        named = TYPE.search(plain)
        if re.match(r"\s*(enum)\b", bare):
            return start, self.close(position)
        if named and "(" not in plain:
            special = " specialised" if re.search(r"template *<>", head) else ""
            name = f"{scope}::{named.group(2)}{special}".strip(":")
            begin = start + len(head) - len(head.lstrip())
            self.classes[name] = {"functions": 0, "data": 0, "allowed": self.is_excused(begin)}
            scopes.append(("class", name))
            return position + 1, position + 1
        if "(" not in plain or re.search(r"(?<![=!<>])=(?!=)", plain.split("operator_")[0]):
            return start, self.close(position)  # an initialiser: the statement goes on behind it
        has_list = re.search(r"\)[^:]*[^:]:[^:]", plain)
        if has_list and re.search(r"[\w>]\s*$", head):
            return start, self.close(position)  # a member's initialiser
        end = self.close(position)
        if kind == "class":
            self.member(scope, head)
        elif owner := QUALIFIED.search(bare):
            self.owners.append((scope, owner.group(1)[:-2]))
        return end, end


def survey(texts):
    """{class: {"files": N, "functions": N, "data": N, "allowed": bool}} of {path: text}."""
    parsed = [Parser(path, text).parse() for path, text in texts.items()]
    classes = {}
    for one in parsed:
        for name, figures in one.classes.items():
            entry = classes.setdefault(
                name, {"functions": 0, "data": 0, "allowed": False, "homes": set()}
            )
            for key in ("functions", "data"):
                entry[key] = max(entry[key], figures[key])
            entry["allowed"] |= figures["allowed"]
    for one in parsed:
        if not one.path.endswith(".cpp"):
            continue
        for scope, owner in one.owners:
            parts = scope.split("::") if scope else []
            for length in range(len(parts), -1, -1):
                name = "::".join(parts[:length] + [owner])
                if name in classes:
                    classes[name]["homes"].add(one.path)
                    break
    for entry in classes.values():
        entry["files"] = len(entry.pop("homes"))
    return classes


def offenders(classes):
    found = {}
    for name, figures in classes.items():
        over = {key: figures[key] for key, limit in LIMITS.items() if figures[key] > limit}
        if (
            over and not figures["allowed"] and " " not in name
        ):  # a specialisation has no name of its own
            found[name] = over
    return found


def explain(_, key):
    what = {
        "files": "one class, one .cpp",
        "functions": f"at most {LIMITS['functions']} functions",
        "data": f"at most {LIMITS['data']} data members",
    }[key]
    return (
        f"{what}; ask what second thing this class is, or say in its comment \"Large because: ...\""
    )


def self_test():
    ratchet.self_test()
    header = """namespace a {
/// Words.
class Big : public Base<int> {
 public:
  Big(int x);
  ~Big();
  Big(const Big&) = delete;
  std::function<void(int)> call() const { return [] { return 1; }; }
  bool operator==(const Big& other) const;
  static constexpr int kOne = 1'000;
  friend class Other;
  enum class E { x, y };
 private:
  struct Part { int a = 0, b{}; std::string text = "};"; };
  std::map<int, std::string> names_;  // { not a scope
  std::function<void(int)> then_ = [](int) { return; };
};
}"""
    bodies = {
        f"broker/{name}.cpp": f"namespace a {{ int Big::{name}(int x) {{ if (x) {{ f(); }} }} "
        "void Other::f() {} }"
        for name in "bcd"
    }
    bodies["broker/b.cpp"] += "\na::Big::Big(int x) : Base{x}, names_(x) { start(); }"
    found = survey({"broker/big.h": header, **bodies})
    big = found["a::Big"]
    assert (big["functions"], big["data"], big["files"], big["allowed"]) == (4, 2, 3, False), big
    assert found["a::Big::Part"]["data"] == 3, found
    assert offenders(found) == {"a::Big": {"files": 3}}, offenders(found)
    excused = header.replace("/// Words.", "/// Words.\n/// Large because: a test says so.")
    assert offenders(survey({"broker/big.h": excused, **bodies})) == {}
    many = "struct S {" + "".join(f" int m{n}; void f{n}() {{}}" for n in range(26)) + "};"
    assert offenders(survey({"broker/s.cpp": many})) == {"S": {"functions": 26, "data": 26}}
    print("    the check of classes can fail")


def main():
    if "--self-test" in sys.argv[1:]:
        return self_test()
    texts = {path: sources.text(path) for path in sources.cpp_files() if path.startswith(AREAS)}
    classes = survey(texts)
    header = (
        "Classes that are too large today. The list only shrinks: tests/check/classes.py --shrink"
    )
    found = offenders(classes)
    problems = ratchet.judge("classes", found, header, explain)
    if len(classes) < 100 or not any(figures["files"] for figures in classes.values()):
        problems.append(
            f"only {len(classes)} classes found in {len(texts)} files: this check does not see "
            f"them any more"
        )
    if "--list" in sys.argv[1:]:
        for name, figures in sorted(classes.items()):
            print(f"    {name}: {figures}")
    return sources.finish(
        problems, f"{len(classes)} classes; {len(found)} of them are too large, as before"
    )


if __name__ == "__main__":
    sys.exit(main())
