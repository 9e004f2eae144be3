#include "agent/host/ownership/peer_watch.h"

#include "common/base/log.h"
#include "wire/bus_generated.h"

namespace meshbus::host {

PeerWatch::~PeerWatch() {
  for (const auto& [name, peer] : peers_) bus_.reactor().cancel(peer.timer);
}

void PeerWatch::add(const ProcId& peer) {
  const auto [entry, is_new] = peers_.emplace(peer.to_string(), Peer{.id = peer});
  if (is_new) ask(entry->first);
}

void PeerWatch::remove(const ProcId& peer) {
  const auto found = peers_.find(peer.to_string());
  if (found == peers_.end()) return;
  bus_.reactor().cancel(found->second.timer);
  peers_.erase(found);
}

void PeerWatch::check(const ProcId& peer) {
  const auto found = peers_.find(peer.to_string());
  if (found != peers_.end() && found->second.doubt == Doubt::none && found->second.timer == 0)
    ask_later(found->second, kReturnLimit);
}

void PeerWatch::on_up() {
  for (auto& [name, peer] : peers_) {
    peer.doubt = Doubt::none;
    ask_later(peer, kReturnLimit);
  }
}

void PeerWatch::ask_later(Peer& peer, std::chrono::milliseconds delay) {
  bus_.reactor().cancel(peer.timer);
  peer.timer = bus_.reactor().after(delay, [this, name = peer.id.to_string()] {
    if (peers_.contains(name)) ask(name);
  });
}

void PeerWatch::ask(const std::string& name) {
  Peer& peer = peers_.at(name);
  bus_.reactor().cancel(peer.timer);
  peer.timer = 0;
  if (peer.doubt == Doubt::waits) peer.doubt = Doubt::asked;
  wire::WatchT watch;
  watch.proc = name;
  bus_.request(Destination::to_broker(peer.id.host()), std::move(watch), std::chrono::seconds(5),
               [this, name](const Result<ControlMessage>& answer) {
                 const auto found = peers_.find(name);
                 if (found == peers_.end()) return;
                 if (answer) {
                   // Whatever was in doubt would be said again together with this answer.
                   if (found->second.doubt == Doubt::asked) {
                     bus_.reactor().cancel(found->second.timer);
                     found->second.timer = bus_.reactor().after(kConfirmAfter, [this, name] {
                       if (const auto again = peers_.find(name); again != peers_.end())
                         again->second = Peer{.id = again->second.id};
                     });
                   }
                   return;
                 }
                 log::debug("watch of " + name + ": " + answer.error().to_string());
                 // While our own broker is away, on_up() will ask.
                 if (bus_.is_up()) ask_later(found->second, kReturnLimit);
               });
}

void PeerWatch::on_gone(std::uint64_t host, const wire::Gone& gone) {
  const std::string name = gone.proc()->str();
  const auto found = peers_.find(name);
  if (found == peers_.end() || found->second.id.host().key() != host) return;
  // Several of our questions may have been open at that broker: only an answer to a question after
  // the doubt counts.
  if (found->second.doubt == Doubt::waits) return;
  if (found->second.doubt == Doubt::none) {
    found->second.doubt = Doubt::waits;
    return ask_later(found->second, kConfirmAfter);
  }
  bus_.reactor().cancel(found->second.timer);
  peers_.erase(found);
  log::info(name +
            " is gone: " + (gone.reason() == nullptr ? std::string() : gone.reason()->str()));
  on_gone_(name);
}

}  // namespace meshbus::host
