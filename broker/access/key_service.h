#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "broker/access/key_ring.h"
#include "broker/access/key_verdict.h"
#include "broker/access/recent_set.h"
#include "broker/peers/peer.h"
#include "common/loop/reactor.h"
#include "common/security/join_token.h"
#include "common/security/keys.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// The keys of this host and of those that may connect, as they are on disk: looks there again and
/// again, and judges the keys of connections. Lives on the reactor's thread.
class KeyService {
 public:
  struct Options {
    KeyDirectory directory;
    /// The address whose name the own key has, if there is a tcp address.
    std::optional<HostAddr> own_tcp = {};
  };
  /// A connection is refused because of its key. `is_new`: for the first time since keys changed.
  using OnRefused =
      std::function<void(std::string_view key, std::string_view address, bool is_new)>;
  /// What is different since the last call of take_changes().
  struct Changes {
    bool has_ring_changed = false;
    /// It was looked for keys for the sake of connections that wait: judge them again.
    bool has_looked = false;
    std::optional<KeyPair> own = {};
  };

  /// Errors: configuration_error, io_error, and those of reading the own key.
  static Result<std::unique_ptr<KeyService>> open(Reactor& reactor, Options options,
                                                  OnRefused on_refused);
  ~KeyService();
  KeyService(const KeyService&) = delete;
  KeyService& operator=(const KeyService&) = delete;

  const KeyPair& own() const noexcept { return own_; }
  const KeyDirectory& directory() const noexcept { return options_.directory; }
  /// The holder of a key (Z85), or null.
  const KeyHolder* find(std::string_view key) const { return ring_.find(key); }
  /// Whether the holder of that key may connect. Nothing, if `may_wait`: it may have come a moment
  /// ago, and Changes::has_looked tells when to ask again.
  std::optional<KeyVerdict> judge(std::string_view key, std::string_view address, bool may_wait);
  /// The token of a new host that has that key, used and expired ones too, or null.
  const TokenRecord* find_token(const std::string& key) const;
  /// Reads what has changed.
  void refresh();
  /// What the broker has to act upon; ask at the end of each turn.
  Changes take_changes() { return std::exchange(changes_, {}); }

 private:
  KeyService(Reactor& reactor, Options options, OnRefused on_refused, KeyPair own, KeyRing ring);
  void look_soon();
  void on_timer();
  void look_for_own_key();
  void look_for_tokens();

  Reactor& reactor_;
  Options options_;
  OnRefused on_refused_;
  KeyPair own_;
  KeyRing ring_;
  std::unordered_map<std::string, TokenRecord> tokens_;
  Changes changes_;
  std::string own_key_problem_;
  /// The earliest time to look again.
  Reactor::Time look_due_{};
  Reactor::TimerId timer_ = 0;
  /// For a key that is not known, and may have come a moment ago.
  Reactor::TimerId unknown_timer_ = 0;
  /// Keys, each with an address, whose refusal was told: hashes of them.
  RecentSet<std::size_t, char> refused_;
};

/// Whether that holder may still be what it was admitted as. A key may be that of more than one
/// host, and of other hosts later.
bool is_still(const KeyHolder& holder, const Identity& identity);

}  // namespace meshbus
