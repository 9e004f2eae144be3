#!/usr/bin/python3 -B
"""typed.py [PAGE...]: types the commands of README.md and docs/guide into shells, page by page, as
a reader would, and compares what they print with what stands there. Root only. Exit code 1 when a
command ends otherwise than the page says, or does not print what the page shows.

A page is typed in namespaces of its own: nothing of it is left. Its machines (h1, node1, ...) are
addresses there; `h1$` is a shell of h1 with a home of its own, `$` or nothing that of the first
one. Their programs are in desk/, where all shells are, and in bin/. What a page takes for granted
(a job that runs, hosts) and what it does not show (a command that stays, another exit code) is in
typed_pages.py."""
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import typed_pages

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
PLACE = pathlib.Path("/tmp/typed")
LIMIT = 40
"""Seconds for a command, and for what stays until it says what is waited for."""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
PROMPT = re.compile(r"^(\w*)[$#] ")
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:meshbus(?:-controller)?|salloc|curl|export) ")
MACHINES = {**{f"h{n}": f"10.0.0.{n}" for n in range(1, 5)},
            **{f"node{n}": f"10.0.1.{n}" for n in range(1, 11)}}


def blocks(text):
    """[(line, [(machine, command)], [line that is printed])] of each block with commands."""
    for match in BLOCK.finditer(text):
        if match[1] not in ("", "sh", "bash"):
            continue
        lines = match[2].split("\n")[:-1]
        has_prompts = any(PROMPT.match(line) for line in lines)
        commands, printed = [], []
        is_open = False
        for line in lines:
            prompt = PROMPT.match(line)
            if is_open:
                commands[-1] = (commands[-1][0], commands[-1][1] + "\n" + line)
            elif prompt:
                commands.append((prompt[1], line[prompt.end():]))
            elif not has_prompts and COMMAND.match(line):
                commands.append(("", line))
            else:
                # Without prompts it is a list of commands, not what one sees.
                printed += [line] if has_prompts and line.strip() else []
                continue
            is_open = line.endswith("\\")
        if commands:
            yield text[:match.start()].count("\n") + 1, commands, printed


def pattern_of(line):
    """What a printed line looks like at any time: other numbers, names of meshes and spaces."""
    parts = re.split(r"(\.\.\.|…|[\w-]*-(?=[\w]*\d)[0-9A-Za-z]{12}\b|\d[\d.]*|\s+)", line.strip())
    made = ""
    for part in parts:
        if part in ("...", "…"):
            made += ".*"
        elif re.fullmatch(r"[\w-]*-[0-9A-Za-z]{12}", part):
            made += r"\S+"
        elif re.fullmatch(r"\d[\d.]*", part):
            made += r"\d[\d.]*"
        elif part.isspace():
            made += r"\s+"
        else:
            made += re.escape(part)
    return made


def shortened(text):
    lines = text.split("\n")
    return text if len(lines) <= 40 else "\n".join(["...", *lines[-40:]])


class Shell:
    """A bash of one machine."""

    def __init__(self, machine):
        home = PLACE / "home" / machine
        (home / "run").mkdir(parents=True, exist_ok=True)
        (home / "run").chmod(0o700)
        environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "TERM": "xterm",
                       "LC_ALL": "C.UTF-8", "PATH": f"{PLACE}/bin:{ROOT}/build/release/bin:"
                       "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.bash = subprocess.Popen(["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     cwd=PLACE / "desk", env=environment)
        self.count = 0

    def type(self, command):
        """(exit code or None when it was not over in time, what it printed)"""
        self.count += 1
        mark = f"typed-{self.count}-"
        # A command reads nothing but what it is given.
        try:
            self.bash.stdin.write(f"{{ {command}\n}} </dev/null\necho {mark}$?\n".encode())
            self.bash.stdin.flush()
        except BrokenPipeError:
            return None, f"the shell has ended: {self.bash.stdout.read().decode()}"
        out, end = b"", time.monotonic() + LIMIT
        while time.monotonic() < end:
            if not select.select([self.bash.stdout], [], [], 0.2)[0]:
                continue
            piece = os.read(self.bash.stdout.fileno(), 65536)
            if not piece:
                return None, out.decode() + "(the shell has ended)"
            out += piece
            if found := re.search(rf"{mark}(\d+)\n".encode(), out):
                return int(found[1]), out[:found.start()].decode()
        return None, out.decode()


