#include "broker/links/link_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
LinkTable::LinkTable(Reactor& reactor, Counters& counters, Monitor* monitor, Options options,
                     Events events)
    : reactor_(reactor),
      counters_(counters),
      monitor_(monitor),
      options_(std::move(options)),
      events_(std::move(events)),
      resolver_(reactor),
      lone_(
          reactor, options_.forget_after, [this](std::uint64_t key) { return may_forget(key); },
          [this](std::uint64_t key) { evict(key); }) {}

Result<void> LinkTable::check_reachable(const HostAddr& host, const KeySource& keys) const {
  const std::string text = host.to_string();
  if (host.is_any() || host.is_wildcard() || host.transport() == Transport::local)
    return fail(ErrorCode::unroutable, text + " is no address that another host can be reached at");
  if (host.transport() == Transport::tcp && !options_.insecure && !keys)
    return fail(ErrorCode::unroutable,
                "the broker of " + options_.host.to_string() +
                    " has no keys, runs without --insecure, and so makes no tcp connection to " +
                    text);
  if (keys) {
    if (auto known = keys(); !known)
      return fail(ErrorCode::unroutable, "no link to " + text + ": " + known.error().detail());
  }
  if (host.is_reachable_from_elsewhere() && !options_.host.is_reachable_from_elsewhere())
    return fail(ErrorCode::unroutable,
                text + " is on another machine, and the address of this host is " +
                    options_.host.to_string() +
                    ", which means nothing there; start it with --advertise tcp:NAME:PORT");
  return {};
}

Result<void> LinkTable::may_dial(const HostAddr& host) const {
  if (options_.dials_unix || host.transport() != Transport::unix_socket) return {};
  return fail(ErrorCode::unroutable,
              "the broker of " + options_.host.to_string() +
                  " does not run as root any more (meshbus host --broker-user) and cannot connect "
                  "to " +
                  host.to_string() +
                  ": have that host connect here, name both by their tcp addresses, or start this "
                  "host without --broker-user");
}

Result<Link*> LinkTable::introduce(const HostAddr& host, bool is_dialled, const Introducer* by) {
  const std::uint64_t key = host.key();
  const std::string text = host.to_string();
  if (key == options_.host.key()) {
    if (host == options_.host) return fail(ErrorCode::unroutable, text + " is this broker itself");
    return fail(ErrorCode::identity_mismatch,
                "the key of " + text + " is also that of " + options_.host.to_string());
  }
  if (Link* known = find(key)) {
    if (known->host() != host)
      return fail(ErrorCode::identity_mismatch, "the key of " + text + " is also that of " +
                                                    known->host().to_string() +
                                                    "; use another address for one of them");
    if (is_dialled && may_dial(host)) known->allow_dialling();
    lone_.introduce_again(key, by == nullptr ? nullptr : &by->principal);
    return known;
  }
  if (auto may = may_dial(host); is_dialled && !may) return fail(may.error());
  const KeySource keys = key_source(host);
  if (auto reachable = check_reachable(host, keys); !reachable) return fail(reachable.error());
  if (auto room = make_room(by); !room) return fail(room.error());
  const auto* memory = memories_.find(key);
  auto link =
      std::make_unique<Link>(reactor_, resolver_, counters_, host,
                             Link::Options{.own_host = options_.host,
                                           .incarnation = options_.incarnation,
                                           .limits = options_.queue,
                                           .connect_limit = options_.connect_limit,
                                           .delivery_limit = options_.delivery_limit,
                                           .keys = keys,
                                           .protocol = options_.protocol,
                                           .capabilities = options_.capabilities,
                                           .is_dialled = is_dialled},
                             link_events(), memory == nullptr ? LinkStream::Memory() : *memory);
  idle_.add(key);
  if (by != nullptr) shares_.add(by->principal, key);
  if (by != nullptr && by->is_limited) lone_.add(key, by->principal);
  return links_.emplace(key, std::move(link)).first->second.get();
}

LinkTable::KeySource LinkTable::key_source(const HostAddr& host) const {
  if (options_.insecure) return {};
  auto keys = keys_for(options_.keys, host, options_.host);
  if (!keys) return {};
  return [keys = std::move(keys), host, own = options_.host]() -> Result<CurveKeys> {
    auto found = keys();
    if (found) return found;
    // Why names files of this machine: that is for its own log.
    static log::Limited limited(10);
    limited.warn("no link to " + host.to_string() + ": " + found.error().detail());
    return fail(found.error().code(), "the broker of " + own.to_string() +
                                          " has no valid key of host " + std::string(host.host()) +
                                          ": put authorised/host/" + std::string(host.host()) +
                                          ".pub among its keys; its log says more");
  };
}

