#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/wire/wire_values.h"
#include "meshbus/controller.h"
#include "tests/integration/controller/subscriber.h"
#include "wire/supervision_generated.h"

/// What the tests of a controller and of its subscribers share.
namespace meshbus::test {

using Kind = SupervisionEvent::Kind;

/// Hosts that stand, a controller of them, and a launcher.
struct Controlled {
  explicit Controlled(std::size_t count, Words settings)
      : standing(count), more(std::move(settings)) {
    std::vector<HostAddr> addresses;
    for (const auto& host : standing) addresses.push_back(must(HostAddr::parse(host.address())));
    hosts.emplace(must(HostMesh::attach(context, "hosts", addresses)));
    start();
  }
  /// A controller, another one after the first.
  void start() {
    Words words{bin("meshbus-controller"), "--hosts", ""};
    for (const auto& host : standing) words[2] += (words[2].empty() ? "" : ",") + host.address();
    for (const auto& setting : more) words.insert(words.end(), {"--set", setting});
    controller.emplace(words);
  }
  void kill() {
    controller->send_signal(SIGKILL);
    controller->wait_exit(in_time);
  }
  HostAddr home() const { return hosts->hosts().front(); }
  ProcMesh sleepers(std::string_view per_host) {
    return must(hosts->spawn("m", extent(per_host), shell("exec sleep 100"), heard.handlers()));
  }

  std::vector<StandingHost> standing;
  Words more;
  std::optional<Process> controller;
  Context context = must(Context::create());
  Heard heard;
  std::optional<HostMesh> hosts;
};

/// Until the controller is there.
inline void subscribe_to(Subscriber& subscriber, const std::string& mesh = {}) {
  const auto self = subscriber.self();
  REQUIRE(subscriber.turn_until(
      [&] { return subscriber.ask<wire::SubscribeT>(self, mesh) == ErrorCode::none; }));
}

inline bool turn_all(std::initializer_list<Subscriber*> all,
                     const std::function<bool(const Subscriber&)>& holds) {
  const auto end = std::chrono::steady_clock::now() + in_time;
  for (;;) {
    if (std::all_of(all.begin(), all.end(), [&](const Subscriber* one) { return holds(*one); }))
      return true;
    if (std::chrono::steady_clock::now() > end) return false;
    for (auto* one : all) one->reactor.turn(5ms);
  }
}

inline bool is_standing(wire::ProcState state) {
  return state == wire::ProcState::ready || is_terminal(state);
}

/// What was heard of ranks that are ready or have ended, in order. What lies between is told, too,
/// when it lasts.
inline std::vector<wire::RankState> heard_by(const Subscriber& subscriber) {
  std::vector<wire::RankState> states;
  std::copy_if(subscriber.heard.begin(), subscriber.heard.end(), std::back_inserter(states),
               [](const auto& state) { return is_standing(state.state()); });
  return states;
}

/// The same as the feed made of it, with what is about the mesh.
inline std::vector<WatchEvent> told_to(const Subscriber& subscriber) {
  std::vector<WatchEvent> events;
  std::copy_if(subscriber.told.begin(), subscriber.told.end(), std::back_inserter(events),
               [](const auto& event) {
                 return event.kind != WatchEvent::Kind::state || is_standing(event.rank.state());
               });
  return events;
}

/// "0 ready, 1 killed".
inline std::string states_in(const Subscriber& subscriber) {
  std::string text;
  for (const auto& state : heard_by(subscriber))
    text += (text.empty() ? "" : ", ") + std::to_string(state.rank()) + " " +
            wire::EnumNameProcState(state.state());
  return text;
}

inline std::uint64_t count_of(Subscriber& subscriber) {
  return must(subscriber.ask(wire::GetSubscriberCountT()))
      .body_as<wire::SubscriberCount>()
      ->count();
}

inline void kill_rank(const ProcMesh& mesh, std::uint64_t rank) {
  REQUIRE(::kill(static_cast<pid_t>(mesh.known().ranks[rank].pid), SIGKILL) == 0);
}

/// GetState at the controller, as it says it.
inline wire::MeshOverviewT overview_of(Subscriber& subscriber, const std::string& mesh) {
  wire::GetStateT get;
  get.mesh = mesh;
  const auto answer = must(subscriber.ask(get));
  wire::MeshOverviewT overview;
  answer.body_as<wire::ControllerState>()->meshes()->Get(0)->UnPackTo(&overview);
  return overview;
}

inline std::string statuses_in(Subscriber& subscriber, const std::string& mesh) {
  wire::GetStateT get;
  get.mesh = mesh;
  const auto answer = must(subscriber.ask(get));
  const auto statuses = must(
      from_wire(*answer.body_as<wire::ControllerState>()->meshes()->Get(0)->statuses(), 1 << 20));
  std::string text;
  for (const auto& run : statuses.runs())
    text += (text.empty() ? "" : ";") + run.value.to_string() + "=" + std::to_string(run.begin) +
            ".." + std::to_string(run.end);
  return text;
}

inline wire::StopProcsT stop_of(const std::string& mesh, const std::string& reason) {
  wire::StopProcsT stop;
  stop.mesh = mesh;
  stop.reason = reason;
  stop.requester = "somebody";
  stop.grace_ms = 2000;
  return stop;
}

}  // namespace meshbus::test
