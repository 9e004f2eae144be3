#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/security/keys.h"
#include "meshbus/result.h"
#include "wire/codes_generated.h"
#include "wire/forward.h"

/// One-time tokens by which a new host joins the others (spec 13.2;
/// docs/decisions/0021-a-new-host-joins.md). A token has the secret half of a key pair that is good
/// for this alone, and the public key of the one broker that accepts it. A host that has the token
/// proves that in CURVE's own handshake, without telling it to anybody.
namespace meshbus {

/// What its holder knows. As text: NAME-HEX, with 128 hexadecimal digits.
struct JoinToken {
  /// The address of the new host: HOST, or HOST:PORT.
  std::string name;
  /// The public key of the broker that it is for, Z85.
  std::string server_key;
  /// The token's own.
  KeyPair keys;

  /// Errors: internal.
  static Result<JoinToken> make(std::string_view name, std::string_view server_key);
  /// Errors: parse_error; the detail does not quote what may be secret.
  static Result<JoinToken> parse(std::string_view text);
  std::string to_string() const;
};

/// What the host that takes a token keeps of it. A plain value.
struct TokenRecord {
  std::string name;
  /// The public half, Z85.
  std::string key;
  /// Unix time, seconds, by this host's clock.
  std::int64_t until = 0;
  bool is_used = false;
  /// Unix time of its use.
  std::int64_t used_at = 0;
};

/// The tokens of a directory of keys: DIR/joining/NAME.UNTIL.ID.token is the public half of each,
/// where ID is the beginning of it in hexadecimal digits; .used that of one that has been used. No
/// secrets are there.
class TokenFolder {
 public:
  explicit TokenFolder(const KeyDirectory& keys) : path_(keys.path() + "/joining") {}
  const std::string& path() const noexcept { return path_; }

  /// All that can be read and trusted. What expired long ago is left out. Empty when there is no
  /// such folder.
  std::vector<TokenRecord> read() const;
  /// Lets a token be known from now on, in place of all of the same name; removes those that
  /// expired long ago. Errors: io_error, configuration_error (others may write there).
  Result<void> add(const TokenRecord& record) const;
  /// Marks the token as used. If several processes try at once, even on several hosts that share
  /// the folder, exactly one succeeds. Errors: not_exist (somebody else has), io_error.
  Result<void> use(const TokenRecord& record) const;
  /// As if it had not been used.
  void give_back(const TokenRecord& record) const;

 private:
  std::string path_of(const TokenRecord& record, std::string_view extension) const;

  std::string path_;
};

/// A public key file: a key that may connect, and its role.
struct KnownKeys {
  wire::Role role = wire::Role::none;
  std::string name;
  std::vector<KeyGrant> keys;
  bool operator==(const KnownKeys&) const = default;
};

/// All that lie in DIR/authorised/ROLE; what cannot be used is left out. Sorted by role and name.
std::vector<KnownKeys> read_known_keys(const KeyDirectory& directory);
/// "ROLE NAME KEY..." on a line for each; a key may have attributes (KeyGrant), with commas
/// between.
std::string known_keys_to_text(const std::vector<KnownKeys>& known);
/// Errors: malformed_message.
Result<std::vector<KnownKeys>> parse_known_keys(std::string_view text);

/// Whether it is a CURVE key as Z85.
bool is_curve_key(std::string_view text);
/// "2026-11-22 17:41:10 UTC"
std::string utc_text(std::int64_t unix_seconds);
/// By the wall clock.
std::int64_t unix_seconds_now();

}  // namespace meshbus
