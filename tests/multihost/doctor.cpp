// `meshbus doctor` on several hosts whose network fails: cut, slow and gone are told apart, in one
// line each.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "tests/multihost/site.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// What `meshbus doctor --json` says of the site, and how long it took.
struct Examined {
  nlohmann::json report;
  std::chrono::milliseconds took;
};

Examined examine(const Site& site, int exit_code) {
  const auto finished = site.desk().run(
      {bin("meshbus"), "doctor", "--timeout", "3s", "--json", "--hosts", site.addresses()},
      in_time);
  INFO(finished.out << finished.err);
  CHECK(finished.status == ExitStatus::exited(exit_code));
  return {nlohmann::json::parse(finished.out), finished.elapsed};
}

/// "cut host1" for each finding, by the number of the host. That all of this lab is on one machine,
/// which may be busy, is nobody's fault.
std::vector<std::string> found(const Site& site, const nlohmann::json& report) {
  std::vector<std::string> words;
  for (const auto& finding : report.at("findings")) {
    std::string word = finding.at("code");
    if (word == "busy") continue;
    for (const auto& host : finding.at("hosts")) {
      for (std::size_t i = 0; i < site.lab.size(); ++i) {
        if (host == site.address(i)) word += " host" + std::to_string(i);
      }
    }
    words.push_back(word);
  }
  return words;
}

}  // namespace

TEST_CASE("multihost: doctor finds the cut, the slow and the gone, and is silent of sound hosts") {
  Site site(4);
  const auto sound = examine(site, 0);
  INFO(sound.report.at("findings").dump());
  CHECK(found(site, sound.report).empty());
  // From the desk to each, and every pair.
  CHECK(sound.report.at("links").size() == 4 + 6);
  MESSAGE("4 sound hosts took " << sound.took.count() << " ms");

  site.lab.delay(2, {.delay = 30ms});
  const auto slow = examine(site, 0);
  CHECK(found(site, slow.report) == std::vector<std::string>{"slow host2"});
  MESSAGE(slow.report.at("findings")[0].at("what"));
  CHECK(!slow.report.at("hosts")[3].at("own_round_trip_ms").is_null());
  site.lab.delay(2, {});

  site.lab.cut(0, 1);
  const auto cut = examine(site, 1);
  CHECK(found(site, cut.report) == std::vector<std::string>{"cut host0"});
  MESSAGE("with a cut it took " << cut.took.count()
                                << " ms: " << cut.report.at("findings")[0].at("what"));
  CHECK(cut.took < 30s);
  site.lab.heal();

  site.lab.freeze(3);
  const auto frozen = examine(site, 1);
  CHECK(found(site, frozen.report) == std::vector<std::string>{"no_answer host3"});
  CHECK(frozen.took < 15s);
  site.lab.thaw(3);

  site.lab.power_off(3);
  const auto gone = examine(site, 1);
  CHECK(found(site, gone.report) == std::vector<std::string>{"no_answer host3"});
  MESSAGE("with a host that is off it took "
          << gone.took.count() << " ms: " << gone.report.at("findings")[0].at("what"));
  CHECK(gone.took < 15s);
}
