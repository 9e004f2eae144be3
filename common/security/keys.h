#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/bus/session.h"
#include "common/security/key_grant.h"
#include "common/wire/role_word.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/codes_generated.h"
#include "wire/forward.h"

/// The keys of spec 13.2 on disk. Key files are text; a line "public-key KEY" or "secret-key KEY"
/// has a CURVE key as Z85, 40 characters, a public one perhaps with attributes (KeyGrant); "#"
/// begins a comment line. See docs/guide/security.md for what lies where.
namespace meshbus {

class Config;

inline constexpr std::size_t kKeySize = 40;

/// A CURVE key pair, Z85.
struct KeyPair {
  std::string public_key;
  std::string secret_key;

  /// Random.
  static Result<KeyPair> make();
};

/// The role that word_of() has that word for, if a key may be for it; otherwise nothing.
std::optional<wire::Role> role_of_key(std::string_view word);
inline constexpr wire::Role kKeyRoles[] = {wire::Role::observe, wire::Role::proc,
                                           wire::Role::operate, wire::Role::host};

/// Whether a key's holder may be called that: 1 to 100 of the characters of names and addresses,
/// and no leading dot.
bool is_holder_name(std::string_view name);

/// Reads a secret key file. Errors: configuration_error with what to do: it is not there, others
/// may read it (it must be 0600, or 0640 when it is root's and we are not root), it is no key file.
Result<KeyPair> read_key_pair(const std::string& path);
/// Reads the public keys of one holder, at least one, newest first. Errors: configuration_error;
/// not_exist.
Result<std::vector<KeyGrant>> read_key_grants(const std::string& path);
/// The same, expired ones too, without their attributes.
Result<std::vector<std::string>> read_public_keys(const std::string& path);
/// Makes or replaces such a file, whole or not at all. Errors: io_error.
Result<void> write_key_pair(const std::string& path, const KeyPair& keys, std::string_view name);
Result<void> write_key_grants(const std::string& path, const std::vector<KeyGrant>& grants,
                              std::string_view name);
Result<void> write_public_keys(const std::string& path, const std::vector<std::string>& keys,
                               std::string_view name);
/// Checks that only the owner, which is this user or root, may write there. Errors:
/// configuration_error with what to do; not_exist.
Result<void> check_trusted(const std::string& path);

/// Where keys lie: DIR/NAME.key is a secret, DIR/authorised/ROLE/NAME.pub are public keys that are
/// known. A plain value.
class KeyDirectory {
 public:
  KeyDirectory(std::string path, std::string own) : path_(std::move(path)), own_(std::move(own)) {}
  /// By keys.directory and keys.own; else ~/.config/meshbus/keys if it is there. Nothing: there are
  /// no keys here, and none are wanted (keys.directory = /dev/null).
  static std::optional<KeyDirectory> find(const Config& config);
  /// Where keys lie when keys.directory says nothing. Empty: there is no home directory.
  static std::string default_path();

  const std::string& path() const noexcept { return path_; }
  std::string secret_path(std::string_view name) const {
    return path_ + "/" + std::string(name) + ".key";
  }
  std::string public_path(wire::Role role, std::string_view name) const;
  /// The file of our own secret: keys.own; else, for a host, the one of its name; else the only one
  /// there is. Errors: configuration_error.
  Result<std::string> own_path(const std::optional<HostAddr>& host) const;
  /// The public keys of the broker at that tcp address that have not expired: of HOST:PORT, else
  /// of HOST. Errors: configuration_error.
  Result<std::vector<KeyGrant>> keys_of_host(const HostAddr& host) const;
  /// The highest role that the broker of that host vouches for: the lowest ceiling of its keys.
  wire::Role ceiling_of_host(const HostAddr& host) const;
  /// What a connection to that host needs. Read anew each time. Errors: configuration_error.
  Result<CurveKeys> for_connection(const HostAddr& to,
                                   const std::optional<HostAddr>& own_host) const;

 private:
  std::string path_;
  std::string own_;
};

/// For Session::Options::keys: empty when nothing protects a connection to that host, because it is
/// on this machine or there are no keys.
std::function<Result<CurveKeys>()> keys_for(const std::optional<KeyDirectory>& directory,
                                            const HostAddr& to,
                                            const std::optional<HostAddr>& own_host = std::nullopt);

}  // namespace meshbus
