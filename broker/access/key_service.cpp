#include "broker/access/key_service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/log.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kLookAgain{1000};
/// A connection with an unknown key makes us look for the key no more often than this, and never
/// for more than a part of the time.
constexpr std::chrono::milliseconds kLookForUnknown{100};
constexpr int kLookShare = 50;
constexpr std::size_t kRefusedKeysRemembered = 4096;

}  // namespace

bool is_still(const KeyHolder& holder, const Identity& identity) {
  if (holder.is_expired) return false;
  if (!identity.is_link()) return holder.to_string() == identity.user;
  if (holder.ceiling != identity.ceiling) return false;
  const auto host = HostAddr::parse(identity.text);
  return host && holder.is_host(*host);
}

Result<std::unique_ptr<KeyService>> KeyService::open(Reactor& reactor, Options options,
                                                     OnRefused on_refused) {
  const auto path = options.directory.own_path(options.own_tcp);
  if (!path) return fail(path.error());
  auto own = read_key_pair(*path);
  if (!own) return fail(own.error());
  auto ring = KeyRing::load(options.directory);
  if (!ring) return fail(ring.error());
  if (ring->size() == 0)
    log::warn("nobody can connect over tcp: no key can be read in " + options.directory.path() +
              "/authorised/ROLE/ (roles: observer, client, operator, host; meshbus keygen)");
  return std::unique_ptr<KeyService>(new KeyService(
      reactor, std::move(options), std::move(on_refused), std::move(*own), std::move(*ring)));
}

KeyService::KeyService(Reactor& reactor, Options options, OnRefused on_refused, KeyPair own,
                       KeyRing ring)
    : reactor_(reactor),
      options_(std::move(options)),
      on_refused_(std::move(on_refused)),
      own_(std::move(own)),
      ring_(std::move(ring)),
      refused_(kRefusedKeysRemembered) {
  timer_ = reactor_.after(kLookAgain, [this] { on_timer(); });
}

KeyService::~KeyService() {
  reactor_.cancel(timer_);
  reactor_.cancel(unknown_timer_);
}

const TokenRecord* KeyService::find_token(const std::string& key) const {
  const auto found = tokens_.find(key);
  return found == tokens_.end() ? nullptr : &found->second;
}

std::optional<KeyVerdict> KeyService::judge(std::string_view key, std::string_view address,
                                            bool may_wait) {
  if (const KeyHolder* holder = ring_.find(key))
    return holder->role >= wire::Role::operate && !holder->is_expired ? KeyVerdict::trusted
                                                                      : KeyVerdict::bounded;
  // To join, or to hear why not.
  if (find_token(std::string(key)) != nullptr) return KeyVerdict::bounded;
  if (may_wait) {
    look_soon();
    return std::nullopt;
  }
  const auto pair = std::hash<std::string>()(std::string(address) + " " + std::string(key));
  const bool is_new = !refused_.contains(pair);
  if (is_new) refused_.add(pair, 0);
  on_refused_(key, address, is_new);
  return KeyVerdict::refused;
}

void KeyService::look_soon() {
  if (unknown_timer_ != 0) return;
  unknown_timer_ = reactor_.at(std::max(look_due_, reactor_.now()), [this] {
    unknown_timer_ = 0;
    refresh();
    changes_.has_looked = true;
  });
}

void KeyService::on_timer() {
  refresh();
  look_for_own_key();
  timer_ = reactor_.at(std::max(look_due_, reactor_.now() + kLookAgain), [this] { on_timer(); });
}

void KeyService::refresh() {
  const auto begin = Reactor::Clock::now();
  const bool has_changed = ring_.refresh();
  look_for_tokens();
  const auto end = Reactor::Clock::now();
  look_due_ = end + std::max<Reactor::Duration>(kLookForUnknown, kLookShare * (end - begin));
  if (!has_changed) return;
  changes_.has_ring_changed = true;
  refused_.clear();
}

void KeyService::look_for_tokens() {
  tokens_.clear();
  for (auto& record : TokenFolder(options_.directory).read()) {
    // A token that is being used may be there under both names for a moment; used counts.
    auto& known = tokens_[record.key];
    if (!known.is_used) known = std::move(record);
  }
}

void KeyService::look_for_own_key() {
  const auto path = options_.directory.own_path(options_.own_tcp);
  auto own = path ? read_key_pair(*path) : fail(path.error());
  if (!own) {
    if (std::exchange(own_key_problem_, own.error().detail()) != own.error().detail())
      log::warn("this host keeps using its present key: " + own.error().detail());
    return;
  }
  own_key_problem_.clear();
  if (own->public_key == own_.public_key) return;
  own_ = std::move(*own);
  changes_.own = own_;
  log::warn("this host has a new key, " + own_.public_key +
            "; its connections over tcp are made again");
}

}  // namespace meshbus
