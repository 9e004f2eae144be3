// Several programs in one job (spec 17.6): by `:` and by a job file.
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <map>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

void replace_all(std::string& text, const std::string& old, const std::string& with) {
  for (auto at = text.find(old); at != std::string::npos; at = text.find(old, at + with.size()))
    text.replace(at, old.size(), with);
}

std::string write_job(const TempDir& dir, const std::string& text) {
  const auto path = dir / "job.toml";
  std::ofstream(path) << text;
  return path;
}

std::string example_file(const std::string& name) {
  return std::string(MESHBUS_SOURCE_DIR) + "/examples/jobs/" + name;
}

/// What a job file that is wrong is answered with; its path is FILE.
std::string refusal_of(const std::string& text, const Words& more = {}) {
  const TempDir dir;
  const auto path = write_job(dir, text);
  Words words = {"run", "--job", path};
  words.insert(words.end(), more.begin(), more.end());
  const auto finished = run_cli(words);
  CHECK(finished.status == ExitStatus::exited(2));
  auto line = last_line(finished.err);
  replace_all(line, path, "FILE");
  return line;
}

/// examples/jobs/rl.toml; the ranks of `role` begin with this line of sh.
std::string example_job(const TempDir& dir, const std::map<std::string, std::string>& lines) {
  auto text = read_file(example_file("rl.toml"));
  for (const auto& [role, line] : lines) {
    const std::string command =
        R"(command = ["python3", "examples/jobs/rl.py", ")" + role + R"("])";
    REQUIRE(has(text, command));
    replace_all(text, command,
                "shell = '" + line + "; exec python3 " + example_file("rl.py") + " " + role + "'");
  }
  replace_all(text, "examples/jobs/rl.py\"", example_file("rl.py") + "\"");
  return write_job(dir, text);
}

}  // namespace

TEST_CASE("jobs: the failure that ended the job decides, not an earlier one that was restarted") {
  const auto run = run_cli({"run",
                            "--hosts",
                            "1",
                            "--name",
                            "a",
                            "--",
                            "sh",
                            "-c",
                            "sleep 1; exit 3",
                            ":",
                            "--name",
                            "b",
                            "--restart",
                            "on-failure:5",
                            "--restart-delay",
                            "60s",
                            "--",
                            "sh",
                            "-c",
                            "exit 1"});
  INFO(run.err);
  CHECK(run.status == ExitStatus::exited(3));
  CHECK(run.err.find("first failure: a ") != std::string::npos);
}

