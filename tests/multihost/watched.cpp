// A mesh over many hosts that a controller watches, and what it says through one trouble after the
// other (spec 8.2, 8.3, 8.7).
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <functional>
#include <sstream>

#include "tests/multihost/site.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

constexpr std::size_t per_host = 2;

/// A controller on the launcher's machine, and the lines that it has printed.
class WatchingController {
 public:
  explicit WatchingController(const Site& site)
      : process_(site.desk().start({bin("meshbus-controller"), "--hosts", site.addresses()})) {}
  std::vector<json> events(const std::function<bool(const json&)>& is_meant) const {
    std::vector<json> found;
    std::istringstream lines(process_.out());
    for (std::string line; std::getline(lines, line) && !lines.eof();) {
      if (json event = json::parse(line); is_meant(event)) found.push_back(std::move(event));
    }
    return found;
  }
  std::size_t states(const std::string& state) const {
    return events([&](const json& event) {
             return event.at("event") == "state" && event.at("state") == state;
           })
        .size();
  }
  std::size_t told(const std::string& what, const std::string& host) const {
    return events([&](const json& event) {
             return event.at("event") == what && event.at("host") == host;
           })
        .size();
  }
  Process& process() { return process_; }

 private:
  Process process_;
};

std::chrono::milliseconds time_until_true(const std::function<bool()>& condition,
                                          std::chrono::milliseconds limit) {
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(wait_until(condition, limit));
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

void watch_through_troubles(std::size_t hosts) {
  Site site(hosts);
  const std::size_t all = hosts * per_host;
  const std::size_t cut = 1, dark = hosts - 1, hit = 0;
  WatchingController controller(site);
  Process job(site.desk().start(site.run_words({"--per-host", "gpus=2", "--mesh", "--keep-going",
                                                "--name", "job", "--", bin("echo_proc")})));
  {
    const bool is_up =
        wait_until([&] { return controller.states("ready") == all || !job.is_running(); }, in_time);
    INFO(job.describe() << controller.process().describe());
    REQUIRE(is_up);
    REQUIRE(job.is_running());
  }
  const auto call = [&](const std::string& ranks) {
    return site.desk().run(
        {bin("meshbus"), "call", "--hosts", site.addresses(), "job" + ranks, "1", "hello", "--raw"},
        in_time);
  };
  const auto hellos = [](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "hello";
    return text;
  };
  CHECK(call("").out == hellos(all));

  // Cut off from everybody, and back: its ranks live on, once each, and are not said to have ended.
  const auto before = site.procs_on(cut, "echo_proc");
  CHECK(before.size() == per_host);
  for (std::size_t other = 0; other <= hosts; ++other) {
    if (other != cut) site.lab.cut(cut, other);
  }
  const auto noticed =
      time_until_true([&] { return controller.told("host_unreachable", site.address(cut)) == 1; },
                      told_in_time + busy);
  site.lab.heal();
  const auto back = time_until_true(
      [&] { return controller.told("host_back", site.address(cut)) == 1; }, in_time);
  CHECK(site.procs_on(cut, "echo_proc") == before);
  CHECK(controller.states("failed") + controller.states("killed") + controller.states("stopped") ==
        0);
  CHECK(wait_until([&] { return call("").out == hellos(all); }, in_time));
  MESSAGE(hosts << " hosts: one that was cut off was told after " << noticed.count()
                << " ms, its return after " << back.count() << " ms");

  // Its power goes, and a host comes back under its address: only now its ranks are said to have
  // ended, once.
  site.lab.power_off(dark);
  const auto told =
      time_until_true([&] { return controller.told("host_unreachable", site.address(dark)) == 1; },
                      told_in_time + busy);
  CHECK(controller.states("failed") == 0);
  site.lab.boot(dark);
  site.start_host(dark);
  site.wait_ready(dark);
  time_until_true([&] { return controller.states("failed") == per_host; }, in_time);
  for (const json& event : controller.events([](const json& one) {
         return one.at("event") == "state" && one.at("state") == "failed";
       }))
    CHECK(event.at("host") == site.address(dark));
  MESSAGE(hosts << " hosts: one without power was told after " << told.count() << " ms");

  // The controller is killed: another one finds what stands, and tells the next end.
  controller.process().send_signal(SIGKILL);
  controller.process().wait_exit(in_time);
  WatchingController second(site);
  time_until_true([&] { return second.states("ready") == all - per_host; }, in_time);
  site.lab.host(hit).run({"sh", "-c", "kill -9 $(pgrep -o echo_proc)"}, in_time);
  const auto killed = time_until_true([&] { return second.states("killed") == 1; }, in_time);
  MESSAGE(hosts << " hosts: a kill was told by a new controller after " << killed.count() << " ms");
  CHECK(call("[" + std::to_string(per_host) + "-" + std::to_string(all - per_host - 1) + "]").out ==
        hellos(all - 2 * per_host));

  job.send_signal(SIGINT);
  job.wait_exit(in_time);
  CHECK(wait_until([&] { return second.states("stopped") == all - per_host - 1; }, in_time));
  for (std::size_t i = 0; i < hosts; ++i) CHECK(site.procs_on(i, "echo_proc").empty());
  INFO(second.process().describe());
  CHECK(second.states("killed") == 1);
}

}  // namespace

TEST_CASE(
    "multihost: three hosts, watched: a partition that heals, a power loss, a controller that is "
    "killed and started again") {
  watch_through_troubles(3);
}

TEST_CASE("multihost: sixteen hosts, watched through the same") {
  watch_through_troubles(16);
}
