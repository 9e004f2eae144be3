// Who may connect by key, and what happens when that changes while the broker runs.
#include <sys/socket.h>

#include <algorithm>

#include "broker/broker_impl.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kLookAgain{1000};
/// A stranger makes us look for his key no more often than this, and never for more than a part of
/// the time.
constexpr std::chrono::milliseconds kLookForStranger{100};
constexpr int kLookShare = 50;

/// Whether that holder may be what it came in as. A key may be that of more hosts than one, and of
/// more by and by.
bool is_still(const KeyHolder& holder, const Identity& identity) {
  if (!identity.is_link()) return holder.to_string() == identity.user;
  const auto host = HostAddr::parse(identity.text);
  return host && holder.is_host(*host);
}

}  // namespace

std::optional<HostAddr> Broker::Impl::own_tcp() const {
  if (options.advertise && options.advertise->transport() == Transport::tcp)
    return options.advertise;
  const auto is_tcp = [](const HostAddr& address) { return address.transport() == Transport::tcp; };
  const auto found = std::find_if(options.binds.begin(), options.binds.end(), is_tcp);
  return found == options.binds.end() ? std::nullopt : std::optional(*found);
}

Result<std::optional<KeyPair>> Broker::Impl::open_keys(zmq::context_t& context) {
  const auto is_tcp = [](const HostAddr& address) { return address.transport() == Transport::tcp; };
  if (options.insecure || !options.keys ||
      std::none_of(options.binds.begin(), options.binds.end(), is_tcp))
    return std::nullopt;
  const auto path = options.keys->own_path(own_tcp());
  if (!path) return fail(path.error());
  auto own = read_key_pair(*path);
  if (!own) return fail(own.error());
  auto ring = KeyRing::load(*options.keys);
  if (!ring) return fail(ring.error());
  ring_.emplace(std::move(*ring));
  if (ring_->size() == 0)
    log::warn("nobody can connect over tcp: there is no key in " + options.keys->path() +
              "/authorised/ROLE/ (roles: observer, client, operator, host; meshbus keygen)");
  own_key_ = own->public_key;
  auto opened = Zap::open(reactor_, context,
                          [this](std::string_view key, std::string_view address, bool may_wait) {
                            return judge(key, address, may_wait);
                          });
  if (!opened) return fail(opened.error());
  zap = std::move(*opened);
  keys_timer_ = reactor_.after(kLookAgain, [this] { on_keys_timer(); });
  return std::move(*own);
}

std::optional<bool> Broker::Impl::judge(std::string_view key, std::string_view address,
                                        bool may_wait) {
  const KeyHolder* holder = ring_->find(key);
  if (holder == nullptr && tokens_.contains(std::string(key)))
    return true;  // to join, or to hear why not
  if (holder == nullptr && may_wait) {
    // It may have come a moment ago.
    if (strangers_timer_ == 0) {
      strangers_timer_ = reactor_.at(std::max(look_due_, reactor_.now()), [this] {
        strangers_timer_ = 0;
        look_for_keys();
        zap->ask_again();
      });
    }
    return std::nullopt;
  }
  if (holder != nullptr) return true;
  ++forwarder_->counters().refused_keys;
  const std::string who = std::string(address) + " " + std::string(key);
  if (!refused_keys_.contains(who)) {
    refused_keys_.add(who, 0);
    limited_log_.warn("a connection from " + std::string(address) + " is refused: its key " +
                      std::string(key) + " is not in " + options.keys->path() + "/authorised/");
    if (monitor_)
      monitor_->peer_refused(Error(ErrorCode::unauthorised,
                                   "key " + std::string(key) + " of " + std::string(address)));
  }
  return false;
}

Credentials Broker::Impl::credentials_of(const Listener::Origin& origin) const {
  if (origin.process) return Credentials::of_process(origin.process->uid, origin.process->pid);
  auto credentials = Credentials::of_address(origin.address);
  // It is our own word, because all connections over tcp have keys when there is a ring.
  if (!ring_) return credentials;
  credentials.key = origin.user;
  if (const KeyHolder* holder = ring_->find(credentials.key)) credentials.holder = *holder;
  return credentials;
}

void Broker::Impl::on_keys_timer() {
  look_for_keys();
  look_for_own_key();
  keys_timer_ =
      reactor_.at(std::max(look_due_, reactor_.now() + kLookAgain), [this] { on_keys_timer(); });
}

void Broker::Impl::look_for_keys() {
  const auto begin = Reactor::Clock::now();
  const bool is_changed = ring_->refresh();
  look_for_tokens();
  const auto end = Reactor::Clock::now();
  look_due_ = end + std::max<Reactor::Duration>(kLookForStranger, kLookShare * (end - begin));
  if (!is_changed) return;
  refused_keys_ = RecentSet<std::string, char>(kRefusedRemembered);
  for (auto& [id, peer] : connections) {
    if (peer->is_ended || peer->identity.key_text.empty()) continue;
    const KeyHolder* holder = ring_->find(peer->identity.key_text);
    if (holder != nullptr && is_still(*holder, peer->identity)) continue;
    log::warn(
        peer->identity.text + " is cut off: its key is " +
        (holder == nullptr ? "not authorised any more" : "now that of " + holder->to_string()) +
        " (it was that of " + peer->identity.user + ")");
    const int descriptor = peer->descriptor;
    // Who has ended on his own by now had the descriptor; nobody else must be cut off for that.
    listener->drain_monitor();
    if (peer->is_ended) continue;
    end_peer(*peer, "its key was revoked");
    // It comes back with another key, or hears in its handshake that this one is not taken.
    if (descriptor >= 0) ::shutdown(descriptor, SHUT_RDWR);
  }
  forwarder_->check_links();
}

void Broker::Impl::look_for_own_key() {
  const auto path = options.keys->own_path(own_tcp());
  const auto own = path ? read_key_pair(*path) : fail(path.error());
  if (!own) {
    if (std::exchange(own_key_problem_, own.error().detail()) != own.error().detail())
      log::warn("this host goes on with the key that it has: " + own.error().detail());
    return;
  }
  own_key_problem_.clear();
  if (own->public_key == own_key_) return;
  own_key_ = own->public_key;
  listener->change_keys(*own);
  log::warn("this host has a new key, " + own_key_ + "; connections over tcp are made anew");
}

}  // namespace meshbus
