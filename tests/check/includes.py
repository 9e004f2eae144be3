#!/usr/bin/python3 -B
"""Dependencies point one way (docs/architecture.md): which area may include which, checked from the
sources.

No two areas include each other, directly or through others. `above(...)` builds such stairs: each
area may include those below it. Headers in include/meshbus are public: every area that may include
their library sees them. tests/conformance sees public headers only. """
import os
import re

import sources

COMMON = [
    "common/base",
    "common/loop",
    "common/wire",
    "common/address",
    "common/zmtp",
    "common/bus",
    "common/config",
    "common/security",
    "common/http",
]
BROKER = [
    "broker/peers",
    "broker/access",
    "broker/transport",
    "broker/observe",
    "broker/links",
    "broker/casts",
    "broker/router",
    "broker",
]
HOST = [
    "agent/host/streams",
    "agent/host/model",
    "agent/host/records",
    "agent/host/output",
    "agent/host/lifecycle",
    "agent/host/liveness",
    "agent/host/ownership",
    "agent/host/recovery",
    "agent/host/procs",
    "agent/host/hands",
    "agent/host/updates",
    "agent/host/replies",
    "agent/host/services",
    "agent/host",
]

CLIENT = [
    "client/src/base",
    "client/src/restart",
    "client/src/gateway",
    "client/src/monitors",
    "client/src/context",
    "client/src/launch",
    "client/src/host_mesh",
    "client/src/proc_mesh",
    "client/src/mpi",
    "client/src/hands",
    "client/src/actors",
    "client/src/allocate",
    "client/src/stacks",
    "client/src/site",
]
CLI = [
    "cli/support",
    "cli/keys",
    "cli/tap",
    "cli/mesh",
    "cli/watch",
    "cli/hands",
    "cli/top",
    "cli/hosts",
    "cli/doctor",
    "cli/run",
    "cli",
]


def above(ground, *stairs):
    """{area: what it may include}: `ground`, and every stair below."""
    return {area: set(ground) | set(stairs[:step]) for step, area in enumerate(stairs)}


# Area: the areas it may include. The area of a file is the longest of these that its path begins
# with. `wire` is what the schemas become.
MAY = {
    "mesh": set(),
    "common/include": {"mesh"},
    **above({"mesh", "wire", "common/include"}, *COMMON),
    **above({"mesh", "wire", "common/include", *COMMON}, *BROKER),
    **above({"mesh", "common/include", "common/base", "common/loop"}, "agent/os", "agent/keeper"),
    "agent/warden": {"agent/os", "common/base", "common/include", "mesh"},
    **above(
        {"agent/os", "agent/keeper", "agent/topology", "mesh", "wire", "common/include", *COMMON},
        *HOST,
    ),
    **above(
        {"mesh", "wire", "common/include", *COMMON},
        "agent/proc/include",
        "agent/proc/loop",
        "agent/proc/actors",
        "agent/proc/runtime",
        "agent/proc",
    ),
    "agent/metrics": {"agent/os", "mesh", "wire", "common/include", *COMMON},
    "agent/mpi": {"agent/os", "agent/proc/include", "mesh", "common/include", *COMMON},
    "common/files": {"common/base", "common/include", "mesh"},
    "agent/hands": {"agent/os", "common/base", "common/files", "common/include", "mesh"},
    "agent/stacks": {"common/base", "common/include", "mesh", "wire"},
    "agent/topology": {"agent/os", "common/base", "common/include", "mesh"},
    "agent/torch": {"common/base", "common/include", "mesh"},
    "client/include": {"mesh", "common/include"},
    **above({"client/include", "mesh", "wire", "common/include", *COMMON}, *CLIENT),
    "client": {"client/include", "mesh", "wire", "common/include", *COMMON, *CLIENT},
    "client/local": {
        "agent/os",
        "agent/keeper",
        "agent/proc/include",
        "agent/proc/runtime",
        "agent/proc",
        "client/include",
        *CLIENT,
        "mesh",
        "common/include",
        *COMMON,
    },
    "client/python": {"client/include", "agent/proc/include", "mesh", "common/include"},
    "bench": {"client/include", "mesh", "wire", "common/include", *COMMON},
    **above(
        {
            "bench",
            "agent/proc/include",
            "client",
            "client/include",
            *CLIENT,
            "mesh",
            "wire",
            "common/include",
            "common/files",
            *COMMON,
        },
        *CLI,
    ),
    "examples": set(),
}
# The narrow headers: the only ones of these areas that the area on the left may include besides.
NARROW = {
    "agent/proc": {"agent/os/process_link.h"},
    "agent/proc/runtime": {"agent/os/process_link.h"},
    "broker": {
        "agent/os/daemon_protection.h",
        "agent/os/lifeline.h",
        "agent/os/warden_end.h",
    },
    "client/src/launch": {"agent/warden/warden.h"},
    "client/src/proc_mesh": {"agent/os/process_link.h"},
    "cli/support": {"agent/warden/warden.h"},
    "cli/keys": {"agent/warden/warden.h"},
    "cli/hosts": {"agent/warden/warden.h"},
    "cli/doctor": {"agent/warden/run_dir.h", "agent/os/cgroup_placement.h"},
    "cli/run": {"agent/os/cgroup_placement.h"},
    "client/local": {"broker/broker.h", "agent/host/host_agent.h"},
}
# Whose closure of includes stays free of every library: the processes that everything hangs on
# stay tiny, and mesh is pure algebra.
BARE = ("mesh", "agent/os", "agent/keeper", "agent/warden")
LIBRARY = re.compile(
    r"^(zmq(_addon)?\.hp?p?$|wire/|flatbuffers/|Poco/|spdlog/|fmt/|CLI/|nlohmann/"
    r"|prometheus/|pybind11/)"
)
# Slow to compile: they stay in .cpp files.
HEAVY = re.compile(r"^(CLI/|nlohmann/(?!json_fwd\.hpp$)|spdlog/|fmt/|toml\+\+/|Poco/|pybind11/)")


