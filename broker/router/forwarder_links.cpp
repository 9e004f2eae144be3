// Which other hosts a broker knows, its links to them, and what has become of messages, theirs
// included.
#include <utility>

#include "broker/router/forwarder.h"
#include "common/wire/control.h"
#include "wire/frame_generated.h"

namespace meshbus {

Result<Link*> Forwarder::introduce(const HostAddr& host, bool is_dialled) {
  const std::uint64_t key = host.key();
  const std::string text = host.to_string();
  if (key == own_key_) {
    const bool same = host == options_.host;
    return fail(same ? ErrorCode::unroutable : ErrorCode::identity_mismatch,
                same ? text + " is this broker itself"
                     : "the key of " + text + " is also that of " + options_.host.to_string());
  }
  if (const auto found = links_.find(key); found != links_.end()) {
    if (found->second->host() == host) {
      if (is_dialled) found->second->allow_dialling();
      return found->second.get();
    }
    return fail(ErrorCode::identity_mismatch, "the key of " + text + " is also that of " +
                                                  found->second->host().to_string() +
                                                  "; use another address for one of them");
  }
  if (host.is_any() || host.is_wildcard() || host.transport() == Transport::local)
    return fail(ErrorCode::unroutable, text + " is no address that another host can be reached at");
  const auto keys = options_.insecure ? nullptr : keys_for(options_.keys, host, options_.host);
  if (host.transport() == Transport::tcp && !options_.insecure && !keys)
    return fail(ErrorCode::unroutable,
                "the broker of " + options_.host.to_string() +
                    " has no keys, runs without --insecure, and so makes no tcp connection to " +
                    text);
  if (keys) {
    if (auto known = keys(); !known)
      return fail(ErrorCode::unroutable, "no link to " + text + ": " + known.error().detail());
  }
  if (host.is_reachable_from_elsewhere() && !options_.host.is_reachable_from_elsewhere()) {
    return fail(ErrorCode::unroutable,
                text + " is on another machine, and this host is known as " +
                    options_.host.to_string() +
                    ", which means nothing there; start it with --advertise tcp:NAME:PORT");
  }
  if (links_.size() >= kMostLinks && !evict_link())
    return fail(ErrorCode::unroutable,
                "this broker has links to " + std::to_string(kMostLinks) + " hosts already");
  Link::Events events;
  events.on_message = [this](Link& link, const FrameReader::Message& message) {
    events_.on_link_message(link, message);
  };
  events.on_return = [this](const wire::Envelope& envelope, const Error& error) {
    give_back(envelope, error);
  };
  events.on_touched = [this](Link& touched) { touched_links_.push_back(&touched); };
  events.send = [this](Peer& peer, Frame& frame) { return send(peer, frame); };
  events.on_superseded = [this](Peer& peer) { events_.on_lost(peer); };
  events.on_up = [this](const Link& link) {
    if (monitor_ != nullptr) monitor_->link_up(link.host(), link.incarnation());
  };
  events.on_down = [this](const Link& link, const Error& error) {
    if (monitor_ != nullptr) monitor_->link_down(link.host(), error);
  };
  const auto* memory = link_memories_.find(key);
  auto link =
      std::make_unique<Link>(reactor_, context_, resolver_, host,
                             Link::Options{.own_host = options_.host,
                                           .incarnation = options_.incarnation,
                                           .limits = options_.link_queue,
                                           .connect_limit = options_.link_connect_limit,
                                           .delivery_limit = options_.delivery_limit,
                                           .keys = keys,
                                           .protocol = options_.protocol,
                                           .capabilities = options_.capabilities,
                                           .is_dialled = is_dialled},
                             std::move(events), memory == nullptr ? LinkStream::Memory() : *memory);
  return links_.emplace(key, std::move(link)).first->second.get();
}

bool Forwarder::evict_link() {
  auto oldest = links_.end();
  for (auto at = links_.begin(); at != links_.end(); ++at) {
    if (at->second->is_idle() &&
        (oldest == links_.end() || at->second->last_used() < oldest->second->last_used()))
      oldest = at;
  }
  if (oldest == links_.end()) return false;
  const Link::Totals& totals = oldest->second->totals();
  counters_.delivered += totals.delivered;
  counters_.replayed_frames += totals.replayed_frames;
  counters_.duplicate_frames += totals.duplicate_frames;
  link_memories_.add(oldest->first, oldest->second->memory());
  std::erase(touched_links_, oldest->second.get());
  links_.erase(oldest);
  return true;
}

Link* Forwarder::find_link(std::uint64_t host) {
  const auto found = links_.find(host);
  return found == links_.end() ? nullptr : found->second.get();
}

void Forwarder::check_links() {
  for (auto& [host, link] : links_) link->check_keys();
}

void Forwarder::close_links(const std::string& reason) {
  for (auto& [key, link] : links_) link->close(reason);
}

Error Forwarder::queue_is_full(const Link& link) {
  return {ErrorCode::queue_full,
          "the queue to " + link.host().to_string() + " is full (queue.bytes, queue.count)"};
}

Counters Forwarder::all_counters() const {
  Counters counters = counters_;
  for (const auto& [key, link] : links_) {
    const Link::Totals& totals = link->totals();
    counters.delivered += totals.delivered;
    counters.replayed_frames += totals.replayed_frames;
    counters.duplicate_frames += totals.duplicate_frames;
  }
  return counters;
}

std::size_t Forwarder::held() const noexcept {
  std::size_t held = waiting_.count() + arrivals_.count();
  for (const auto& [key, link] : links_) held += link->held();
  return held;
}

}  // namespace meshbus