TEST_CASE("cli: run with : runs both programs, each with its ranks, its prefix and its role") {
  const auto finished = run_cli({"run",
                                 "--hosts",
                                 "2",
                                 "--name",
                                 "train",
                                 "-n",
                                 "2",
                                 "--",
                                 "sh",
                                 "-c",
                                 "echo $MESHBUS_ROLE $RANK/$WORLD_SIZE of $MESHBUS_ROLES",
                                 ":",
                                 "--per-host",
                                 "n=2",
                                 "--name",
                                 "roll",
                                 "-x",
                                 "A=b",
                                 "--",
                                 "sh",
                                 "-c",
                                 "echo $MESHBUS_ROLE $A $RANK/$WORLD_SIZE"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.err == "");
  CHECK(sorted(lines_of(finished.out)) ==
        Words{"[roll/0 host=0,n=0] roll b 0/4", "[roll/1 host=0,n=1] roll b 1/4",
              "[roll/2 host=1,n=0] roll b 2/4", "[roll/3 host=1,n=1] roll b 3/4",
              "[train/0 host=0,proc=0] train 0/2 of train,roll",
              "[train/1 host=1,proc=0] train 1/2 of train,roll"});
  CHECK(host_directories().empty());
}

TEST_CASE("cli: a failure in one program stops the others, and the job has its code") {
  const auto finished =
      run_cli({"run", "--name", "a", "--", "sleep", "600", ":", "--name", "b", "-n", "2", "--",
               "sh", "-c", "[ $RANK = 0 ] && exec sleep 600; exit 3"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(3));
  CHECK(has(finished.err, "stopped because of it: a rank 0, b rank 0\n"));
  CHECK(has(last_line(finished.err), "first failure: b rank 1 (host=0,proc=1 on "));
  CHECK(last_line(finished.err).ends_with(": exit 3"));
  CHECK(host_directories().empty());
}

TEST_CASE("cli: Ctrl-C, and --timeout, end all programs of a job") {
  const auto sleep = own_sleep();
  const Words words = {"--", "sh", "-c", "exec " + sleep, ":", "--", "sh", "-c", "exec " + sleep};
  Words run = {"run"};
  run.insert(run.end(), words.begin(), words.end());
  Process job(cli(run));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
  job.send_signal(SIGINT);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(has(job.err(), "Ctrl-C"));
  CHECK(sleepers(sleep).empty());

  run = {"run", "--timeout", "1s"};
  run.insert(run.end(), words.begin(), words.end());
  const auto finished = run_cli(run);
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(124));
  CHECK(has(finished.err, "this is where the ranks of sh are"));
  CHECK(has(finished.err, "this is where the ranks of sh_2 are"));
  CHECK(sleepers(sleep).empty());
}

TEST_CASE("cli: roles start after what they wait for, and a role ends the job") {
  const TempDir dir;
  const auto job = write_job(dir, R"(
[roles.last]
shell = "cat $DIR/prepared && cat $DIR/served"
after = ["server", "prepare:done"]
ends-job = true

[roles.prepare]
shell = "sleep 0.3; echo prepared > $DIR/prepared"

[roles.server]
shell = "echo starting; sleep 0.3; echo served > $DIR/served; echo ready now; exec sleep 600"
ready-text = "ready"
)");
  const auto finished = run_cli({"run", "--job", job, "--json", dir / "report.json"},
                                {.environment = {{"DIR", dir.path().string()}}});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(has(finished.out, "[last/0 host=0,proc=0] prepared\n[last/0 host=0,proc=0] served\n"));
  const auto report = parse_json(read_file(dir / "report.json"));
  REQUIRE(report.at("roles").size() == 3);
  CHECK(report.at("roles")[0].at("role") == "last");
  CHECK(has(report.at("roles")[2].at("ranks")[0].dump(), "last has ended, and the job with it"));
  CHECK(report.at("exit_code") == 0);
  CHECK(host_directories().empty());
}

TEST_CASE("cli: a role whose predecessor fails is not started, and the job says so") {
  const TempDir dir;
  const auto job = write_job(dir, R"(
[roles.a]
shell = "exit 5"
keep-going = true
[roles.b]
command = ["sleep", "600"]
after = ["a:done"]
)");
  const auto finished = run_cli({"run", "--job", job});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(5));
  CHECK(has(finished.err, "role b cannot be started any more: a has not ended with success"));
  CHECK(has(finished.err, "role b was not started: it waited for a to be done"));
}

