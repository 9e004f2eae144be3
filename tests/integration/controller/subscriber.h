#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/controller/watch_feed.h"
#include "common/bus/bus.h"
#include "common/security/token.h"
#include "tests/world/client_library.h"
#include "tests/world/session_options.h"
#include "wire/supervision_generated.h"

namespace meshbus::test {

using namespace std::chrono_literals;

/// A subscriber on the bus, driven by hand on the test's thread.
struct Subscriber {
  explicit Subscriber(const HostAddr& host) : controller(host, ProcName(Name::controller())) {
    auto options =
        session_options(host.zmq_endpoint(),
                        hello_of(wire::PeerKind::launcher, must(Name::make("client")).to_string()));
    Dispatcher handlers;
    handlers
        .on<wire::MeshEvent>(
            Role::observe,
            [this](const Request&, const wire::MeshEvent& event) {
              wire::MeshEventT whole;
              event.UnPackTo(&whole);
              for (auto& one : feed.on_event(whole, std::chrono::steady_clock::now()))
                told.push_back(std::move(one));
              generation = event.generation();
              for (flatbuffers::uoffset_t i = 0;
                   event.ranks() != nullptr && i < event.ranks()->size(); ++i)
                heard.push_back(*event.ranks()->Get(i));
              if (event.kind() != wire::MeshEventKind::ranks) kinds.push_back(event.kind());
              CHECK(event.sequence() == ++sequence);
              for (flatbuffers::uoffset_t i = 0;
                   event.exit_reports() != nullptr && i < event.exit_reports()->size(); ++i) {
                ++exit_reports;
                reasons.emplace_back(event.exit_reports()->Get(i)->rank(),
                                     event.exit_reports()->Get(i)->reason()->str());
              }
            })
        .on<wire::MeshHeartbeat>(
            Role::observe, [this](const Request&, const wire::MeshHeartbeat& heartbeat) {
              ++heartbeats;
              last_heartbeat = wire::MeshHeartbeatT();
              heartbeat.UnPackTo(&last_heartbeat);
              feed.on_heartbeat(last_heartbeat, std::chrono::steady_clock::now());
              CHECK(heartbeat.sequence() == sequence);
            });
    bus = std::make_unique<Bus>(reactor, std::move(options), std::move(handlers), Bus::Events());
  }
  bool turn_until(const std::function<bool()>& predicate,
                  std::chrono::milliseconds deadline = in_time) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (!predicate()) {
      if (std::chrono::steady_clock::now() > end) return false;
      reactor.turn(20ms);
    }
    return true;
  }
  template <typename Message>
  Result<ControlMessage> ask(Message message) {
    std::optional<Result<ControlMessage>> heard_answer;
    bus->request(Destination::to(controller), std::move(message), in_time,
                 [&](Result<ControlMessage> answer) { heard_answer = std::move(answer); });
    REQUIRE(turn_until([&] { return heard_answer.has_value(); }));
    return std::move(*heard_answer);
  }
  template <typename Message>
  ErrorCode ask(const std::string& subscriber, const std::string& mesh = {},
                std::vector<wire::RankInterval> ranks = {}) {
    Message message;
    message.subscriber = subscriber;
    message.mesh = mesh;
    if constexpr (std::is_same_v<Message, wire::SubscribeT>) message.ranks = std::move(ranks);
    const auto answer = ask(std::move(message));
    return answer ? ErrorCode::none : answer.error().code();
  }
  /// Whether what it should hear regularly is overdue.
  bool misses_heartbeats() const { return feed.is_silent(std::chrono::steady_clock::now()); }
  std::string self() {
    REQUIRE(turn_until([this] { return bus->self().has_value(); }));
    return bus->self()->to_string();
  }

  ProcId controller;
  Reactor reactor;
  std::unique_ptr<Bus> bus;
  std::vector<wire::RankState> heard;
  std::vector<wire::MeshEventKind> kinds;
  std::size_t exit_reports = 0;
  std::vector<std::pair<std::uint64_t, std::string>>
      reasons;  ///< Rank, and the reason in its exit report.
  std::size_t heartbeats = 0;
  std::uint64_t sequence = 0;
  std::uint64_t generation = 0;  ///< From the last event.
  wire::MeshHeartbeatT last_heartbeat;
  WatchFeed feed;
  std::vector<WatchEvent> told;  ///< What the feed makes of it.
};

}  // namespace meshbus::test
