#pragma once

#include <functional>
#include <map>
#include <string>

#include "common/bus/bus.h"
#include "wire/forward.h"

namespace meshbus::host {

/// Notices when the connection of an owner, a subscriber or an asker ends, by asking the broker of
/// its host (Watch, Gone in schemas/bus.fbs). Lives on the reactor's thread.
///
/// A connection that was cut and came back is no end: a Gone is believed when the broker repeats it
/// a moment later. When our own broker was away, the peers get a second to come back to it, too. A
/// broker that does not answer is asked again until it does.
class PeerWatch {
 public:
  static constexpr std::chrono::milliseconds kConfirmAfter{250};
  static constexpr std::chrono::milliseconds kReturnLimit{1000};

  /// `on_gone`: the text of the ProcId; it is not watched any more.
  PeerWatch(Bus& bus, std::function<void(const std::string&)> on_gone)
      : bus_(bus), on_gone_(std::move(on_gone)) {}
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Adding a peer that is watched changes nothing.
  void add(const ProcId& peer);
  void remove(const ProcId& peer);
  /// A message to it came back: asks again, in case its broker has forgotten us.
  void check(const ProcId& peer);
  bool contains(const ProcId& peer) const { return peers_.contains(peer.to_string()); }
  /// There is a new session with our broker.
  void on_up();
  /// `host`: key of the host whose broker says it; only the peer's own is believed.
  void on_gone(std::uint64_t host, const wire::Gone& gone);

 private:
  enum class Doubt { none, waits, asked };
  struct Peer {
    ProcId id;
    Doubt doubt = Doubt::none;
    Reactor::TimerId timer = 0;
  };
  void ask(const std::string& name);
  void ask_later(Peer& peer, std::chrono::milliseconds delay);

  Bus& bus_;
  std::function<void(const std::string&)> on_gone_;
  std::map<std::string, Peer> peers_;
};

}  // namespace meshbus::host
