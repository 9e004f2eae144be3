// `meshbus run`: what procs are set to before they execute their command (spec 5.6).
#include <doctest/doctest.h>

#include "tests/world/command_line.h"

using namespace meshbus::test;

TEST_CASE("cli: --nice, --umask, --cpu-set and --rlimit reach every rank") {
  const auto finished =
      run_cli({"run", "-n", "2", "--no-prefix", "--nice", "3", "--umask", "077", "--cpu-set", "0",
               "--rlimit", "core=0", "--rlimit", "nofile=64:1K", "--", "sh", "-c",
               "echo $(nice) $(umask) $(grep Cpus_allowed_list /proc/self/status | cut -f2) "
               "$(ulimit -c) $(ulimit -n) "
               "$(ulimit -H -n)"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out == "3 0077 0 0 64 1024\n3 0077 0 0 64 1024\n");
}

TEST_CASE("cli: settings that cannot be had are refused by name, before anything is started") {
  struct {
    Words options;
    int code;
    std::string text;
  } const cases[] = {{{"--nice", "20"}, 2, "--nice"},
                     {{"--umask", "888"}, 2, "octal"},
                     {{"--umask", "1777"}, 2, "octal"},
                     {{"--cpu-set", "3-1"}, 2, "takes CPUs"},
                     {{"--cpu-set", ""}, 2, "--cpu-set"},
                     {{"--rlimit", "moon=1"}, 2, "nofile"},
                     {{"--rlimit", "core=2:1"}, 2, "SOFT:HARD"},
                     {{"--rlimit", "as=99999999T"}, 2, "takes a number"},
                     {{"--cpu-set", "1023"}, 2, "there is no CPU 1023"},
                     {{"--rlimit", "nofile=4000000000"}, 125, "RLIMIT_NOFILE"}};
  for (const auto& one : cases) {
    Words words{"run"};
    words.insert(words.end(), one.options.begin(), one.options.end());
    words.insert(words.end(), {"--", "true"});
    CAPTURE(one.options.back());
    const auto finished = run_cli(words);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(one.code));
    CHECK(finished.err.find(one.text) != std::string::npos);
  }
}
