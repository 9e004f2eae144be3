#!/usr/bin/python3 -B
"""Writes the tables of README.md and docs/performance.md that come from docs/benchmarks.

    measured.py           writes them
    measured.py --check   writes nothing; fails, and names the pages that are out of date

A page has <!-- measured: NAME --> where the table NAME begins, and <!-- end --> behind it.
`./dev bench NAME --json docs/benchmarks/NAME.json` measures again.
"""
import argparse
import json
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = ("README.md", "docs/performance.md")
BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

BARE = "NATS on a bare socket"
SENDS = ((64, "64 B"), (1024, "1 KiB"), (65536, "64 KiB"), (1000000, "1 MB"))

# README has three rows of all those.
IN_README = ("`Proc::call`, 64 B there and back", "`Proc::send`, 64 B", "`Proc::send`, 64 KiB")


class Bench:
    """What one file of docs/benchmarks holds."""

    def __init__(self, name):
        path = ROOT / f"docs/benchmarks/{name}.json"
        self.data = json.loads(path.read_text(encoding="utf-8"))

    def figure(self, size, unit, side, figure):
        for case in self.data["cases"]:
            if case["size"] == size and case["unit"] == unit:
                for one in case["sides"]:
                    if one["name"] == side:
                        return one["figures"][figure]
        raise KeyError(f"{self.data['bench']} has no {figure} of {side}, {size} {unit}")

    def conditions(self):
        data = self.data
        where = "on one CPU" if data["pinned_to_cpu"] is not None else "on both CPUs"
        load = data["machine"]
        return (f"`{data['command']}`, {data['date']}, {where}, {data['rounds']} rounds in turns,"
                f" load average {load['load_before']:.1f} to {load['load_after']:.1f}")


def shown(value, figure):
    """In the unit that people use for it."""
    if figure.endswith("_us"):
        return f"{value:.1f} µs" if value < 100 else f"{value:.0f} µs"
    if figure == "mb_per_s":
        return f"{value / 1000:.2f} GB/s" if value >= 1000 else f"{value:.0f} MB/s"
    if value >= 1e6:
        return f"{value / 1e6:.2f} M/s"
    return f"{value / 1e3:.0f} k/s" if value >= 1e4 else f"{value / 1e3:.1f} k/s"


def beside(ours, other):
    """The ratio of the medians, and its smallest and largest value by round."""
    ratios = [mine / theirs for mine, theirs in zip(ours["by_round"], other["by_round"])]
    ratio = statistics.median(ours["by_round"]) / statistics.median(other["by_round"])
    return f"{ratio:.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def table(head, rows):
    lines = ["|" + "---|" * len(head)] + ["| " + " | ".join(row) + " |" for row in rows]
    return "| " + " | ".join(head) + " |\n" + "".join(line + "\n" for line in lines)


def public_rows():
    """Of each way to send: its name, size and unit, side, figure, and the NATS beside it."""
    calls = (64, "B there and back")
    far = (64, "B there and back, two hosts")
    yield "`Proc::call`, 64 B there and back", calls, "proc-call", "p50_us", "nats"
    yield "the same through the broker", calls, "proc-call-broker", "p50_us", "nats"
    yield "`Context::call` of a launcher", calls, "context-call", "p50_us", "nats"
    yield "`ActorMesh::call` of a launcher", calls, "context-actor", "p50_us", "nats"
    yield ("`Proc::call` between two hosts, beside two clustered servers", far, "proc-call-far",
           "p50_us", "two nats")
    yield "the same, beside one server", far, "proc-call-far", "p50_us", "nats"
    for size, text in SENDS:
        figure = "per_s" if size < 65536 else "mb_per_s"
        sends = (size, "B in one direction")
        yield f"`Proc::send`, {text}", sends, "proc-send", figure, "nats"
        if size == 65536:
            yield "the same through the broker", sends, "proc-send-broker", figure, "nats"
    yield ("`Context::send` of a launcher, 64 B", (64, "B in one direction"), "context-send",
           "per_s", "nats")


def public():
    """README's: what a program gets, beside NATS."""
    bench = Bench("public")
    rows = []
    for way, case, side, figure, peer in public_rows():
        if way not in IN_README:
            continue
        ours, nats = (bench.figure(*case, name, figure) for name in (side, f"{peer} bare"))
        rows.append([way, shown(ours["median"], figure), shown(nats["median"], figure),
                     beside(ours, nats) + (" of the time" if figure == "p50_us" else "")])
    return table(["", "meshbus", BARE, "ratio (by round)"], rows)


def public_all(name, where):
    """All rows, beside the bus inside and NATS."""
    bench = Bench(name)
    rows = []
    for way, case, side, figure, peer in public_rows():
        ours, *others = (bench.figure(*case, one, figure)
                         for one in (side, "internal", f"{peer} bare", f"{peer} library"))
        rows.append([way + (" (time)" if figure == "p50_us" else ""),
                     shown(ours["median"], figure), *(beside(ours, one) for one in others)])
    head = ["public API", where, "beside the bus inside", "NATS on a bare socket",
            "NATS by its C library"]
    return "\n" + table(head, rows) + f"\n{bench.conditions()}.\n"


def public_pinned():
    return public_all("public", "one CPU")


def public_free():
    return public_all("public_free", "two CPUs")


def large():
    """Bodies of 64 MiB."""
    bench = Bench("large")
    rows = []
    for way, unit, side, floor, what in (
            ("between two procs of one host, filled in place (`SharedBody::make`)",
             "B between two procs of one host", "made", "memcpy", "`memcpy` (bar 0.6)"),
            ("the same, copied by the sender", "B between two procs of one host", "copied",
             "memcpy", "`memcpy`"),
            ("between two hosts", "B between two hosts", "far", "tcp", "a tcp stream (bar 0.9)")):
        ours, beneath = (bench.figure(67108864, unit, name, "mb_per_s") for name in (side, floor))
        rows.append([way, shown(ours["median"], "mb_per_s"), shown(beneath["median"], "mb_per_s"),
                     f"{beside(ours, beneath)} × {what}"])
    return "\n" + table(["64 MiB", "meshbus", "floor", "ratio (by round)"], rows) + \
        f"\n{bench.conditions()}.\n"


TABLES = {"public": public, "public_pinned": public_pinned, "public_free": public_free,
          "large": large}


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale, made = [], 0
    for page in PAGES:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        written = BLOCK.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)
        made += len(BLOCK.findall(text))
        if written == text:
            continue
        stale.append(page)
        if not check:
            path.write_text(written, encoding="utf-8")
    if check and stale:
        sys.exit("\n".join(f"    {page} is not what docs/benchmarks says: tests/docs/measured.py"
                           for page in stale))
    print(f"    {made} tables come from docs/benchmarks"
          + (f"; written: {', '.join(stale)}" if stale else ""))


if __name__ == "__main__":
    main()
