"""What typed.py has to know of each page: what was before, and what ends otherwise than with 0.

RULES      [(pattern of a command, rule)] for all pages; the first that fits counts, those of the
           page come first. A rule: stays = the command is put into the background, and what is
           typed next waits until it has printed that pattern; code = its exit code, or a set; as =
           what is typed instead; then = what is typed after what stays; prints = a pattern
           that it prints; skip = it is left out, and why.
PAGES      before = [(machine, command)]; rules; other_output = what is printed is not compared.
ELSEWHERE  pages whose commands other tests run.
"""

RULES = [
    (r"^(setsid )?meshbus host ", {"stays": r"\{|serves|ready"}),
    (r"^meshbus-controller ", {"stays": "."}),
    (r"^meshbus top *(#.*)?$|^meshbus top .*--period",
     {"as": "script -qec \"timeout -s INT 2 meshbus top\" /dev/null", "code": {0, 124, 130}}),
    (r"^meshbus (watch|tap)|^meshbus logs .*-f$", {"stays": "."}),
    (r"^meshbus forward", {"stays": "->"}),
    (r"^salloc", {"skip": "tests/multihost/slurm.cpp has it"}),
]

ALICE = ("", "export MESHBUS_KEYS_OWN=$HOME/.config/meshbus/keys/alice.key")
SITE = [ALICE, ("", "make_site")]
CONTROLLER = [("", "(meshbus-controller --hosts tcp:h1:7420,tcp:h2:7420,tcp:h3:7420 "
                  ">/dev/null 2>&1 &)"),
              ("", "until meshbus controller show >/dev/null 2>&1; do sleep 0.1; done")]


def job(name, ranks, command="./train", more=""):
    """A job that runs before the page begins."""
    return [("", f"(TRAIN=600 meshbus run {more} --name {name} -n {ranks} -- {command} "
                 f">/tmp/typed/{name}.log 2>&1 &)"),
            ("", f"until meshbus status {name} --wait running >/dev/null 2>&1; do sleep 0.1; done")]