def area_of(path):
    fitting = [area for area in MAY if path.startswith(area + "/")]
    return max(fitting, key=len) if fitting else None


def chain(path, target):
    """ "a.h -> b.h -> zmq.hpp": by which way `path` comes to include `target`."""
    found, steps = sources.reachable(path), [target]
    while steps[0] != path:
        steps.insert(0, found[steps[0]])
    return " -> ".join(steps)


def check_file(path):
    area, problems = area_of(path), []
    for line, quote, name in sources.includes(path):
        where = f"{path}:{line}: includes {name}"
        target = sources.resolve(name)
        if target in sources.OPT_IN and not path.startswith("tests/"):
            problems.append(
                f"{where}: for programs that use {sources.OPT_IN[target]}, not for meshbus itself"
            )
        is_opted = path in sources.OPT_IN and name.startswith(sources.OPT_IN[path] + "/")
        if (
            path.endswith(".h")
            and not path.startswith("tests/")
            and HEAVY.match(name)
            and not is_opted
            and not (area == "client/python" and name.startswith("pybind11/"))
        ):
            problems.append(
                f"{where}: too heavy for a header; include it in the .cpp, forward declare it here"
            )
        if target is None:
            if name.startswith("wire/") and area is not None and "wire" not in MAY[area]:
                problems.append(f"{where}: {area} does not know the schemas")
            elif quote == '"' and not name.startswith("wire/"):
                problems.append(
                    f"{where}: no such file; name it by its path from the top of the tree, other "
                    f"people's headers in <>"
                )
            continue
        if name.startswith(".") or "/../" in name:
            problems.append(f"{where}: name it by its path from the top of the tree")
        if (
            path.startswith("tests/conformance/")
            and "/include/meshbus/" not in target
            and not target.startswith("tests/")
        ):
            problems.append(f"{where}: conformance tests know the public headers alone")
        if path.startswith("tests/") or area is None:
            continue
        to = area_of(target)
        if "/include/meshbus/" in target and (to in MAY[area] or area == "examples"):
            continue
        if to != area and to not in MAY[area] and target not in NARROW.get(area, set()):
            allowed = ", ".join(sorted(MAY[area])) or (
                "meshbus/*.h only" if area == "examples" else "nothing"
            )
            narrow = f"; of others only {', '.join(sorted(NARROW[area]))}" if area in NARROW else ""
            problems.append(
                f"{where}: {area} may not include {to or target}; it may include {allowed}{narrow}"
            )
    return problems


def check_bare(area):
    """One line for each library that the area reaches: the shortest way to it."""
    ways = {}
    for path in sources.cpp_files():
        if area_of(path) == area and path not in sources.OPT_IN:
            for name in filter(LIBRARY.match, sources.reachable(path)):
                ways.setdefault(name, []).append(chain(path, name))
    return [
        f"{area} stays free of libraries, but reaches {name} from {len(found)} files: "
        f"{min(found, key=len)}"
        for name, found in ways.items()
    ]


def mutual_pairs(paths):
    """Pairs of folders with files that include each other's: they are one thing, or one of them is
    two."""
    arrows = {}
    for path in paths:
        folder = os.path.dirname(path)
        for match in sources.INCLUDE.finditer(sources.text(path)):
            target = sources.resolve(match.group(2)) if match.group(1) == '"' else None
            if target and os.path.dirname(target) != folder:
                arrows.setdefault(folder, {}).setdefault(os.path.dirname(target), path)
    return {
        (a, b): (arrows[a][b], arrows[b][a])
        for a in sorted(arrows)
        for b in sorted(arrows[a])
        if a < b and a in arrows.get(b, ())
    }


def main():
    checked = [path for path in sources.cpp_files()]
    strays = [
        f"{path}: belongs to no area of docs/architecture.md; add it to tests/check/includes.py"
        for path in checked
        if area_of(path) is None and not path.startswith("tests/")
    ]
    problems = (
        strays
        + [problem for path in checked for problem in check_file(path)]
        + [problem for area in BARE for problem in check_bare(area)]
        + [
            f"{a} and {b} include each other: see {one} and {other}"
            for (a, b), (one, other) in mutual_pairs(checked).items()
        ]
    )
    total = sum(len(sources.includes(path)) for path in checked)
    sources.finish(problems, f"{total} includes in {len(checked)} files point the right way")


if __name__ == "__main__":
    main()