TEST_CASE("cli: a program that is not there ends the job of several with 127, all stopped") {
  const auto sleep = own_sleep();
  const auto finished = run_cli(
      {"run", "--", "sh", "-c", "exec " + sleep, ":", "--name", "b", "--", "/no/such/program"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(127));
  CHECK(has(finished.err, "first failure: b rank 0"));
  CHECK(sleepers(sleep).empty());
}

TEST_CASE("cli: what is wrong in a job file is said with its line, and what would be right") {
  const std::string a = "[roles.a]\ncommand = [\"true\"]\n";
  CHECK(refusal_of(a + "proks = 2\n") ==
        "meshbus: FILE:3: [roles.a] there is no key 'proks'; did you mean 'procs'?");
  CHECK(refusal_of("timeuot = \"1s\"\n" + a) ==
        "meshbus: FILE:1: there is no key 'timeuot'; did you mean 'timeout'?");
  CHECK(refusal_of(a + "procs = -1\n") ==
        "meshbus: FILE:3: [roles.a] procs: takes a whole number from 1 to 1000000, not '-1'");
  CHECK(refusal_of(a + "timeout = \"1s\"\n") ==
        "meshbus: FILE:3: [roles.a] timeout is a key of the whole job: write it in front of the "
        "first [roles.NAME]");
  CHECK(refusal_of("procs = 2\n" + a) ==
        "meshbus: FILE:1: procs is a key of a role: write it behind [roles.NAME]");
  CHECK(has(refusal_of("[roles.a]\nprocs = 2\n"), "FILE:1: [roles.a] has no program: "));
  CHECK(has(refusal_of(a + a), "FILE:3:"));
  CHECK(refusal_of(a + "after = [\"c\"]\n[roles.b]\ncommand = [\"true\"]\nafter = [\"a\"]\n"
                       "[roles.c]\ncommand = [\"true\"]\nafter = [\"b\"]\n") ==
        "meshbus: FILE:1: [roles.a]: after: a waits for c waits for b waits for a: they wait for "
        "each other; leave one of these out");
  CHECK(has(refusal_of(a + "gang = \"all\"\n"), "FILE:3: [roles.a] gang requires --restart"));
  CHECK(has(refusal_of(a + "on = 3\n"), "FILE:1: [roles.a]: there is no host 3 for --on"));
  CHECK(has(refusal_of(a + "[roles.a.env]\nFINE = 1\n1x = 2\n"),
            "FILE:5: [roles.a] env: '1x' cannot be the name of a variable"));
  CHECK(has(refusal_of("hosts = 1\nenv = { no_such_variable = true }\n" + a),
            "FILE:2: env: no_such_variable is not set here"));
  CHECK(has(refusal_of("hosts = 1\nstall-stop = true\n" + a),
            "FILE:2: stall-stop requires --stall-after"));
  CHECK(has(refusal_of("hosts = 1\nset = [\"lease=30s\", \"lease=often\"]\n" + a), "FILE:2: "));
  CHECK(has(refusal_of(a + "[roles.A]\ncommand = [\"true\"]\n"),
            "FILE:3: [roles.A]: the roles 'a' and 'A' would both have the variable"));
  CHECK(has(refusal_of(a, {"-n", "3"}), "is for one program, and with --job"));
  CHECK(has(refusal_of(a, {"--", "true"}), "with --job the programs are in FILE"));
  CHECK(has(run_cli({"run", "--job", "/no/such/file"}).err,
            "/no/such/file: No such file or directory"));
  CHECK(has(run_cli({"run", "--job", "/dev/zero"}).err, "/dev/zero is larger than 1 MiB"));
  const auto job = run_cli({"run", "--", "true", ":", "--timeout", "1s", "--", "true"});
  CHECK(job.status == ExitStatus::exited(2));
  CHECK(has(job.err, "--timeout is for the whole job: give it in front of the first program"));
}

TEST_CASE("cli: settings of a job file stay when the command line has others") {
  const std::string a = "[roles.a]\ncommand = [\"true\"]\n";
  CHECK(has(refusal_of("set = [\"no.such.key=1\"]\n" + a, {"--set", "tail.lines=3"}),
            "FILE:1: there is no setting \"no.such.key\""));
  // The command line decides about a key that both have.
  const TempDir dir;
  const auto job = write_job(dir,
                             "set = [\"tail.lines=0\"]\n"
                             "[roles.a]\nshell = \"echo told >&2; exit 3\"\n");
  const auto silent = run_cli({"run", "--job", job});
  CHECK(silent.status == ExitStatus::exited(3));
  CHECK_FALSE(has(silent.err, "meshbus: | told"));
  const auto told = run_cli({"run", "--job", job, "--set", "tail.lines=3"});
  CHECK(told.status == ExitStatus::exited(3));
  CHECK(has(told.err, "meshbus: | told"));
}

TEST_CASE("cli: the job file of the examples runs, also when its trainer fails once") {
  const TempDir dir;
  const auto job =
      example_job(dir, {{"trainer", "[ $RANK$MESHBUS_RESTARTS = 10 ] && { sleep 0.5; exit 7; }"}});
  const auto finished = run_cli({"run", "--job", job});
  INFO(finished.err);
  INFO(finished.out);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(has(finished.out, "trainer 0 has done 20 steps"));
  CHECK(has(finished.out, "trainer 1 has done 20 steps"));
  CHECK(has(finished.err, "meshbus: trainer rank 1 "));
  CHECK(has(finished.err, "restart 1 of 2"));
  CHECK(host_directories().empty());
}

TEST_CASE("jobs: a rank that loses another role before its own stop is no failure of a done job") {
  StandingHost h0;
  StandingHost h1;
  const TempDir dir;
  const auto wait = [&dir](const std::string& file) {
    return "until test -e " + dir / file + "; do sleep 0.02; done\n";
  };
  // The order to stop reaches the client when it has ended with 3: its host hears nothing until
  // the store, which is stopped first, lets it.
  const auto broker = std::to_string(h1.roles().broker);
  std::ofstream(dir / "store.sh") << "trap 'touch " + dir / "gone" + "\n" + wait("left") +
                                         "sleep 0.3; kill -CONT " + broker +
                                         "; exit 0' TERM\ntouch " + dir / "up" +
                                         "\nwhile :; do sleep 0.02; done\n";
  std::ofstream(dir / "client.sh")
      << "touch " + dir / "there" + "\n" + wait("gone") + "touch " + dir / "left" + "\nexit 3\n";
  std::ofstream(dir / "main.sh") << wait("up") + wait("there") + "sleep 0.3; kill -STOP " + broker +
                                        "\n";
  std::string text = "hosts = 2\n";
  const auto add = [&](const std::string& role, const std::string& keys) {
    text += "[roles." + role + "]\ncommand = [\"sh\", \"" + dir / (role + ".sh") + "\"]\n" + keys;
  };
  add("store", "on = 0\n");
  add("client", "on = 1\n");
  add("main", "on = 0\nends-job = true\n");
  const auto report = dir / "report.json";
  const auto run = run_cli({"run", "--hosts", h0.address() + "," + h1.address(), "--json", report,
                            "--job", write_job(dir, text)});
  INFO(run.err);
  CHECK(run.status == ExitStatus::exited(0));
  CHECK_FALSE(has(run.err, "first failure"));
  const auto json = nlohmann::json::parse(read_file(report));
  CHECK(json.at("exit_code") == 0);
  CHECK(json.at("roles").at(1).at("ranks").at(0).at("exit_code") == 3);
}

TEST_CASE(
    "jobs: a rank that loses the role that ends the job is no failure, also when told first") {
  StandingHost h0;
  StandingHost h1;
  const TempDir dir;
  // The end of the main role is heard of late: its host says nothing until the store is stopped,
  // because the client has ended with 3.
  const auto broker = std::to_string(h1.roles().broker);
  std::ofstream(dir / "store.sh") << "trap 'kill -CONT " + broker + "; exit 0' TERM\ntouch " +
                                         dir / "up" + "\nwhile :; do sleep 0.02; done\n";
  std::ofstream(dir / "client.sh") << "until test -s " + dir / "main.pid" +
                                          "; do sleep 0.02; done\n"
                                          "while kill -0 $(cat " +
                                          dir / "main.pid" +
                                          ") 2>/dev/null; do sleep 0.02; done\nexit 3\n";
  std::ofstream(dir / "main.sh") << "until test -e " + dir / "up" +
                                        "; do sleep 0.02; done\nkill -STOP " + broker +
                                        "\necho $$ >" + dir / "main.tmp" + "\nmv " +
                                        dir / "main.tmp" + " " + dir / "main.pid" + "\nexit ";
  std::string text = "hosts = 2\n";
  const auto add = [&](const std::string& role, const std::string& keys) {
    text += "[roles." + role + "]\ncommand = [\"sh\", \"" + dir / (role + ".sh") + "\"]\n" + keys;
  };
  add("store", "on = 0\n");
  add("client", "on = 0\n");
  add("main", "on = 1\nends-job = true\n");
  const auto job = write_job(dir, text);
  const auto main = read_file(dir / "main.sh");
  // A main role that fails is the first failure, also when it is told last.
  for (const int code : {0, 4}) {
    CAPTURE(code);
    for (const char* file : {"up", "main.pid"}) std::filesystem::remove(dir / file);
    std::ofstream(dir / "main.sh") << main << code << "\n";
    const auto run = run_cli({"run", "--hosts", h0.address() + "," + h1.address(), "--job", job});
    INFO(run.err);
    CHECK(run.status == ExitStatus::exited(code));
    CHECK(has(run.err, "first failure: main") == (code != 0));
    CHECK_FALSE(has(run.err, "first failure: client"));
  }
}

TEST_CASE("cli: the services of the compose file of the examples run as roles") {
  const TempDir dir;
  const auto finished =
      run_cli({"run", "--job", example_file("web.toml")}, {.environment = {{"WEB", dir / "web"}}});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(has(finished.out, "[check/0 host=0,proc=0] hello\n"));
  CHECK(has(finished.out, "[check/0 host=0,proc=0]  blue\n"));
}

TEST_CASE("cli: the failure of each role over three hosts is one story") {
  StandingHost h0;
  StandingHost h1;
  StandingHost h2;
  const std::string hosts = h0.address() + "," + h1.address() + "," + h2.address();
  struct Failure {
    std::string role;
    /// What its ranks do before and after a rank of each role is there.
    std::string before, after;
    int code;
    std::string first;
  };
  for (const auto& failure : {
           Failure{"store", "{", "kill -9 $$; } & :", 137, "store rank 0 "},
           Failure{"trainer", "[ $RANK = 1 ] && {", "exit 4; }", 4, "trainer rank 1 "},
           Failure{"rollout", "[ $RANK = 2 ] && {", "exit 6; }", 6, "rollout rank 2 "},
       }) {
    CAPTURE(failure.role);
    const TempDir dir;
    std::map<std::string, std::string> begins;
    std::string all;
    for (const std::string role : {"store", "trainer", "rollout"}) {
      begins[role] = "touch " + dir / (role + ".$RANK");
      all += (all.empty() ? "test -e " : " && test -e ") + dir / (role + ".0");
    }
    begins[failure.role] +=
        "; " + failure.before + " until " + all + "; do sleep 0.05; done; " + failure.after;
    const auto job = example_job(dir, begins);
    // It ends with its failure, and not before.
    auto text = read_file(job);
    replace_all(text, "STEPS = 20", "STEPS = 20000");
    std::ofstream(job) << text;
    const auto finished = run_cli({"run", "--hosts", hosts, "--job", job});
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(failure.code));
    CHECK(has(last_line(finished.err), "first failure: " + failure.first));
    for (const std::string role : {"store", "trainer", "rollout"}) {
      const auto why = run_cli({"why", "--hosts", hosts, role});
      INFO(why.out);
      CHECK(why.status == ExitStatus::exited(0));
      const auto lines = lines_of(why.out);
      REQUIRE(lines.size() > 3);
      CHECK(lines[0].starts_with("mesh " + role + "-"));
      CHECK(has(lines[0], ", in one job with "));
      CHECK(lines[1] == "first:");
      CHECK(has(lines[2], failure.first));
      CHECK(has(why.out, "because of it:"));
      for (const std::string other : {"store", "trainer", "rollout"})
        CHECK(has(why.out, other + " rank"));
    }
  }
}

TEST_CASE("cli: what a rank writes into its error file is in the last words and in why") {
  StandingHost host;
  const auto finished = run_cli(
      {"run", "--hosts", host.address(), "-n", "2", "--", "sh", "-c",
       "test -n \"$TORCHELASTIC_ERROR_FILE\" || exit 9; [ $RANK = 0 ] && exec sleep 600; "
       R"(echo '{"message": {"message": "ValueError: no data", "extraInfo": {"py_callstack": )"
       R"("  File \"x.py\", line 3, in f"}}}' >$TORCHELASTIC_ERROR_FILE; exit 1)"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(1));
  const std::string words = "exit 1: ValueError: no data (File \"x.py\", line 3, in f)";
  CHECK(has(last_line(finished.err), words));
  const auto why = run_cli({"why", "--hosts", host.address()});
  INFO(why.out);
  CHECK(has(why.out, words));
  // The file is gone.
  for (const auto& directory : host_directories()) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
      CHECK_FALSE(entry.path().string().ends_with(".error"));
  }
}
