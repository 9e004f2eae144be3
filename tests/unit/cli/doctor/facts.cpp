#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include "cli/doctor/facts_json.h"
#include "cli/doctor/link_plan.h"
#include "cli/doctor/login_session.h"

using namespace meshbus;
using namespace meshbus::cli::doctor;

TEST_CASE("doctor facts: what a probe sends is read as it was") {
  HostFacts facts;
  facts.version = "1.0";
  facts.is_root = true;
  facts.descriptors = {1024, kUnlimited};
  facts.tasks = TaskFacts{5, 100, "RLIMIT_NPROC"};
  facts.storage = {{.use = kRunDirectory,
                    .path = "/run",
                    .problem = "",
                    .free_bytes = 7,
                    .size_bytes = 9,
                    .free_files = {},
                    .device = 4}};
  facts.name = {"h1", {"10.0.0.1"}, "none"};
  facts.is_clock_synchronised = false;
  facts.session = {"session-1.scope", true, false};
  facts.keys = {{.path = "/k", .problem = "p", .expires = 12}};
  facts.leftovers = {"/run/host-1"};
  const auto json = facts_json(facts);
  const auto read = parse_facts(json.dump());
  REQUIRE(read.has_value());
  CHECK(facts_json(*read) == json);
  CHECK(read->descriptors.hard == kUnlimited);
  CHECK_FALSE(read->storage[0].free_files);
  CHECK(read->keys[0].expires == 12);
}

TEST_CASE("doctor facts: bytes that are none are an error") {
  for (const char* const text : {"", "{}", "[1]", R"({"version": 3})", "\xff"}) {
    CAPTURE(text);
    CHECK(parse_facts(text).error().code() == ErrorCode::malformed_message);
  }
}

TEST_CASE("doctor session: the scope of a login session is found, and no other one") {
  CHECK(session_scope("0::/user.slice/user-1000.slice/session-3.scope/meshbus-1f00c2ab\n") ==
        "session-3.scope");
  CHECK(session_scope("4:memory:/\n1:name=systemd:/user.slice/session-c2.scope\n") ==
        "session-c2.scope");
  CHECK(session_scope("0::/system.slice/meshbus-host.service\n").empty());
  CHECK(session_scope("0::/session-3\n1:x:/a.scope\n").empty());
}

TEST_CASE("doctor session: the last word of logind.conf counts") {
  const std::string text = "[Login]\n#KillUserProcesses=no\nKillUserProcesses=yes\n";
  CHECK(logind_setting(text, "KillUserProcesses", "no") == "yes");
  CHECK(logind_setting(text + "KillUserProcesses=no\n", "KillUserProcesses", "no") == "no");
  CHECK(logind_setting(text, "KillExcludeUsers", "root") == "root");
}

TEST_CASE("doctor links: of few hosts each pair is measured once, of many each host a few times") {
  for (std::size_t count = 0; count <= 40; ++count) {
    CAPTURE(count);
    std::set<std::pair<std::size_t, std::size_t>> pairs;
    std::vector<std::size_t> degree(count);
    const auto rounds = plan_links(count);
    for (const auto& round : rounds) {
      std::set<std::size_t> busy;
      for (const auto& [a, b] : round) {
        CHECK(a < b);
        CHECK(b < count);
        CHECK(busy.insert(a).second);
        CHECK(busy.insert(b).second);
        CHECK(pairs.insert({a, b}).second);
        ++degree[a];
        ++degree[b];
      }
    }
    if (count <= 8) {
      CHECK(pairs.size() == count * (count - (count > 0 ? 1 : 0)) / 2);
    } else {
      CHECK(*std::min_element(degree.begin(), degree.end()) >= 3);
    }
    CHECK(rounds.size() <= 8);
  }
}