class Page:
    """A page that is being typed."""

    def __init__(self, name):
        self.name = name
        self.stage = typed_pages.PAGES[name]
        self.shells = {}
        self.files = []
        self.problems = []

    def shell(self, machine):
        machine = machine or "h1"
        if machine not in self.shells:
            self.shells[machine] = Shell(machine)
        return self.shells[machine]

    def rule(self, command):
        for pattern, rule in [*self.stage.get("rules", []), *typed_pages.RULES]:
            if re.search(pattern, command):
                return rule
        return {}

    def printed(self):
        return "".join(file.read_text(errors="replace") for file in self.files)

    def type(self, machine, command, where):
        rule = self.rule(command) if where != "before" else {}
        if "skip" in rule:
            print(f"    left out, {rule['skip']}: {command}")
            return
        file = PLACE / f"out{len(self.files)}"
        file.write_text("")
        self.files.append(file)
        typed = rule.get("as", command)
        shell = self.shell(machine)
        if "stays" in rule:
            shell.type(f"({typed}\n) >{file} 2>&1 &")
            end = time.monotonic() + LIMIT
            while not re.search(rule["stays"], file.read_text(errors="replace")):
                if time.monotonic() > end:
                    self.problems.append(f"{where}: {command}\n    did not print "
                                         f"{rule['stays']!r} but:\n"
                                         f"{shortened(file.read_text())}")
                    return
                time.sleep(0.05)  # sleep-ok: looks again, LIMIT seconds at most
            if "then" in rule:
                shell.type(rule["then"])
            return
        code, out = shell.type(typed)
        file.write_text(out)
        wanted = rule.get("code", 0)
        if code != wanted and not (isinstance(wanted, set) and code in wanted):
            self.problems.append(f"{where}: {command}\n    ended with {code}, not {wanted}:\n"
                                 f"{shortened(out)}")
        if "prints" in rule and not re.search(rule["prints"], out):
            self.problems.append(f"{where}: {command}\n    did not print {rule['prints']!r} but:\n"
                                 f"{shortened(out)}")

    def run(self):
        path = ROOT / ("README.md" if self.name == "README" else f"docs/guide/{self.name}.md")
        for machine, command in self.stage.get("before", []):
            command = command.replace("@ROOT@", str(ROOT))
            self.type(machine, command, "before")
        count = 0
        for line, commands, printed in blocks(path.read_text(encoding="utf-8")):
            where = f"{path.name}:{line}"
            for machine, command in commands:
                self.type(machine, command, where)
                count += 1
            end = time.monotonic() + 5
            missing = printed
            while missing and not self.stage.get("other_output"):
                out = self.printed()
                missing = [text for text in missing if not re.search(pattern_of(text), out)]
                if time.monotonic() > end:
                    break
                time.sleep(0.05)  # sleep-ok: looks again, 5 s at most
            if missing and not self.stage.get("other_output"):
                self.problems.append(f"{where}: not printed:\n" + "\n".join(missing) +
                                     f"\n    but:\n{shortened(self.printed())}")
        print(f"{self.name}: {count} commands, {len(self.problems)} problems", flush=True)
        for problem in self.problems:
            print(problem)
        return not self.problems


def make_world():
    """In the namespaces: addresses, names, and the programs of bin/ and desk/."""
    def run(*words):
        subprocess.run(words, check=True)
    # Pages write to /tmp; the tree may be there, too.
    run("mount", "--bind", str(ROOT), "/mnt")
    run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/tmp")
    if str(ROOT).startswith("/tmp/"):
        ROOT.mkdir(parents=True)
        run("mount", "--move", "/mnt", str(ROOT))
    else:
        run("umount", "/mnt")
    run("ip", "link", "set", "lo", "up")
    hosts = f"127.0.0.1 localhost {os.uname().nodename}\n"
    for name, address in MACHINES.items():
        run("ip", "address", "add", f"{address}/32", "dev", "lo")
        hosts += f"{address} {name}\n"
    (PLACE / "home").mkdir(parents=True)
    for folder in ("bin", "desk"):
        shutil.copytree(HERE / folder, PLACE / folder)
    (PLACE / "hosts").write_text(hosts)
    run("mount", "--bind", str(PLACE / "hosts"), "/etc/hosts")


def main():
    words = sys.argv[1:]
    if words[:1] == ["--inside"]:
        make_world()
        sys.exit(not Page(words[1]).run())
    if unknown := [word for word in words if word not in typed_pages.PAGES]:
        sys.exit(f"typed: no page {', '.join(unknown)}; there are {', '.join(typed_pages.PAGES)}")
    pages = {path.stem for path in (ROOT / "docs" / "guide").glob("*.md")}
    if words == [] and (new := pages - {*typed_pages.PAGES, *typed_pages.ELSEWHERE}):
        sys.exit(f"typed: typed_pages.py has to know of {', '.join(sorted(new))}")
    bad = 0
    for name in words or typed_pages.PAGES:
        done = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child",
                               "--mount-proc", sys.executable, "-B", __file__, "--inside", name],
                              stdin=subprocess.DEVNULL)
        bad += done.returncode != 0
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
