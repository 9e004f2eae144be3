// Job files (spec 17.6): what they mean, and what is wrong with them, by line.
#include "cli/run/job_file.h"

#include <doctest/doctest.h>

using meshbus::cli::JobFileVariable;
using meshbus::cli::parse_job_file;
using Words = std::vector<std::string>;

namespace {

std::string problem_of(std::string_view text) {
  const auto job = parse_job_file(text, "rl.toml");
  REQUIRE_FALSE(job.has_value());
  CHECK(job.error().code() == meshbus::ErrorCode::parse_error);
  return job.error().detail();
}

}  // namespace

TEST_CASE("job_file: keys are flags, roles stand in the order of the file") {
  const auto job = parse_job_file(R"(
hosts = 3
timeout = "1h"
set = ["lease=30s", "terminate.grace=1s"]
env = { SEED = 7, TOKEN = true }

[roles.store]
command = ["python3", "store.py", 8]
on = [0, 2]
mesh = true
torch = false

[roles.actor]
shell = "exec ./actor"
after = ["store", "prepare:done"]
env = { LR = 0.5 }
)",
                                  "rl.toml");
  INFO((job ? "" : job.error().detail()));
  REQUIRE(job.has_value());
  REQUIRE(job->entries.size() == 3);
  CHECK(job->entries[0].words == Words{"--hosts=3"});
  CHECK(job->entries[1].words == Words{"--timeout=1h"});
  CHECK(job->entries[2].words == Words{"--set=lease=30s", "--set=terminate.grace=1s"});
  REQUIRE(job->environment.size() == 2);
  CHECK(job->environment[0] == JobFileVariable{"SEED", "7", 5});
  CHECK(job->environment[1] == JobFileVariable{"TOKEN", std::nullopt, 5});
  REQUIRE(job->roles.size() == 2);
  const auto& store = job->roles[0];
  CHECK(store.name == "store");
  CHECK(store.line == 7);
  CHECK(store.command == Words{"python3", "store.py", "8"});
  REQUIRE(store.entries.size() == 3);
  CHECK(store.entries[0].words == Words{"--on=0,2"});
  CHECK(store.entries[0].line == 9);
  CHECK(store.entries[1].words == Words{"--mesh"});
  CHECK(store.entries[2].key == "torch");
  CHECK(store.entries[2].words.empty());
  const auto& actor = job->roles[1];
  CHECK(actor.command == Words{"sh", "-c", "exec ./actor"});
  CHECK(actor.entries[0].words == Words{"--after=store,prepare:done"});
  CHECK(actor.environment[0] == JobFileVariable{"LR", "0.5", 16});
}

TEST_CASE("job_file: what is wrong is said with file, line and what would be right") {
  CHECK(problem_of("hosts = ").starts_with("rl.toml:1:9: this is no TOML: "));
  CHECK(problem_of("[roles.a]\ncommand = [\"x\"]\n[roles.a]\ncommand = [\"y\"]\n")
            .starts_with("rl.toml:3:"));
  CHECK(problem_of("hosts = 2\n").find("there is no role in it; begin one with [roles.NAME]") !=
        std::string::npos);
  CHECK(problem_of("\n\nroles = 3\n") ==
        "rl.toml:3: roles: takes a table for each role, [roles.NAME]");
  CHECK(problem_of("roles.a = 3\n") == "rl.toml:1: roles.a: takes a table, [roles.a]");
  CHECK(problem_of("[roles.a]\nprocs = 2\n")
            .starts_with("rl.toml:1: [roles.a] has no program: "
                         "add command = "));
  CHECK(problem_of("[roles.a]\ncommand = [\"x\"]\nshell = \"y\"\n") ==
        "rl.toml:3: [roles.a] has both command and shell: take one of them");
  CHECK(problem_of("[roles.a]\ncommand = \"x y\"\n")
            .starts_with("rl.toml:2: [roles.a] command: takes the program and its arguments"));
  CHECK(problem_of("[roles.a]\ncommand = []\n").starts_with("rl.toml:2: [roles.a] command: "));
  CHECK(problem_of("[roles.a]\nshell = 3\n") ==
        "rl.toml:2: [roles.a] shell: takes a line of sh as a text");
  CHECK(problem_of("[roles.a]\nafter = []\n") == "rl.toml:2: after: is empty; leave it out");
  CHECK(problem_of("[roles.a]\nafter = [[1]]\n") ==
        "rl.toml:2: after: takes texts and numbers in its list");
  CHECK(problem_of("[roles.a]\nwhen = 2026-01-01\n") ==
        "rl.toml:2: when: takes a text, a number, true, false or a list of these");
  CHECK(problem_of("env = 3\n") ==
        "rl.toml:1: env: takes a table of variables, env = { NAME = \"value\" }");
  CHECK(problem_of("env = { A = [1] }\n").starts_with("rl.toml:1: env: A: takes a text"));
}
