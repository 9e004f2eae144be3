#!/usr/bin/python3 -B
"""tests/docs/links.py [FOLDER]: every relative link in README.md, CONTRIBUTING.md and docs/ below
that folder (default: the source tree) leads to a file that is there, and to a heading that it
has."""
import pathlib
import re
import sys

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```", re.M | re.S)


def anchors_of(text):
    """What GitHub and mkdocs call the headings."""
    names = set()
    for heading in re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", text), re.M):
        plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).lower()
        names.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return names


def main():
    default = pathlib.Path(__file__).resolve().parent.parent.parent
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else default
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    texts = {page: page.read_text(encoding="utf-8") for page in pages}
    broken, count = [], 0
    for page, text in texts.items():
        plain = FENCE.sub(lambda block: re.sub(r"[^\n]", "", block[0]), text)
        for link in LINK.finditer(plain):
            target = link[1] or link[2]
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            path, _, anchor = target.partition("#")
            where = f"{page.relative_to(root)}:{plain.count(chr(10), 0, link.start()) + 1}"
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                broken.append(f"{where}: there is no {target}")
            elif anchor and file in texts and anchor not in anchors_of(texts[file]):
                broken.append(f"{where}: {path or 'this page'} has no heading #{anchor}")
    for line in broken:
        print("    " + line)
    if not broken:
        print(f"    {count} links in {len(pages)} pages lead somewhere")
    return 1 if broken or not count else 0


if __name__ == "__main__":
    sys.exit(main())
