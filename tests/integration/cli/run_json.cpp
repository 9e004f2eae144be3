// `meshbus run --json`: the report of all ranks.
#include <doctest/doctest.h>

#include <csignal>
#include <set>

#include "tests/world/command_line.h"

using namespace meshbus::test;
using nlohmann::json;

namespace {

/// "2024-05-06T07:08:09.123456Z"
bool is_time(const json& value) {
  if (!value.is_string()) return false;
  const auto text = value.get<std::string>();
  const std::string form = "dddd-dd-ddTdd:dd:dd.ddddddZ";
  if (text.size() != form.size()) return false;
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (form[i] == 'd' ? std::isdigit(static_cast<unsigned char>(text[i])) == 0
                       : text[i] != form[i])
      return false;
  }
  return true;
}

void check_fields(const json& report, std::size_t ranks) {
  std::set<std::string> names;
  for (const auto& [name, value] : report.items()) names.insert(name);
  CHECK(names == std::set<std::string>{"mesh", "region", "ranks", "former_lives", "first_failure",
                                       "exit_code", "attempts", "binding", "stacks"});
  REQUIRE(report.at("ranks").size() == ranks);
  for (const json& rank : report.at("ranks")) {
    std::set<std::string> fields;
    for (const auto& [name, value] : rank.items()) fields.insert(name);
    for (const char* field : {"rank", "host", "point", "pid", "status", "exit_code", "signal",
                              "started", "ended", "stderr_tail"}) {
      CAPTURE(field);
      CHECK(fields.contains(field));
    }
    CHECK(rank.at("host").get<std::string>().starts_with("unix:/"));
    CHECK(rank.at("stderr_tail").is_array());
  }
}

}  // namespace

TEST_CASE("cli: --json reports a success, a failure and a signal") {
  const TempDir dir;
  const char* script = R"(
    case $RANK in
      0) echo fine >&2; exit 0;;
      1) printf 'one\ntwo' >&2; exit 3;;
      2) kill -USR1 $$;;
      3) exit 0;;
    esac)";
  const auto finished =
      run_cli({"run", "--name", "mixed", "--hosts", "2", "--per-host", "gpus=2", "--keep-going",
               "--json", dir / "report", "--", "sh", "-c", script});
  const json report = parse_json(read_file(dir / "report"));
  INFO(report.dump(2));
  check_fields(report, 4);
  CHECK(report.at("mesh").get<std::string>().starts_with("mixed-"));
  CHECK(report.at("region") == "host=2/2,gpus=2/1");
  const auto& ranks = report.at("ranks");
  const Words points = {"host=0/2,gpus=0/2", "host=0/2,gpus=1/2", "host=1/2,gpus=0/2",
                        "host=1/2,gpus=1/2"};
  std::set<long> pids;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(ranks[rank].at("rank") == rank);
    CHECK(ranks[rank].at("point") == points[rank]);
    CHECK(ranks[rank].at("pid").get<long>() > 1);
    pids.insert(ranks[rank].at("pid").get<long>());
    CHECK(is_time(ranks[rank].at("started")));
    CHECK(is_time(ranks[rank].at("ended")));
    CHECK(ranks[rank].at("started").get<std::string>() <=
          ranks[rank].at("ended").get<std::string>());
  }
  CHECK(pids.size() == 4);
  CHECK(ranks[0].at("host") == ranks[1].at("host"));
  CHECK(ranks[2].at("host") == ranks[3].at("host"));
  CHECK(ranks[0].at("host") != ranks[2].at("host"));

  CHECK(ranks[0].at("status") == "stopped");
  CHECK(ranks[0].at("exit_code") == 0);
  CHECK(ranks[0].at("signal") == nullptr);
  CHECK(ranks[0].at("stderr_tail") == json({"fine"}));
  CHECK(ranks[1].at("status") == "stopped");
  CHECK(ranks[1].at("exit_code") == 3);
  CHECK(ranks[1].at("signal") == nullptr);
  CHECK(ranks[1].at("stderr_tail") == json({"one", "two"}));
  CHECK(ranks[2].at("status") == "killed");
  CHECK(ranks[2].at("exit_code") == nullptr);
  CHECK(ranks[2].at("signal") == SIGUSR1);
  CHECK(ranks[2].at("stderr_tail") == json::array());
  CHECK(ranks[3].at("exit_code") == 0);

  const int first = report.at("first_failure").get<int>();
  CHECK((first == 1 || first == 2));
  CHECK(report.at("exit_code") == (first == 1 ? 3 : 128 + SIGUSR1));
  CHECK(finished.status == ExitStatus::exited(report.at("exit_code").get<int>()));
}

TEST_CASE("cli: --json tells a rank that failed from those that were stopped because of it") {
  const TempDir dir;
  const std::string sleep = own_sleep();
  const auto finished = run_cli({"run", "-n", "3", "--json", dir / "report", "--", "sh", "-c",
                                 "[ $RANK = 1 ] && exit 3; exec " + sleep});
  CHECK(finished.status == ExitStatus::exited(3));
  const json report = parse_json(read_file(dir / "report"));
  INFO(report.dump(2));
  check_fields(report, 3);
  CHECK(report.at("first_failure") == 1);
  CHECK(report.at("exit_code") == 3);
  CHECK(report.at("ranks")[1].at("status") == "stopped");
  CHECK(report.at("ranks")[1].at("exit_code") == 3);
  CHECK(report.at("ranks")[1].at("stop") == nullptr);
  for (const std::size_t rank : {0U, 2U}) {
    CAPTURE(rank);
    const auto& stopped = report.at("ranks")[rank];
    CHECK(is_time(stopped.at("ended")));
    CHECK(stopped.at("signal") == SIGTERM);
    CHECK(stopped.at("exit_code") == nullptr);
    // Asked to end, so no failure (spec 4.2): the report has the last step of the stop, the
    // requester and the reason.
    CHECK(stopped.at("status") == "stopped");
    CHECK(stopped.at("stop").at("step") == "term");
    CHECK(stopped.at("stop").at("by").get<std::string>().find("client-") != std::string::npos);
    CHECK(stopped.at("stop").at("reason") == "rank 1 failed: exit 3");
  }
}

TEST_CASE("cli: --json reports what could not be started") {
  const TempDir dir;
  const auto finished =
      run_cli({"run", "-n", "2", "--json", dir / "report", "--", "/no/such/file"});
  CHECK(finished.status == ExitStatus::exited(127));
  const json report = parse_json(read_file(dir / "report"));
  INFO(report.dump(2));
  check_fields(report, 2);
  CHECK(report.at("exit_code") == 127);
  CHECK(report.at("first_failure") == 0);
  CHECK(report.at("ranks")[0].at("status") == "failed");
  CHECK(report.at("ranks")[0].at("pid") == nullptr);
  CHECK(report.at("ranks")[0].at("exit_code") == nullptr);
  CHECK(report.at("ranks")[0].at("signal") == nullptr);
  CHECK(report.at("ranks")[0].at("reason").get<std::string>().find("/no/such/file") !=
        std::string::npos);
}

TEST_CASE("cli: --json - writes the report to stdout, and a file that cannot be written is said") {
  const auto finished = run_cli({"run", "--json", "-", "--", "true"});
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(parse_json(finished.out).at("exit_code") == 0);
  const auto failed = run_cli({"run", "--json", "/no/such/directory/report", "--", "true"});
  CHECK(failed.status == ExitStatus::exited(2));
  CHECK(failed.err.find("/no/such/directory/report") != std::string::npos);
}
