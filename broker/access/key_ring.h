#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  /// The highest role that a host with this key vouches for.
  wire::Role ceiling = wire::Role::operate;
  /// Unix seconds; nothing: never.
  std::optional<std::int64_t> expires = {};
  /// It may connect to hear so, and for nothing else.
  bool is_expired = false;

  bool operator==(const KeyHolder&) const = default;
  /// "operator alice", "host h1, h2"
  std::string to_string() const;
  /// Whether a host's key is that of this host: HOST or HOST:PORT is among the names.
  bool is_host(const HostAddr& host) const;
  /// "the key of operator alice expired at ...; make a new one by meshbus keygen --rotate ..."
  std::string expiry_text() const;
};

/// The keys that may connect: the files DIR/authorised/ROLE/NAME.pub. A key in several roles has
/// the highest that has not expired, and in several files of that role the lowest ceiling. A file
/// that cannot be used lets nobody in, and is logged once. Of a folder that cannot be read or
/// trusted, no key is new, and a known one counts only while its file is seen to be what it was, so
/// that a mistake cuts nobody off, but no key outlives its file. Lives on the reactor's thread.
class KeyRing {
 public:
  /// Errors: configuration_error (others may write there).
  static Result<KeyRing> load(const KeyDirectory& directory);

  /// The holder of a key (Z85), or null.
  const KeyHolder* find(std::string_view key) const;
  std::size_t size() const noexcept { return holders_.size(); }
  /// Reads the files that are new or have changed. True when any key has changed or expired.
  bool refresh();

 private:
  /// By this a file that has changed is recognised.
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
    std::vector<KeyGrant> keys;
    /// It was read so soon after its last change that another one may have left no trace in `seen`.
    bool is_fresh = false;
  };
  explicit KeyRing(std::string path) : path_(std::move(path)) {}
  std::string folder_of(wire::Role role) const { return path_ + "/" + std::string(word_of(role)); }
  /// Errors: configuration_error (one of the folders belongs to another user, or others may write
  /// there).
  Result<void> check() const;
  /// Nothing: the file is gone, or a folder above it keeps us from looking.
  static std::optional<Seen> look_at(const std::string& path);
  /// The files of a role. A folder that is not there has none. Errors: configuration_error (it
  /// cannot be read or trusted).
  Result<void> list(wire::Role role, std::map<std::string, File>& files) const;
  /// Those files of a role that were known and are still what they were.
  void keep_known(wire::Role role, std::map<std::string, File>& files) const;
  /// Adds what a file says of a key, at that time (Unix seconds), to what others have said.
  static void merge(KeyHolder& holder, const File& file, const KeyGrant& grant, std::int64_t now);

  std::string path_;
  std::map<std::string, File> files_;
  std::unordered_map<std::string, KeyHolder> holders_;
  std::string complaint_;
};

}  // namespace meshbus
