#!/usr/bin/env python3
"""Runs a benchmark of two builds in turns, and prints what of ours has changed.

    tests/bench/before_after.py OLD NEW [--rounds 7] -- rtt --sizes 64

OLD and NEW are folders of build/release: of a checkout of an older commit, and of this one. Each
round runs both, in changing order, so that what else the machine does meets both. Only sides that
both have are compared. The last column is the median of the ratios by round, and their range.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

Figures = dict[tuple[str, str, str], float]


def measure(build: pathlib.Path, words: list[str]) -> Figures:
    """The figures of one round: by size, side and name."""
    with tempfile.NamedTemporaryFile(suffix=".json") as results:
        done = subprocess.run([build / "bin" / "meshbus-bench", *words, "--rounds", "1", "--json",
                               results.name], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{build}: meshbus-bench {' '.join(words)} has failed:\n{done.stdout[-2000:]}"
                     f"{done.stderr[-2000:]}")
        report = json.loads(pathlib.Path(results.name).read_text(encoding="utf-8"))
    return {(f"{case['size']:g} {case['unit']}", side["name"], figure): value["median"]
            for case in report["cases"] for side in case["sides"]
            for figure, value in side["figures"].items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=pathlib.Path, help="build/release of the older commit")
    parser.add_argument("new", type=pathlib.Path, help="build/release of this one")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is run (7)")
    parser.add_argument("bench", nargs="+", help="after --: a benchmark and its arguments")
    given = parser.parse_args()
    rounds: list[tuple[Figures, Figures]] = []
    for number in range(given.rounds):
        order = (given.old, given.new) if number % 2 == 0 else (given.new, given.old)
        found = {build: measure(build, given.bench) for build in order}
        rounds.append((found[given.old], found[given.new]))
    print(f"{' '.join(given.bench)}: {given.rounds} rounds, medians")
    for key in rounds[0][0]:
        if any(key not in found or not found[key] for pair in rounds for found in pair):
            continue
        ratios = [new[key] / old[key] for old, new in rounds]
        old, new = (statistics.median(pair[side][key] for pair in rounds) for side in (0, 1))
        print(f"  {' '.join(key):44} {old:10.4g} -> {new:10.4g}  {statistics.median(ratios):6.3f}"
              f"  ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
