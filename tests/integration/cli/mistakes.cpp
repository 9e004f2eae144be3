// The wording of what `meshbus` says of mistakes, kept on purpose: each message names what was
// typed, says what is wrong with it, and what to write instead (spec 12.9). A changed text is
// changed here, too, and read once more.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/world/command_line.h"

using namespace meshbus::test;

namespace {

struct Mistake {
  Words words;
  std::string message;
  int exit_code = 2;
};

std::string joined(const Words& words) {
  std::string line = "meshbus";
  for (const std::string& word : words) line += " " + word;
  return line;
}

/// Its first line is the whole message; a caret under the place may follow.
void check_wording(const std::vector<Mistake>& mistakes, const ProcessOptions& options = {}) {
  for (const auto& mistake : mistakes) {
    const auto finished = run_cli(mistake.words, options);
    const auto lines = lines_of(finished.err);
    INFO(joined(mistake.words) << "\n" << finished.err);
    CHECK(finished.status == ExitStatus::exited(mistake.exit_code));
    CHECK(finished.out.empty());
    REQUIRE_FALSE(lines.empty());
    CHECK(lines.front() == "meshbus: " + mistake.message);
    CHECK(lines.size() <= 3);
  }
}

/// `run WORDS -- true`
Words run_with(const Words& words) {
  Words all{"run"};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), {"--", "true"});
  return all;
}

}  // namespace

TEST_CASE("mistakes: words that are no command, and flags that there are not") {
  check_wording({
      {{"rnu"}, "unknown command 'rnu'; did you mean 'run'?"},
      {{"xyzzy"}, "unknown command 'xyzzy'; the commands are in meshbus --help"},
      {{"help", "runn"}, "unknown command 'runn'; did you mean 'run'?"},
      {{"context", "ad"}, "unknown command 'ad'; did you mean 'add'?"},
      {{"ps", "--jsn"}, "meshbus ps has no --jsn; did you mean --json?"},
      {run_with({"--hots", "2"}), "meshbus run has no --hots; did you mean --hosts?"},
      {run_with({"-np", "2"}), "meshbus run has no -np; it takes -n N, the ranks in all"},
      {run_with({"--nproc-per-node", "2"}),
       "meshbus run has no --nproc-per-node; it takes --per-host N, the ranks on each host"},
      {run_with({"--wdir", "/tmp"}),
       "meshbus run has no --wdir; it takes the directory in the command: -- sh -c 'cd DIR && exec "
       "COMMAND'"},
      {run_with({"--hosts", "1", "2"}), "meshbus run does not understand '2' in front of --"},
      {run_with({"--user", "nobody"}), "meshbus run has no --user; it takes --uid USER"},
      {run_with({"--file", "x"}),
       "meshbus run has no --file; its options are in meshbus run --help"},
      {{"host", "--listen", "tcp:0.0.0.0:7420"},
       "meshbus host has no --listen; it takes --bind tcp:HOST:PORT"},
      {{"host", "--port", "7420"}, "meshbus host has no --port; it takes --bind tcp:HOST:PORT"},
      {run_with({"--env", "A"}),
       "meshbus run has no --env; it takes -x NAME or -x NAME=VALUE, once for each variable"},
      {{"config", "set", "a", "b"},
       "meshbus config does not understand 'a'; see meshbus config --help"},
      {{"config", "show", "nokey"},
       "meshbus config does not understand 'nokey'; see meshbus config --help"},
  });
}

TEST_CASE("mistakes: what is missing") {
  check_wording({
      {{"run"}, "run what? Give a command: meshbus run -n 4 -- COMMAND ARGUMENTS..."},
      {{"stop"}, "no mesh is named: give one, a pattern like 'train-*', or --all"},
      {{"keygen", "host"},
       "meshbus keygen: NAME is required; for example: meshbus keygen operator alice"},
      {{"context", "add", "x"}, "which hosts? Say --hosts ADDRESS,... or --hostfile FILE"},
      {run_with({"--name", ""}), "--name is empty"},
      {{"attach"}, "meshbus attach: RANKS is required; for example: meshbus attach train:0"},
      {{"spawn", "-n", "2"},
       "meshbus spawn: NAME is required; for example: meshbus spawn train -n 8 -- ./train.sh"},
      {{"exec", "work:3"}, "exec what? The command comes last: meshbus exec work:3 -- COMMAND"},
      {run_with({"--set", "spawn.ready"}), "--set takes KEY=VALUE, not 'spawn.ready'"},
  });
}