PAGES = {
    "README": {
        "before": [("", "meshbus host >/tmp/typed/host.log & until meshbus ping >/dev/null 2>&1; "
                        "do sleep 0.1; done"),
                   *job("work", 8, "sh -c 'trap \"\" USR1; echo up; exec echo_proc'",
                        "--mesh")],
        "rules": [
            (r"^meshbus keygen operator", {
                "as": "meshbus keygen operator alice; HOME=/tmp/typed/home/h2 "
                      "meshbus keygen host 10.0.0.2; copy_keys"}),
            (r"^meshbus logs", {"stays": "up"}),
        ],
    },
    "first-mesh": {
        "rules": [
            (r"sleep 60", {"stays": r"(?s)(./4.*){4}"}),
            (r"exit \$RANK", {"code": {1, 2, 3}}),  # whichever is first
        ],
    },
    "many-hosts": {},
    "hung-jobs": {
        "before": job("train", 8),
        # It is for ranks.
        "rules": [(r"^meshbus progress", {"as": "meshbus run -n 1 -- meshbus progress"})],
    },
    "beside-ranks": {
        "before": [("", "echo core >/tmp/core.17"), *job("train", 8)],
        "rules": [
            # The one before has that port.
            (r"^meshbus forward .*debug", {
                "as": "pkill -f 'meshbus forward'; until meshbus forward 8080:train:0:80 "
                      "/tmp/debug.sock:train:3:5678; do sleep 0.1; done",
                "stays": "debug.sock ->"}),
            (r"^meshbus cp config", {
                "as": "mkdir -p etc/train; meshbus cp config.yaml "
                      "train:/tmp/typed/desk/etc/train/"}),
            (r"^meshbus attach", {"as": "timeout -s INT 2 meshbus attach train:0",
                                  "code": {0, 124, 130}}),
        ],
    },
    "binding": {
        "rules": [
            (r"--bind gpu", {"skip": "needs GPUs"}),
            # A machine may have fewer cores than that.
            (r"--bind core:8", {"code": {0, 125}, "prints": "^$|8 are wanted"}),
        ],
        "other_output": True,
    },
    "doctor": {"before": [*SITE]},
    "chaos": {
        "before": [("", "MORE='--set chaos.allowed=true'; export MORE"), *SITE],
        "rules": [
            (r"^meshbus host", {"skip": "the hosts of before are such"}),
            (r"^meshbus run", {
                "as": "(meshbus run -x TRAIN=600 --hosts tcp:h1:7420 -n 4 --name train "
                      "--restart on-failure -- ./train.sh >/dev/null 2>&1 &); until meshbus status "
                      "train --hosts tcp:h1:7420 --wait running >/dev/null 2>&1; do sleep 0.1; "
                      "done"}),
            # The second is to find a rank that was killed by the first one ready again.
            (r"^meshbus chaos .*kinds", {"as": "meshbus chaos --hosts tcp:h1:7420 --ranks "
                                               "'train[0-3]' --kinds kill,freeze --every 4s "
                                               "--for 6s"}),
            (r"^meshbus chaos .*dry", {"as": "meshbus chaos --hosts tcp:h1:7420 --ranks train "
                                             "--roles broker,agent --seed 7 --dry-run"}),
        ],
    },
    "supervision": {
        "before": [*SITE],
        "rules": [
            (r"--pair site", {"stays": ""}),
            # One of them has to act first.
            (r"^meshbus controller own", {"as": "until meshbus controller own --hosts "
                                                "tcp:h1:7420,tcp:h2:7420; do sleep 0.2; done"}),
        ],
    },
    "several-programs": {
        "before": [("", "mkdir -p examples/jobs; cp @ROOT@/examples/jobs/rl.* "
                        "examples/jobs; cp examples/jobs/rl.toml .")],
    },
    "torch": {},
    "mpi": {
        "before": [*SITE, *CONTROLLER],
        "rules": [
            # Two secrets lie beside the host, so the page has one say which.
            (r"^meshbus spawn sim", {
                "as": "meshbus spawn sim -n 1 --restart on-failure:3 "
                      "-x MESHBUS_KEYS_OWN=$HOME/.config/meshbus/keys/h1.key -- meshbus run --mpi "
                      "--hosts tcp:h1:7420,tcp:h2:7420 -- ./simulation"}),
            (r"^meshbus logs", {"stays": "rank 0 of 2"}),
            # It may have ended.
            (r"^meshbus stop sim", {"code": {0, 1}}),
        ],
    },
    "operations": {
        "before": [*SITE],
        "rules": [
            # h3 is to be a new one.
            (r"^umask 077; meshbus keygen --token", {
                "as": "kill $(cat /tmp/typed/h3.pid); rm -rf /tmp/typed/home/h3/.config; "
                      "rm -f /tmp/typed/home/*/.config/meshbus/keys/authorised/host/h3.pub; "
                      "umask 077; meshbus keygen --token host h3 > token"}),
            (r"^meshbus-controller", {"as": f"{CONTROLLER[0][1]}; {CONTROLLER[1][1]}"}),
            # What has ended cannot be stopped.
            (r"meshbus stop train", {"code": 1, "prints": "ended already"}),
            (r"^meshbus tap", {"stays": "tapping", "then": "meshbus run -n 1 -- true"}),
            (r"^meshbus host --join", {
                "as": "meshbus host --join - --bind tcp:10.0.0.3:7420 --advertise tcp:h3:7420 "
                      "< token", "stays": r"\{"}),
        ],
    },
    "page": {"before": [*SITE]},
    "security": {
        "rules": [
            (r"^meshbus keygen operator", {"as": "meshbus keygen operator alice; copy_keys; "
                                                 "start_host 1; until grep -q { /tmp/typed/h1.log;"
                                                 " do sleep 0.1; done"}),
            (r"^meshbus keygen --token", {"as": "meshbus keygen --token host h3 | tee token"}),
            (r"^meshbus host --join TOKEN", {
                "as": "meshbus host --join $(cat token) --bind tcp:10.0.0.3:7420 "
                      "--advertise tcp:h3:7420", "stays": r"\{"}),
            (r"^meshbus audit", {
                "as": "export MESHBUS_KEYS_OWN=/tmp/typed/home/me/.config/meshbus/keys/alice.key "
                      "MESHBUS_HOSTS=tcp:h1:7420; meshbus run -n 4 --name train -- sleep 0.1; "
                      "meshbus audit --since 1h --by alice"}),
            (r"--broker-user", {"skip": "takes the user that the package makes"}),
        ],
    },
}

ELSEWHERE = {
    "containers": "tests/compose/run",
    "cpp": "tests/package/inside.sh",
    "install": "tests/package/inside.sh",
    "python": "tests/python/test_docs.py",
    "services": "tests/package/units.sh",
}
