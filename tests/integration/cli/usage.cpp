// The command line itself: help, version, and mistakes (spec 12.1).
#include <doctest/doctest.h>

#include "tests/world/command_line.h"

using namespace meshbus::test;

namespace {

void check_refused(const Words& words, std::string_view with) {
  const auto finished = run_cli(words);
  std::string line;
  for (const std::string& word : words) line += " " + word;
  INFO("meshbus" << line << "\n" << finished.err);
  CHECK(finished.status == ExitStatus::exited(2));
  CHECK(finished.out == "");
  CHECK(finished.err.starts_with("meshbus: "));
  CHECK(finished.err.find(with) != std::string::npos);
}

}  // namespace

TEST_CASE("cli: a mistake on the command line is explained and exits 2") {
  check_refused({"rnu"}, "did you mean 'run'?");
  check_refused({"shutdwon"}, "did you mean 'shutdown'?");
  check_refused({"xyzzy"}, "meshbus --help");
  check_refused({"run", "--hots", "2", "--", "true"}, "did you mean --hosts?");
  check_refused({"run", "--keep-gong", "--", "true"}, "did you mean --keep-going?");
  check_refused({"run", "--no-such-flag-at-all", "--", "true"}, "--no-such-flag-at-all");
  check_refused({"run"}, "Give a command");
  check_refused({"run", "-n", "4"}, "Give a command");
  check_refused({"run", "-n", "4", "--"}, "Give a command");
  check_refused({}, "");
  check_refused({"stop"}, "no mesh is named: give one, a pattern like 'train-*', or --all");
}

TEST_CASE(
    "cli: a bad value is refused with the form that was expected, before anything is started") {
  check_refused({"run", "--timeout", "soon", "--", "true"}, "'soon' is not a duration");
  check_refused({"run", "-n", "0", "--", "true"}, "1000000");
  check_refused({"run", "-n", "many", "--", "true"}, "many");
  check_refused({"run", "--hosts", "0", "--", "true"}, "--hosts");
  check_refused({"run", "--per-host", "gpus", "--", "true"}, "--per-host");
  check_refused({"run", "--per-host", "gpus=2", "-n", "4", "--", "true"}, "--per-host");
  check_refused({"run", "--per-host", "host=2", "--", "true"}, "host");
  check_refused({"run", "--stdin", "first", "--", "true"}, "first");
  check_refused({"run", "-n", "2", "--stdin", "2", "--", "true"}, "ranks 0..1");
  check_refused({"run", "--containment", "hope", "--", "true"}, "hope");
  check_refused({"run", "-x", "NO_SUCH_VARIABLE_HERE", "--", "true"}, "NO_SUCH_VARIABLE_HERE");
  check_refused({"run", "--hosts", "nonsense:1", "--", "true"}, "nonsense");
  check_refused({"run", "--set", "spawn.redy=1s", "--", "true"}, "spawn.ready");
  check_refused({"run", "--set", "spawn.ready=often", "--", "true"}, "often");
  check_refused({"run", "--name", "not a name", "--", "true"}, "name");
  check_refused({"ps", "--hosts", "nonsense"}, "nonsense");
}

TEST_CASE("cli: help and version") {
  const auto help = run_cli({"--help"});
  CHECK(help.status == ExitStatus::exited(0));
  for (const char* word :
       {"run", "host", "ps", "stop", "shutdown", "version", "meshbus run -n 4"}) {
    CAPTURE(word);
    CHECK(help.out.find(word) != std::string::npos);
  }
  const auto of_run = run_cli({"run", "--help"});
  CHECK(of_run.status == ExitStatus::exited(0));
  for (const char* word : {"--hosts", "--per-host", "--mesh", "--name", "--timeout", "--grace",
                           "--keep-going", "--no-prefix", "-x", "--stdin", "--json", "Exit code"}) {
    CAPTURE(word);
    CHECK(of_run.out.find(word) != std::string::npos);
  }
  CHECK(run_cli({"host", "--help"}).status == ExitStatus::exited(0));
  const auto version = run_cli({"version"});
  CHECK(version.status == ExitStatus::exited(0));
  CHECK(version.out.starts_with("meshbus "));
  const auto in_json = parse_json(run_cli({"version", "--json"}).out);
  CHECK("meshbus " + in_json.at("version").get<std::string>() + "\n" == version.out);
  CHECK(run_cli({"--version"}).out == version.out);
}