TEST_CASE("mistakes: numbers and words out of their range") {
  check_wording({
      {run_with({"-n", "0"}), "--procs: takes a whole number from 1 to 1000000, not '0'"},
      {run_with({"-n", "two"}), "--procs: takes a whole number from 1 to 1000000, not 'two'"},
      {run_with({"--nice", "99"}), "--nice: takes a whole number from -20 to 19, not '99'"},
      {run_with({"--umask", "999"}), "--umask: takes an octal number up to 777, not '999'"},
      {{"keygen", "--expires", "90days", "operator", "x"},
       "--expires: takes 2027-01-31, 2027-01-31T12:00:00Z or a duration like 90d, not '90days'"},
      {{"status", "one", "two"},
       "meshbus status does not understand 'two'; see meshbus status --help"},
      {{"torchrun", "--nprocs", "2", "train.py"},
       "meshbus torchrun has no --nprocs; did you mean --nproc_per_node?"},
      {run_with({"--timeout", "5x"}),
       "--timeout: '5x' is not a duration like 250ms, 30s, 2m or 1h"},
      {run_with({"--memory", "lots"}),
       "--memory: takes bytes like 512MiB, 1.5GiB or 64M, not 'lots'"},
      {run_with({"--cpu-set", "0-9999"}),
       "--cpu-set: takes CPUs below 1024 like 0-3,8, ascending, not '0-9999'"},
      {run_with({"--rlimit", "nofile=x"}),
       "--rlimit: takes a number (with K, M, G or T), `unlimited`, or SOFT:HARD for nofile, not "
       "'x'"},
      {run_with({"--restart", "sometimes"}),
       "--restart: takes never, on-failure, always, or with a number of restarts on-failure:3, not "
       "'sometimes'"},
      {run_with({"--gang", "both"}), "--gang: takes one, all or rest, not 'both'"},
      {run_with({"--mpi=mvapich"}), "--mpi: takes one of auto, pmi1, pmix, none, not 'mvapich'"},
      {{"host", "--containment", "docker"},
       "--containment: takes one of auto, cgroup, pidns, sweep, not 'docker'"},
      {{"keygen", "admin", "alice"},
       "ROLE: takes one of observer, client, operator, host, not 'admin'"},
      {{"completion", "tcsh"}, "SHELL: takes one of bash, zsh, fish, not 'tcsh'"},
      {{"signal", "NOPE", "work"},
       "SIGNAL: 'NOPE' is no signal: use a name like USR1, HUP or STOP, or a number"},
      {{"logs", "work", "--rank", "x"}, "--rank: takes ranks like 0-5,7, not 'x'"},
      {{"status", "work", "--wait", "runing"},
       "--wait: takes initializing, running, stopping or stopped, not 'runing'"},
      {{"torchrun", "--max_restarts=-1", "a.py"},
       "--max_restarts: takes a whole number from 0 to 1000000, not '-1'"},
      {{"torchrun", "--max_restarts=x", "a.py"},
       "--max_restarts: takes a whole number from 0 to 1000000, not 'x'"},
      {run_with({"-n", "2", "-n", "3"}), "--procs is given more than once"},
      {run_with({"-n", "5", "--per-host", "gpu=2"}),
       "--procs and --per-host exclude each other: give one of them"},
      {{"torchrun", "--nproc_per_node=x", "a.py"},
       "--nproc_per_node takes a number, cpu, gpu or auto, not 'x'"},
  });
}

