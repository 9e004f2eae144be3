#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "broker/observe/counters.h"
#include "broker/observe/tool_socket.h"
#include "broker/peers/peer.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/monitor_generated.h"

namespace meshbus {

/// Tells ZeroMQ tools what happens in the broker (schemas/monitor.fbs): builds only what somebody
/// subscribed to, and loses what a slow subscriber does not take. Lives on the reactor's thread.
class Monitor {
 public:
  /// What the monitor asks for once a second while a tool subscribes to it.
  struct Sources {
    std::function<wire::BrokerCountersT()> counters;
    /// Peers that have taken nothing for a second of what waits for them.
    std::function<std::vector<wire::QueueStateT>()> slow;
  };

  /// The broker that the events are about.
  struct Speaker {
    HostAddr host;
    std::uint64_t incarnation = 0;
  };
  /// Listens at a unix address. Errors: configuration_error (another transport), io_error.
  static Result<std::unique_ptr<Monitor>> open(Reactor& reactor, ToolContext& context,
                                               const HostAddr& address, Speaker speaker,
                                               Sources sources);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  void peer_up(const Identity& peer);
  void peer_down(const Identity& peer, const std::string& reason);
  void peer_refused(const Error& error);
  void link_up(const HostAddr& host, std::uint64_t incarnation);
  void link_down(const HostAddr& host, const Error& error);
  void returned(const wire::Envelope& envelope, const Error& error);
  void dropped(const wire::Envelope& envelope, Drop reason);

 private:
  enum class Topic : std::uint8_t {
    peer_up,
    peer_down,
    peer_refused,
    link_up,
    link_down,
    undeliverable,
    dropped,
    slow,
    counters
  };
  static constexpr std::size_t kTopics = 9;

  Monitor(Reactor& reactor, ToolContext& context, Speaker speaker, Sources sources);
  /// Counts the event. True when a tool subscribes to it.
  bool begin(Topic topic) noexcept;
  template <typename T>
  void publish(Topic topic, T body);
  bool on_subscription();
  void on_second();
  bool is_wanted(Topic topic) const noexcept { return wanted_[static_cast<std::size_t>(topic)]; }

  Reactor& reactor_;
  Speaker speaker_;
  Sources sources_;
  ToolSocket socket_;
  /// The subscriptions: beginnings of topics.
  std::set<std::string> subscriptions_;
  std::array<bool, kTopics> wanted_{};
  std::array<std::uint64_t, kTopics> sequences_{};
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus
