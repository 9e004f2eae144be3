#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// Which hosts a connection knows, whether their agents answer, and which hosts are lost: by proof,
/// which is final, or by silence, which an answer ends. Pure: no clock, socket or thread.
class HostMonitor {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// What an answer of an agent, or its absence, means.
  struct Finding {
    bool has_fallen_silent = false;
    bool answers_again = false;
    /// Another agent answers: what the former one was asked is never answered.
    bool is_replaced = false;
    /// The host is lost now, for this reason.
    std::optional<std::string> loss = {};
  };

  void add(const std::vector<HostAddr>& hosts);
  bool knows(const HostAddr& host) const { return hosts_.contains(host); }
  std::vector<HostAddr> all() const;
  /// The host whose agent has these keys (of an envelope's source). Null: no agent of ours.
  const HostAddr* agent_behind(std::uint64_t proc_key, std::uint64_t host_key) const;

  /// Hosts to ask now whether they live; they count as asked. Those that `is_needed` denies are
  /// left alone, unless they are lost by silence: an answer is what brings them back.
  std::vector<HostAddr> to_ask(const std::function<bool(const HostAddr&)>& is_needed);
  /// Asks this one again even if nothing was learned about it yet. False: it is asked already.
  bool should_identify(const HostAddr& host);
  /// `incarnation`: of the agent that answered, or why none did. `is_up`: the gateway is there; when
  /// it is not, silence means nothing. A host that is silent for `limit` is lost.
  Finding on_answer(const HostAddr& host, const Result<std::uint64_t>& incarnation, bool is_up,
                    Time now, std::chrono::milliseconds limit);
  /// That host has ended, by proof. False: it is not known.
  bool on_ended(const HostAddr& host, const std::string& reason);
  /// This process was stopped: silent hosts get a fresh grace.
  void extend(Time now);

  bool has_ended(const HostAddr& host) const;
  /// What a call to that host gets at once, because the host is lost.
  std::optional<Error> loss_of(const HostAddr& host) const;
  /// Of its agent; 0 = no answer yet.
  std::uint64_t incarnation_of(const HostAddr& host) const;
  /// The next host, round and round, that has not ended; nothing when there is no other.
  std::optional<HostAddr> next_after(const HostAddr& host) const;

 private:
  struct Host {
    bool has_ended = false;
    bool is_lost = false;
    bool is_asked = false;
    std::uint64_t incarnation = 0;
    std::optional<Time> silent_since = {};
    /// Why it does not answer, or how it has ended.
    std::string problem = {};
  };
  std::map<HostAddr, Host> hosts_;
  /// Key of a host's agent -> the host.
  std::map<std::uint64_t, HostAddr> agents_;
};

}  // namespace meshbus
