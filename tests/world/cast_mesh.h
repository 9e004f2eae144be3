#pragma once

#include <doctest/doctest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/bus/cast.h"
#include "tests/support/environment.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/peer.h"

namespace meshbus::test {

struct CastMeshOptions {
  std::vector<Setting> settings = {{"delivery.starting", "200ms"}, {"delivery.limit", "2s"}};
  /// Its broker is a process of its own, which can be killed.
  std::optional<std::size_t> process = {};
};

/// Some hosts, each with its broker, and a mesh `trainers-7` of so many procs on each of them: axes
/// host and gpu.
struct CastMesh {
  CastMesh(std::size_t hosts, std::size_t gpus, CastMeshOptions with = {})
      : options(std::move(with)) {
    for (std::size_t host = 0; host < hosts; ++host) {
      addresses.push_back(*HostAddr::parse("unix:" + (dir / std::to_string(host))));
      brokers.push_back(options.process == host ? nullptr : start(host));
      if (options.process == host) start_process(host);
    }
    ref.emplace(*ProcMeshRef::make(
        *Name::make("trainers", 7), addresses,
        *Extent::parse("host=" + std::to_string(hosts) + ",gpu=" + std::to_string(gpus))));
    for (std::uint64_t rank = 0; rank < ref->num_ranks(); ++rank) procs.push_back(start_proc(rank));
    for (auto& proc : procs) proc->up();
    launcher.emplace(loop, endpoint(0), launcher_hello());
    launcher->up();
  }
  std::unique_ptr<Broker> start(std::size_t host) {
    return start_broker(
        loop, addresses[host].to_string(), options.settings,
        [](BrokerOptions& broker) { broker.link_connect_limit = std::chrono::seconds(1); });
  }
  void start_process(std::size_t host) {
    UniqueFd secret(::memfd_create("secret", MFD_CLOEXEC));
    const std::string text(TokenMaker::kSecretSize, 's');
    REQUIRE(::write(secret.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    std::vector<std::string> words = {bin("meshbus-broker"), "--bind", addresses[host].to_string(),
                                      "--secret-fd", std::to_string(secret.get())};
    for (const auto& [key, value] : options.settings) {
      words.push_back("--set");
      words.push_back(key + "=" + value);
    }
    process.emplace(words, ProcessOptions{.inherit = {secret.get()}});
    process->wait_for_output("ready", std::chrono::seconds(60));
  }
  std::string endpoint(std::size_t host) const { return addresses[host].zmq_endpoint(); }
  std::unique_ptr<TestPeer> start_proc(std::uint64_t rank) {
    const std::uint64_t host = *ref->host_index_of(rank);
    return std::make_unique<TestPeer>(loop, endpoint(host), proc_hello(addresses[host], rank));
  }
  std::shared_ptr<const CastPlan> plan(const ProcMeshRef& view) const {
    auto plan = CastPlan::make(view);
    REQUIRE(plan.has_value());
    return *plan;
  }
  Result<void> cast(const ProcMeshRef& view, const std::string& body) {
    return launcher->bus->cast(*plan(view), 1, body);
  }
  /// Answers of all ranks of the view, by ordinal.
  std::map<std::uint64_t, Result<std::string>> call(
      const ProcMeshRef& view, const std::string& body,
      std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    std::map<std::uint64_t, Result<std::string>> answers;
    launcher->bus->cast_call(plan(view), 1, body, deadline,
                             [&](std::uint64_t ordinal, Result<std::string> answer) {
                               CHECK(answers.emplace(ordinal, std::move(answer)).second);
                             });
    CHECK(answers.empty());
    CHECK(loop.until([&] { return answers.size() == view.num_ranks(); },
                     deadline + std::chrono::seconds(5)));
    return answers;
  }
  std::size_t received() const {
    std::size_t count = 0;
    for (const auto& proc : procs) count += proc == nullptr ? 0 : proc->received.size();
    return count;
  }
  std::vector<std::uint64_t> who_received() const {
    std::vector<std::uint64_t> ranks;
    for (std::uint64_t rank = 0; rank < procs.size(); ++rank) {
      if (procs[rank] != nullptr && !procs[rank]->received.empty()) ranks.push_back(rank);
    }
    return ranks;
  }
  void check_all() {
    for (const auto& broker : brokers) {
      if (broker != nullptr) check_conservation(loop, *broker);
    }
  }

  CastMeshOptions options;
  TempDir dir;
  Loop loop;
  std::optional<Process> process;
  std::vector<std::unique_ptr<Broker>> brokers;
  std::vector<HostAddr> addresses;
  std::optional<ProcMeshRef> ref;
  std::vector<std::unique_ptr<TestPeer>> procs;
  std::optional<TestPeer> launcher;
};

inline std::set<std::string> codes_of(const std::map<std::uint64_t, Result<std::string>>& answers) {
  std::set<std::string> codes;
  for (const auto& [ordinal, answer] : answers)
    codes.insert(answer ? "answer" : std::string(to_string(answer.error().code())));
  return codes;
}

}  // namespace meshbus::test
