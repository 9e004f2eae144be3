#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "broker/peers/peer.h"
#include "broker/peers/watch_list.h"
#include "broker/router/router.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// Tells procs when the connection of another one ends (Watch and Gone in bus.fbs). Lives on the
/// reactor's thread.
class Watchers {
 public:
  Watchers(Reactor& reactor, Router& router) : reactor_(reactor), router_(router) {}
  Watchers(const Watchers&) = delete;
  Watchers& operator=(const Watchers&) = delete;

  /// The sender of that envelope watches a proc of this host: the incarnation that it found, 0 =
  /// the proc is not registered, and tell_gone() is due. Errors: queue_full (too many watches).
  Result<std::uint64_t> add(std::uint64_t key, const wire::Envelope& sender, std::uint64_t request);
  /// Tells a watcher that the proc is not registered.
  void tell_gone(const std::string& proc, const wire::Envelope& sender, std::uint64_t request);
  /// A peer has ended: tells its watchers after its last messages, unless the same incarnation
  /// has come back by then; and its own watches end.
  void on_end(const Identity& identity, const std::string& reason) { tell_later(identity, reason); }

 private:
  void tell_later(const Identity& identity, const std::string& reason);
  void send_gone(const WatchList::Watcher& watcher, const std::string& proc,
                 std::uint64_t incarnation, const std::string& reason);

  Reactor& reactor_;
  Router& router_;
  WatchList watches_;
  /// Lets a timer see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
