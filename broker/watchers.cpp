#include "broker/watchers.h"

#include <chrono>

#include "common/wire/control.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

/// Watchers are told after this time: the same incarnation may come back at once.
constexpr std::chrono::milliseconds kLastMessages{1};

}  // namespace

Result<std::uint64_t> Watchers::add(std::uint64_t key, const wire::Envelope& sender,
                                    std::uint64_t request) {
  const Peer* peer = router_.routes().find(key);
  if (peer == nullptr) return 0;
  const std::uint64_t incarnation = peer->identity.incarnation;
  if (!watches_.add(key, {sender.source_proc(), sender.source_host(), sender.source_incarnation(),
                          request, incarnation}))
    return fail(ErrorCode::queue_full, "too many watches: this broker has " +
                                           std::to_string(watches_.size()) +
                                           " of all its watchers already, or too many of this one");
  return incarnation;
}

void Watchers::tell_gone(const std::string& proc, const wire::Envelope& sender,
                         std::uint64_t request) {
  send_gone({sender.source_proc(), sender.source_host(), sender.source_incarnation(), request, 0},
            proc, 0, "it is not registered");
}

void Watchers::tell_later(const Identity& identity, const std::string& reason) {
  reactor_.after(kLastMessages, [this, identity, reason, alive = std::weak_ptr<void>(alive_)] {
    if (alive.expired()) return;
    // The same incarnation may have come back on another connection.
    const Peer* there = router_.routes().find(identity.key);
    if (there != nullptr && there->identity.incarnation == identity.incarnation) return;
    for (const auto& watcher : watches_.take(identity.key, identity.incarnation))
      send_gone(watcher, identity.text, identity.incarnation, reason);
    watches_.forget(identity.key, identity.incarnation);
  });
}

void Watchers::send_gone(const WatchList::Watcher& watcher, const std::string& proc,
                         std::uint64_t incarnation, const std::string& reason) {
  wire::GoneT gone;
  gone.proc = proc;
  gone.incarnation = incarnation;
  gone.reason = cut_text(reason);
  router_.originate(watcher.proc, watcher.host,
                    encode_control({.id = watcher.request}, std::move(gone)));
}

}  // namespace meshbus
