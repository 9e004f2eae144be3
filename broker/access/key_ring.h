#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/security/keys.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/codes_generated.h"
#include "wire/forward.h"

namespace meshbus {

/// The holder of a key, and what the key is for.
struct KeyHolder {
  wire::Role role = wire::Role::none;
  /// More than one when hosts share a key. Sorted.
  std::vector<std::string> names;

  bool operator==(const KeyHolder&) const = default;
  /// "operator alice", "host h1, h2"
  std::string to_string() const;
  /// Whether a host's key is that of this host: HOST or HOST:PORT is among the names.
  bool is_host(const HostAddr& host) const;
};

/// The keys that may connect: what lies in DIR/authorised/ROLE/NAME.pub. A key in several roles has
/// the highest. A file that cannot be used lets nobody in, and is complained of once. Lives on the
/// broker's thread.
class KeyRing {
 public:
  /// Errors: configuration_error (others may write there).
  static Result<KeyRing> load(const KeyDirectory& directory);

  /// The holder of a key (Z85), or null.
  const KeyHolder* find(std::string_view key) const;
  std::size_t size() const noexcept { return holders_.size(); }
  /// Looks whether files have come, gone or changed, and reads these. True when any key has. What
  /// cannot be read or trusted changes nothing: nobody comes in by it, and nobody is cut off.
  bool refresh();

 private:
  /// What tells a file from what was there before.
  struct Seen {
    std::uint64_t inode = 0;
    std::int64_t changed_ns = 0;
    std::int64_t size = 0;
    bool operator==(const Seen&) const = default;
  };
  struct File {
    Seen seen;
    wire::Role role = wire::Role::none;
    std::string name;
    std::vector<std::string> keys;
    /// Read so soon after its last change that another one may have left no trace in `seen`.
    bool is_fresh = false;
  };
  explicit KeyRing(std::string path) : path_(std::move(path)) {}
  Result<void> check() const;

  std::string path_;
  std::map<std::string, File> files_;
  std::unordered_map<std::string, KeyHolder> holders_;
  std::string complaint_;
};

}  // namespace meshbus
