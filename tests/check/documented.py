#!/usr/bin/python3 -B
"""Every declaration in the public headers has a documentation comment: `///` in front of it or
`///<` behind it.

A comment in front of a function also speaks for the functions that follow it without an empty line:
overloads, and pairs like range() and at(). What means the same everywhere needs no words: operators
(but the call operator), copying, moving, destructors, what is defaulted or deleted, friends,
forward declarations, specialisations, and the names that the standard library asks for (begin,
value_type, ...)."""
import re
import sys

import sources

STANDARD = {
    "begin",
    "end",
    "cbegin",
    "cend",
    "value_type",
    "difference_type",
    "reference",
    "pointer",
    "iterator",
    "const_iterator",
    "iterator_category",
    "iterator_concept",
    "size_type",
    "swap",
    "format",
}
OPERATOR = re.compile(r"\boperator\s*(?!\(\s*\)|\s*\(\))\S")
TYPE = re.compile(
    r"^(?:template\s*<.*>\s*)?(class|struct|union|enum(?:\s+class|\s+struct)?)\b(?!.*\()", re.S
)


def is_assigned(words):
    """Whether a value follows: an equals sign outside of parentheses."""
    words = re.sub(r"operator\S+", "", words)
    while "(" in words and (inner := re.sub(r"\([^()]*\)", "", words)) != words:
        words = inner
    return "=" in words


class Declaration:
    def __init__(self, header, scope, text, first, last):
        self.header, self.scope, self.text, self.first, self.last = (
            header,
            scope,
            " ".join(text.split()),
            first,
            last,
        )

    @property
    def is_function(self):
        head = re.sub(
            r"<[^<>]*>", "", self.text.split("=")[0] if "operator" not in self.text else self.text
        )
        return "(" in head and not TYPE.match(self.text) and not self.text.startswith("using ")

    @property
    def name(self):
        text = re.sub(r"\[\[.*?\]\]|\balignas\([^)]*\)", "", self.text)
        if match := re.match(r"using\s+(\w+)\s*=", text):
            return match.group(1)
        if TYPE.match(text):
            return re.sub(
                r"^.*?\b(?:class|struct|union|enum)\s+(?:class\s+|struct\s+)?([\w:]+).*$",
                r"\1",
                text,
                flags=re.S,
            )
        if self.is_function:
            while re.search(r"<[^<>()]*>", text):
                text = re.sub(r"<[^<>()]*>", "", text)
            match = re.search(r"(~?\w+)\s*\(", text)
            return match.group(1) if match else text
        match = re.search(r"(\w+)\s*(\[[^\]]*\])?\s*(=.*|\{.*)?$", text, re.S)
        return match.group(1) if match else text

    def needs_words(self):
        text, name = self.text, self.name
        if re.match(
            r"(friend|static_assert|public|template\s*<>|extern template|namespace)\b", text
        ) or text.startswith("template <>"):
            return False
        if (
            re.match(r"(template <[^<>]*> )?(class|struct|enum class) \w+( : [\w:]+)?$", text)
            and not self.has_body
        ):
            return False  # a forward declaration
        if name in STANDARD or OPERATOR.search(text) or name.startswith("~"):
            return False
        if (
            not self.scope
            and self.is_function
            and re.search(r"\w(<[^<>]*>)?::~?\w+ ?\(", text.split("->")[0])
        ):
            return False  # the body of what a class has declared
        if re.search(r"=\s*(default|delete)$", text):
            return False
        # Copying and moving: X(X&&), X(const X&).
        return not re.match(
            rf"(explicit )?{re.escape(name)}\((const )?{re.escape(name)}(<.*>)?&&?( \w+)?\)", text
        )

    has_body = False