TEST_CASE("mistakes: shapes, ranks and filters that cannot be read") {
  check_wording({
      {run_with({"--per-host", "gpu"}),
       "--per-host: takes N, or AXIS=SIZE,... like gpus=2 or numa=2,core=4, not 'gpu'"},
      {run_with({"--per-host", "host=2"}),
       "--per-host: the axis 'host' is that of the hosts, and --hosts says how many there are; "
       "name the ranks on each host otherwise, like --per-host proc=2"},
      {{"mesh", "show", "host=2/4,gpu"}, "region: at 12: expected '=', found the end"},
      {run_with({"-n", "2", "--stdin", "9"}), "--stdin 9: there are only ranks 0..1"},
      {run_with({"--stdin", "x"}), "--stdin: takes a rank, all or none, not 'x'"},
      {run_with({"--bind", "gpuu"}),
       "--bind: takes none, core, core:N (N cores for each rank), numa or gpu, not 'gpuu'"},
      {{"cp", "a", "b"}, "cp: neither side is a rank; RANKS:PATH is one, as train:3:/tmp"},
      {{"cp", "work:0:/x", "work:1:/y"}, "cp: one side must be here: copy to here first"},
      {{"forward", "8080:0"},
       "forward: '8080:0': parts are missing; it is LOCAL:RANKS:PORT, as 8080:train:3:80"},
      {{"forward", "99999:work:0:80"},
       "forward: '99999:work:0:80': '99999' is neither a port nor a path; it is LOCAL:RANKS:PORT, "
       "as 8080:train:3:80"},
      {{"call", "work", "x", "hello"},
       "'x' is no port: ports are numbers from 1; messages with names are those of actors "
       "(--actor)"},
      {{"audit", "--since", "yesterday"},
       "--since: 'yesterday' is not a duration like 250ms, 30s, 2m or 1h"},
      {{"tap", "--filter", "kind=nothing"},
       "--filter: filter: at 5: expected control, message, call, reply or error, found 'n'"},
  });
}

TEST_CASE("mistakes: addresses, and lists of hosts") {
  check_wording({
      {run_with({"--hosts", "h1"}),
       "--hosts: h1 is no address; did you mean tcp:h1:7420 or ssh:h1?"},
      {run_with({"--hosts", "tcp:h1"}), "--hosts: tcp:h1 has no port; did you mean tcp:h1:7420?"},
      {run_with({"--hosts", "tcp:h[3-1]:7420"}),
       "--hosts: tcp:h[3-1]:7420: the range 3-1 goes backwards"},
      {run_with({"--hostfile", "/no/file"}), "hostfile /no/file: No such file or directory"},
      {run_with({"--context", "nolab"}),
       "there is no context nolab; there is none at all: meshbus context add NAME --hosts ... "
       "makes one"},
      {run_with({"--hosts", "pod:x"}),
       "--hosts: pod:x is no address: that of a host begins with tcp:, unix: or ssh:"},
      {run_with({"--hosts", "local:1"}),
       "--hosts: local:1 is a host inside of the program that made it: no other program can reach "
       "it; name hosts by tcp:NAME:PORT, unix:/path or ssh:NAME"},
      {run_with({"--hosts", "0"}), "--hosts takes 1 to 1024 hosts on this machine, not 0"},
      {run_with({"--hosts", "2", "--use", "3"}), "--use 3: there are only 2 hosts"},
      {run_with({"--hosts", "2", "--min-hosts", "5"}),
       "--min-hosts 5 is more than the 2 hosts that the job uses"},
      {run_with({"--hosts", "ssh:"}), "--hosts: ssh:: that is no name of a machine"},
      {{"host", "--bind", "10.0.0.1:7420"},
       "--bind 10.0.0.1:7420: host address: at 0: expected tcp:HOST:PORT, unix:/PATH, unix:@NAME "
       "or local:N, found '1'"},
      {run_with({"--hosts", "unix:/no/where"}),
       "host_unreachable: attaching to hosts: host 0 (unix:/no/where): nothing listens there "
       "(connect: No such file or directory)",
       125},
      {{"drain", "--hosts", "unix:/no/where"},
       "host unix:/no/where does not answer: nothing listens there (connect: No such file or "
       "directory)",
       1},
  });
}

TEST_CASE("mistakes: a program that is not found") {
  const TempDir dir;
  dir.write("train.py", "print()\n", true);
  const auto says = [&](Words command, const std::string& hint) {
    Words words{"run", "-n", "1", "--"};
    words.insert(words.end(), command.begin(), command.end());
    const auto finished = run_cli(words, {.directory = dir.path().string()});
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(127));
    const auto lines = lines_of(finished.err);
    REQUIRE_FALSE(lines.empty());
    CHECK(lines.back().starts_with("meshbus: first failure: rank 0"));
    CHECK((lines.size() == 1 ? "" : lines[lines.size() - 2]) == hint);
  };
  says({"train.py"},
       "meshbus: did you mean ./train.py or python3 train.py? A name without / is looked up in "
       "PATH");
  says({"echo hi"}, "meshbus: a line with blanks is for a shell: -- sh -c 'echo hi'");
  says({"no-such-program"}, "");
  // This machine may have one, so PATH does not lead there.
  const auto python =
      run_cli({"run", "-n", "1", "--", "python"}, {.environment = {{"PATH", dir.path().string()}}});
  CHECK(python.status == ExitStatus::exited(127));
  CHECK(python.err.starts_with("meshbus: is it python3? Many systems have no python\n"));
}