void LinkTable::note_ceiling(const Link& link) {
  if (options_.keys && !options_.insecure && link.host().transport() == Transport::tcp)
    ceilings_[link.key()] = options_.keys->ceiling_of_host(link.host());
}

wire::Role LinkTable::ceiling(std::uint64_t host) const {
  const auto found = ceilings_.find(host);
  return found == ceilings_.end() ? wire::Role::operate : found->second;
}

Link::Events LinkTable::link_events() {
  Link::Events events;
  events.on_message = [this](Link& link, const FrameReader::Message& message) {
    events_.on_message(link, message);
  };
  events.on_return = [this](const wire::Envelope& envelope, const Error& error) {
    returned_.push_back({envelope, error});
  };
  events.on_touched = [this](Link& link) {
    set_idle(link.key(), false);
    touched_.push_back(&link);
  };
  events.send = [this](Peer& peer, Frame& frame) { return events_.send(peer, frame); };
  events.on_superseded = [this](Peer& peer) { events_.on_superseded(peer); };
  events.on_up = [this](const Link& link) {
    note_ceiling(link);
    if (monitor_ != nullptr) monitor_->link_up(link.host(), link.incarnation());
  };
  events.on_down = [this](const Link& link, const Error& error) {
    if (monitor_ != nullptr) monitor_->link_down(link.host(), error);
  };
  return events;
}

Result<void> LinkTable::make_room(const Introducer* by) {
  // A key that is looked at here was added to its order once: nobody can have us look at one again
  // and again.
  if (by != nullptr && shares_.count(by->principal) >= by->most) {
    bool has_room = false;
    while (!has_room) {
      const auto key = shares_.take_oldest(by->principal);
      if (!key) break;
      has_room = evict(*key);
    }
    if (!has_room)
      return fail(ErrorCode::unroutable, "you have introduced " + std::to_string(by->most) +
                                             " hosts to this broker already, and all are in use");
  }
  if (links_.size() < kMostLinks) return {};
  while (const auto key = idle_.take_oldest()) {
    if (evict(*key)) return {};
  }
  return fail(ErrorCode::unroutable,
              "this broker has links to " + std::to_string(kMostLinks) + " hosts already");
}

bool LinkTable::evict(std::uint64_t key) {
  const auto found = links_.find(key);
  if (found == links_.end() || !found->second->is_idle()) return false;
  // The numbers of its frames go on only where somebody knows them.
  if (found->second->incarnation() != 0) memories_.add(key, found->second->memory());
  links_.erase(found);
  idle_.remove(key);
  shares_.remove(key);
  lone_.remove(key);
  ceilings_.erase(key);
  return true;
}

void LinkTable::set_idle(std::uint64_t key, bool is_idle) {
  shares_.set_idle(key, is_idle);
  if (is_idle) {
    idle_.add(key);
  } else {
    idle_.remove(key);
    lone_.note_use(key);
  }
}

bool LinkTable::may_forget(std::uint64_t key) const {
  const Link* const link = find(key);
  return link != nullptr && link->is_idle() && link->incarnation() == 0;
}

void LinkTable::flush() {
  for (Link* link : std::exchange(touched_, {})) {
    link->flush();
    if (link->is_idle()) set_idle(link->key(), true);
  }
}

void LinkTable::check_keys() {
  for (auto& [host, link] : links_) {
    if (ceilings_.contains(host)) note_ceiling(*link);
    link->check_keys();
  }
}

void LinkTable::close(const std::string& reason) {
  for (auto& [key, link] : links_) link->close(reason);
}

std::vector<wire::LinkStateT> LinkTable::states(std::size_t most) const {
  std::vector<wire::LinkStateT> all;
  for (const auto& [key, link] : links_) {
    auto& state = all.emplace_back();
    state.host = link->host().to_string();
    state.up = link->is_way_up();
    state.messages = link->held();
    state.bytes = link->held_bytes();
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.host < b.host; });
  if (all.size() > most) all.resize(most);
  return all;
}

std::size_t LinkTable::held() const noexcept {
  std::size_t held = returned_.size();
  for (const auto& [key, link] : links_) held += link->held();
  return held;
}

std::size_t LinkTable::disturbed() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(links_.begin(), links_.end(),
                    [](const auto& entry) { return entry.second->is_disturbed(); }));
}

std::size_t LinkTable::connected() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(links_, [](const auto& entry) { return entry.second->is_way_up(); }));
}

}  // namespace meshbus
