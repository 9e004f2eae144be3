#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/loop/reactor.h"
#include "common/wire/control.h"
#include "meshbus/result.h"

namespace meshbus {

/// The requests and calls of a Bus that have no answer yet. Each ends exactly once: with an answer,
/// an error, or its deadline. Lives on the reactor's thread.
class PendingRequests {
 public:
  using Answer = std::function<void(Result<ControlMessage>)>;
  using CallAnswer = std::function<void(Result<std::string>)>;
  /// The peer that was asked, and alone may answer. Host 0: our own.
  struct Peer {
    std::uint64_t proc = 0;
    std::uint64_t host = 0;
    friend bool operator==(const Peer&, const Peer&) = default;
  };

  explicit PendingRequests(Reactor& reactor) : reactor_(reactor) {}
  /// Requests that are open then are never answered.
  ~PendingRequests();
  PendingRequests(const PendingRequests&) = delete;
  PendingRequests& operator=(const PendingRequests&) = delete;

  /// `id`: of no other one that is open. After `deadline` it fails with timeout.
  void add(std::uint64_t id, const Peer& to, std::chrono::milliseconds deadline, Answer answer);
  void add_call(std::uint64_t id, const Peer& to, std::chrono::milliseconds deadline,
                CallAnswer answer);
  /// The message that carries it has that number.
  void set_sequence(std::uint64_t id, std::uint64_t sequence);
  /// The request that the message of that number carries.
  std::optional<std::uint64_t> of_sequence(std::uint64_t sequence) const;
  /// The peer that was asked; null when it is not open any more.
  const Peer* find(std::uint64_t id) const;

  /// The answer of a request; a Refusal becomes its error. Nothing when it is not open any more.
  void finish(std::uint64_t id, Result<ControlMessage> answer);
  void finish_call(std::uint64_t id, Result<std::string> answer);
  /// It was not sent: nobody hears of it.
  void drop(std::uint64_t id);
  /// For both kinds.
  void fail(std::uint64_t id, const Error& error);
  /// The same from a later turn, because an answer must not run inside the call that asked.
  void fail_later(std::uint64_t id, Error error);
  /// Those that were sent to this peer.
  void fail_to(const Peer& peer, const Error& error);
  /// Those that are open now: an answer may ask again.
  void fail_all(const Error& error);

 private:
  struct Pending {
    Peer to;
    Answer answer = {};
    CallAnswer call_answer = {};
    std::uint64_t sequence = 0;
    Reactor::TimerId timer = 0;
  };

  void add(std::uint64_t id, std::chrono::milliseconds deadline, Pending pending);
  /// Removes it.
  Pending take(std::map<std::uint64_t, Pending>::iterator at);

  Reactor& reactor_;
  std::map<std::uint64_t, Pending> pending_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> of_proc_;  // proc, id
  std::unordered_map<std::uint64_t, std::uint64_t> id_of_sequence_;
  /// Lets posted work see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