TEST_CASE("mistakes: settings and files") {
  check_wording({
      {run_with({"--set", "spawn.redy=3s"}),
       "there is no setting \"spawn.redy\" (flag --set): did you mean "
       "\"spawn.ready\"?"},
      {run_with({"--set", "spawn.ready=never"}),
       "spawn.ready = \"never\" (flag --set): expected a duration from 0s to "
       "24h, like 250ms, 30s, 2m or 1h"},
      {run_with({"--json", "/no/such/x.json"}),
       "--json /no/such/x.json cannot be written: No such file or directory"},
      {run_with({"--trace", "/no/x"}),
       "--trace /no/x cannot be written: No such file or directory"},
      {{"tap", "--read", "/no/file"}, "cannot open /no/file: No such file or directory", 1},
  });
}

TEST_CASE("mistakes: the name of a host's key is no address") {
  const TempDir dir;
  check_wording({
      {{"keygen", "--dir", dir.path().string(), "host", "tcp:10.0.0.1:7420"},
       "keygen: a host's key has the name HOST or HOST:PORT, without the transport: "
       "10.0.0.1:7420, not tcp:10.0.0.1:7420"},
      {{"keygen", "--dir", dir.path().string(), "operator", "al/ice"},
       "keygen: 'al/ice' cannot be the name of a key: letters, digits and -_.:%[]@+ only, 100 at "
       "most"},
  });
}

TEST_CASE("mistakes: where no host runs, and where none has the mesh") {
  const Words verbs[] = {{"stop", "nothing"}, {"status", "nothing"}, {"why"}, {"logs"}};
  const TempDir empty;
  const ProcessOptions alone{.environment = {{"XDG_RUNTIME_DIR", empty.path().string()}}};
  std::vector<Mistake> mistakes;
  for (const auto& verb : verbs)
    mistakes.push_back(
        {verb,
         "no host of yours runs on this machine (those of meshbus run end with their job); name "
         "others with --hosts ADDRESS,...",
         1});
  check_wording(mistakes, alone);
  const StandingHost host;
  const auto with = [&](Words words) {
    words.insert(words.end(), {"--hosts", host.address()});
    return words;
  };
  const std::string none = "no mesh 'wrk' on these hosts; meshbus ps --all lists what is there";
  check_wording({
      {with({"stop", "wrk"}), none, 1},
      {with({"status", "wrk"}), none, 1},
      {with({"signal", "USR1", "wrk[9]"}), none, 1},
      {with({"call", "wrk", "1", "hello"}), none, 1},
      {with({"signal", "USR1", "wrk[0"}), "selector: at 5: expected ']'", 2},
      {with({"drain", "wrk[0]"}),
       "drain takes whole meshes, not ranks of them as in 'wrk[0]'; meshbus stop ends ranks", 2},
      {with({"controller", "show"}), "no controller answers at these hosts", 1},
      {with({"why", "wrk"}),
       "the event logs of these hosts know no mesh 'wrk'; meshbus ps --all lists what is there", 1},
  });
}

TEST_CASE("mistakes: a controller without hosts, and with an address that is none") {
  const std::string controller = bin("meshbus-controller");
  const auto missing = run({controller}, in_time);
  CHECK(missing.status == ExitStatus::exited(2));
  CHECK(missing.err == "meshbus-controller: --hosts is required; see meshbus-controller --help\n");
  const auto wrong = run({controller, "--hosts", "tcp:h1"}, in_time);
  CHECK(wrong.status == ExitStatus::exited(2));
  CHECK(wrong.err ==
        "meshbus-controller: parse_error: --hosts: 'tcp:h1': host address: at 6: expected ':' and "
        "a port, found the end\n");
}
