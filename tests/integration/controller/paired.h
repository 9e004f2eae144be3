// Hosts, and controllers of them that stand by for each other.
#pragma once

#include <csignal>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "meshbus/controller.h"
#include "tests/integration/controller/harness.h"
#include "tests/support/http_client.h"

namespace meshbus::test::paired {

using namespace std::chrono_literals;
using nlohmann::json;

inline const Words kPairSettings{"supervision.probe=200ms", "supervision.poll=1s",
                                 "terminate.grace=2s"};

/// Hosts, and controllers of them that stand by for each other.
class Paired {
 public:
  explicit Paired(std::size_t hosts, std::string term = "1s", std::string lease = "30s")
      : term_(std::move(term)), lease_(std::move(lease)), standing_(hosts) {
    for (std::size_t i = 0; i < 2; ++i) start(i);
  }
  void start(std::size_t number) {
    Words words{bin("meshbus-controller"), "--hosts", joined(), "--pair", "site"};
    words.insert(words.end(), {"--http", "unix:" + (pages_ / std::to_string(number))});
    words.insert(words.end(), {"--set", "supervision.term=" + term_, "--set", "lease=" + lease_});
    for (const auto& setting : kPairSettings) words.insert(words.end(), {"--set", setting});
    controllers_[number].emplace(words);
  }
  std::string joined() const {
    std::string list;
    for (const auto& host : standing_) list += (list.empty() ? "" : ",") + host.address();
    return list;
  }
  std::vector<HostAddr> addresses() const {
    std::vector<HostAddr> list;
    for (const auto& host : standing_) list.push_back(must(HostAddr::parse(host.address())));
    return list;
  }
  Process& controller(std::size_t number) { return *controllers_.at(number); }
  /// What its /healthz says.
  std::string health_of(std::size_t number) {
    const auto& text = controller(number).err();
    const auto begin = text.find("the page is at ") + 15;
    return http_get(text.substr(begin, text.find('\n', begin) - begin), "/healthz").body;
  }
  StandingHost& host(std::size_t number) { return standing_[number]; }

  /// What that one said last of its part: "acts", "stands_by", or nothing.
  std::string part_of(std::size_t number) {
    auto& process = controller(number);
    if (!process.is_running()) return "";
    std::string last;
    std::istringstream lines(process.out().substr(0, process.out().rfind('\n') + 1));
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\"event\":\"acts\"") != std::string::npos) last = "acts";
      if (line.find("\"event\":\"stands_by\"") != std::string::npos) last = "stands_by";
    }
    return last;
  }
  /// The number of the last term in which that one acted; 0 = in none.
  std::uint64_t term_of(std::size_t number) {
    const auto& out = controller(number).out();
    std::uint64_t term = 0;
    std::istringstream lines(out.substr(0, out.rfind('\n') + 1));
    for (std::string line; std::getline(lines, line);) {
      if (line.find("\"event\":\"acts\"") != std::string::npos)
        term = parse_json(line).at("term").get<std::uint64_t>();
    }
    return term;
  }
  /// The one that acts, other than `except`, as soon as there is one.
  std::size_t actor(std::optional<std::size_t> except = {}) {
    std::optional<std::size_t> found;
    const bool is_there = wait_until(
        [&] {
          for (const auto& [number, process] : controllers_) {
            if (number != except && process && part_of(number) == "acts") found = number;
          }
          return found.has_value();
        },
        in_time);
    REQUIRE(is_there);
    return *found;
  }
  /// The host whose broker that one is connected to.
  std::size_t home_of(std::size_t number) {
    const auto list =
        parse_json(run_cli({"controller", "list", "--json", "--hosts", joined()}).out);
    for (const auto& one : list) {
      if (one.at("acts").get<bool>() != (part_of(number) == "acts")) continue;
      for (std::size_t i = 0; i < standing_.size(); ++i) {
        if (one.at("controller") == standing_[i].address() + ",controller") return i;
      }
    }
    FAIL("no controller is listed that does as that one");
    return 0;
  }
  std::size_t acting() {
    std::size_t count = 0;
    for (const auto& [number, process] : controllers_) count += part_of(number) == "acts" ? 1U : 0U;
    return count;
  }

  json ranks() {
    const auto listing = parse_json(run_cli({"ps", "--all", "--json", "--hosts", joined()}).out);
    return listing.at("meshes").empty() ? json::array() : listing.at("meshes")[0].at("ranks");
  }
  /// One rank, as a host says that answers.
  json rank_on(std::size_t host, std::uint64_t rank) {
    const auto list =
        parse_json(run_cli({"ps", "--all", "--json", "--hosts", standing_[host].address()}).out);
    for (const auto& one : list.at("meshes").at(0).at("ranks")) {
      if (one.at("rank") == rank) return one;
    }
    FAIL("host " << host << " has no rank " << rank);
    return {};
  }
  /// Kills the rank of that number, which is on the host of that number, and waits until it is up
  /// again.
  bool restarts_on(std::size_t host) {
    const auto before = rank_on(host, host);
    REQUIRE(::kill(before.at("pid").get<pid_t>(), SIGKILL) == 0);
    const bool is_up = wait_until(
        [&] {
          const auto now = rank_on(host, host);
          return now.at("status") == "ready" &&
                 now.at("restarts").get<int>() == before.at("restarts").get<int>() + 1;
        },
        in_time);
    if (!is_up) {
      for (auto& [number, process] : controllers_)
        MESSAGE("controller " << number << ":\n" << process->out() << process->err());
      MESSAGE("before: " << before.dump() << "\nnow: " << rank_on(host, host).dump());
    }
    return is_up;
  }
  bool are_up(std::uint64_t restarts_in_all) {
    return wait_until(
        [&] {
          std::uint64_t sum = 0;
          const auto all = ranks();
          for (const auto& rank : all) {
            if (rank.at("status") != "ready") return false;
            sum += rank.at("restarts").get<std::uint64_t>();
          }
          return !all.empty() && sum == restarts_in_all;
        },
        in_time);
  }
  void spawn(const Words& more) {
    Words words{"spawn", "left", "--hosts", joined(), "--wait-for-controller"};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--restart-delay", "50ms", "--", "sh", "-c", "exec sleep 3000"});
    const auto done = run_cli(words);
    INFO(done.err);
    REQUIRE(done.status == ExitStatus::exited(0));
  }
  void kill_rank(std::uint64_t rank) {
    REQUIRE(::kill(ranks().at(rank).at("pid").get<pid_t>(), SIGKILL) == 0);
  }

 private:
  std::string term_;
  std::string lease_;
  TempDir pages_;
  std::vector<StandingHost> standing_;
  std::map<std::size_t, std::optional<Process>> controllers_;
};

}  // namespace meshbus::test::paired
