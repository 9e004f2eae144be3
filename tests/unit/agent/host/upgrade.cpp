// What an agent checks before programs are replaced, and what the warden tells of it.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "agent/host/services/program_release.h"
#include "agent/host/services/warden_report.h"
#include "tests/support/temp_dir.h"

namespace meshbus::host {

TEST_CASE("program_release: what a program says is read, and nothing else is") {
  const auto own =
      ProgramRelease::parse(ProgramRelease::own_text("meshbus-agent"), "meshbus-agent");
  REQUIRE(own.has_value());
  CHECK_FALSE(own->release.empty());
  CHECK(own->check_takes_over().has_value());
  for (const char* const text : {"", "meshbus-agent", "meshbus-agent ", "meshbus-agent 1.0 x\n",
                                 "meshbus-broker 1.0\n", "\nmeshbus-agent 1.0\n"}) {
    const auto parsed = ProgramRelease::parse(text, "meshbus-agent");
    CAPTURE(text);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code() == ErrorCode::refused);
  }
}

TEST_CASE("program_release: an agent takes over when one of its sets of formats is ours") {
  const std::string newer = "meshbus-agent 2.0.0\nnews: yes\ntakes over: keeper 9.9\n";
  const auto other = ProgramRelease::parse(newer, "meshbus-agent");
  REQUIRE(other.has_value());
  REQUIRE_FALSE(other->check_takes_over().has_value());
  CHECK(other->check_takes_over().error().detail().find("2.0.0") != std::string::npos);
  const auto both = ProgramRelease::parse(
      newer + "takes over: " + ProgramRelease::own_formats() + "\n", "meshbus-agent");
  REQUIRE(both.has_value());
  CHECK(both->check_takes_over().has_value());
}

TEST_CASE("program_release: a program that others may change is not trusted") {
  const ::meshbus::test::TempDir dir;
  const std::string file = std::filesystem::canonical(dir.path()) / "program";
  std::ofstream(file) << "x";
  REQUIRE(::chmod(file.c_str(), 0755) == 0);
  CHECK(check_trusted(file).has_value());
  REQUIRE(::chmod(file.c_str(), 0775) == 0);
  REQUIRE_FALSE(check_trusted(file).has_value());
  CHECK(check_trusted(file).error().code() == ErrorCode::refused);
  REQUIRE(::chmod(file.c_str(), 0755) == 0);
  REQUIRE(::chmod(dir.path().c_str(), 0777) == 0);
  CHECK_FALSE(check_trusted(file).has_value());
  REQUIRE(::chmod(dir.path().c_str(), 0700) == 0);
  CHECK(check_trusted(file + "x").error().code() == ErrorCode::io_error);
}

TEST_CASE("warden_report: roles and the last upgrade are told, and nonsense changes nothing") {
  WardenReport report;
  CHECK_FALSE(report.take("stop", "0"));
  CHECK(report.take("roles", "warden 7 0.1.0 /opt/my programs/meshbus\nkeeper 8 - /x/keeper\n"));
  CHECK(report.take("upgraded", "3 rolled_back 10 20\n/opt/new\nunix:/x,me\nthe agent\nfailed"));
  const auto check = [&report] {
    wire::HostStateT state;
    report.add_to(state);
    REQUIRE(state.roles.size() == 2);
    CHECK(state.roles[0]->role == "warden");
    CHECK(state.roles[0]->pid == 7);
    CHECK(state.roles[0]->release == "0.1.0");
    CHECK(state.roles[0]->program == "/opt/my programs/meshbus");
    CHECK(state.roles[1]->release.empty());
    REQUIRE(state.upgrade != nullptr);
    CHECK(state.upgrade->number == 3);
    CHECK(state.upgrade->outcome == wire::UpgradeOutcome::rolled_back);
    CHECK(state.upgrade->ended_ns == 20);
    CHECK(state.upgrade->programs == "/opt/new");
    CHECK(state.upgrade->by == "unix:/x,me");
    CHECK(state.upgrade->detail == "the agent\nfailed");
  };
  check();
  for (const char* const text : {"", "x", "1 done 1", "1 odd 1 1\n", "1 done 1 x\n", "-1 done 1 1"})
    CHECK(report.take("upgraded", text));
  CHECK(report.take("roles", "keeper x 0.1.0 /y"));
  check();
}

}  // namespace meshbus::host