def declarations(header):
    """What is declared at namespace scope and in the public and protected parts of classes, in
    order; enumerators too."""
    text = sources.text(header)
    found, scopes = [], [{"kind": "namespace", "name": "", "visible": True}]
    at, line, start, words, depth = 0, 1, None, "", 0

    def finish(last, has_body=False):
        nonlocal words, start
        stripped = words.strip()
        if stripped and scopes[-1]["visible"]:
            one = Declaration(header, scopes[-1]["name"], stripped, start, last)
            one.has_body = has_body
            found.append(one)
        words, start = "", None

    while at < len(text):
        c = text[at]
        if c == "\n":
            line += 1
            words += " " if words else ""
            at += 1
        elif text.startswith("//", at):
            at = text.find("\n", at)
        elif text.startswith("/*", at):
            end = text.index("*/", at) + 2
            line += text.count("\n", at, end)
            at = end
        elif c == "#" and not words.strip():
            while True:
                end = text.find("\n", at)
                line, at = line + 1, end + 1
                if text[end - 1] != "\\":
                    break
        elif c == '"' or (c == "'" and not (at and text[at - 1].isalnum())):
            end = at + 1
            while text[end] != c:
                end += 2 if text[end] == "\\" else 1
            words, at = words + text[at : end + 1], end + 1
        elif depth == 0 and c == "{":
            kind = None
            if re.match(r"\s*(inline\s+)?(namespace\b|extern\s+\"C\")", words):
                kind = "namespace"
            elif TYPE.match(words.strip()) and "=" not in re.sub(r"<[^<>]*>", "", words):
                kind = (
                    "enum"
                    if re.search(r"\benum\b", words)
                    else "class"
                    if re.match(r".*\bclass\b", words.strip(), re.S)
                    and not re.search(r"\bstruct\b", words)
                    else "struct"
                )
            if kind:
                visible = scopes[-1]["visible"] and not words.strip().startswith("template <>")
                name = ""
                if kind != "namespace":
                    probe = Declaration(header, "", words, start or line, line)
                    name = probe.name
                    finish(line, True)
                else:
                    words, start = "", None
                scopes.append(
                    {
                        "kind": kind,
                        "name": name,
                        "visible": visible and kind != "class",
                        "outer": visible,
                    }
                )
                at += 1
                continue
            # A body, or an initialiser: to its end.
            level, end = 0, at
            while True:
                if text[end] == "{":
                    level += 1
                elif text[end] == "}":
                    level -= 1
                    if level == 0:
                        break
                elif text[end] == "\n":
                    line += 1
                elif text.startswith("//", end):
                    end = text.find("\n", end) - 1
                end += 1
            at = end + 1
            following = re.match(r"\s*([;,{=])?", text[at:]).group(1)
            if following is None and not is_assigned(words):
                finish(line, True)
        elif depth == 0 and c == "}":
            finish(line)
            scopes.pop()
            at += 1
            if match := re.match(r"\s*;", text[at:]):
                at += match.end()
        elif depth == 0 and (c == ";" or (c == "," and scopes[-1]["kind"] == "enum")):
            finish(line)
            at += 1
        elif depth == 0 and c == ":" and re.match(r"\s*(public|private|protected)\s*$", words):
            scopes[-1]["visible"] = scopes[-1]["outer"] and "private" not in words
            words, start = "", None
            at += 1
        else:
            depth += (c in "([") - (c in ")]")
            if start is None and not c.isspace():
                start = line
            words += c if start is not None else ""
            at += 1
    return found


def undocumented(header):
    lines = sources.text(header).split("\n")
    documented_to, problems = (
        None,
        [],
    )  # the last line of a function that has words, its own or its group's
    for one in declarations(header):
        above = one.first - 2
        while above >= 0 and re.match(r"\s*(template <|requires )", lines[above]):
            above -= 1
        has_words = lines[above].lstrip().startswith("///") and not lines[
            above
        ].lstrip().startswith("///<")
        has_words = has_words or "///<" in lines[one.last - 1]
        if not has_words and one.is_function and documented_to is not None:
            has_words = all(lines[i].strip() for i in range(documented_to, one.first - 1))
        documented_to = one.last if has_words and one.is_function else None
        if not has_words and one.needs_words():
            where = f"{one.scope}::" if one.scope else ""
            problems.append(
                f"{header}:{one.first}: {where}{one.name} has no documentation comment: "
                f"{one.text[:80]}"
            )
        elif not has_words and one.is_function:
            documented_to = None
    return problems


def main():
    headers = sources.public_headers()
    count = sum(1 for header in headers for one in declarations(header) if one.needs_words())
    problems = [problem for header in headers for problem in undocumented(header)]
    if count < 100:
        problems.append(
            f"only {count} declarations found in {len(headers)} public headers: this check does "
            f"not see them any more"
        )
    sources.finish(
        problems,
        f"{count} declarations in {len(headers)} public headers have documentation comments",
    )


if __name__ == "__main__":
    sys.exit(main())
