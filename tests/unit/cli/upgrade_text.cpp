#include "cli/support/upgrade_text.h"

#include <doctest/doctest.h>

namespace meshbus::cli {
namespace {

std::vector<HostRoleReport> roles_of(const std::string& keeper, const std::string& agent) {
  return {{"warden", 1, keeper, "/o/meshbus"},
          {"keeper", 2, keeper, "/o/meshbus-keeper"},
          {"broker", 3, agent, "/n/meshbus-broker"},
          {"agent", 4, agent, "/n/meshbus-agent"}};
}

}  // namespace

TEST_CASE("upgrade_text: one release is one word, and of several it is said who has which") {
  CHECK(releases_text({}) == "");
  CHECK(releases_text(roles_of("0.1.0", "0.1.0")) == "0.1.0");
  CHECK(releases_text(roles_of("0.1.0", "0.2.0")) ==
        "warden and keeper 0.1.0, broker and agent 0.2.0");
  CHECK(releases_text(roles_of("", "0.2.0")) ==
        "warden and keeper unknown, broker and agent 0.2.0");
}

TEST_CASE("upgrade_text: only what is out of the ordinary is a line") {
  using Outcome = HostUpgradeReport::Outcome;
  HostReport host;
  CHECK(upgrade_lines(host).empty());
  host.roles = roles_of("0.1.0", "0.1.0");
  host.upgrade.emplace();
  host.upgrade->outcome = Outcome::done;
  host.upgrade->programs = "/n";
  host.upgrade->detail = "all";
  CHECK(upgrade_lines(host).empty());
  host.upgrade->outcome = Outcome::rolled_back;
  REQUIRE(upgrade_lines(host).size() == 1);
  CHECK(upgrade_lines(host).front() == "upgrade to /n was rolled back: all");
  host.roles = roles_of("0.1.0", "0.2.0");
  CHECK(upgrade_lines(host).size() == 2);
  CHECK(std::string(outcome_word(Outcome::rolled_back)) == "rolled_back");
}

}  // namespace meshbus::cli
