#include "common/security/join_token.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <optional>
#include <sstream>
#include <tuple>

#include "common/base/os_error.h"
#include "common/zmtp/curve_key.h"
#include "common/zmtp/z85.h"

namespace meshbus {
namespace {

constexpr std::size_t kBinaryKeySize = 32;
constexpr std::size_t kTokenDigits = 4 * kBinaryKeySize;
/// What has expired is still told from what never was, for so long.
constexpr std::int64_t kTokenRemembered = 24 * 3600;
constexpr std::size_t kMostTokens = 10'000;
constexpr std::size_t kMostKnown = 100'000;

using BinaryKey = std::array<std::uint8_t, kBinaryKeySize>;

std::optional<BinaryKey> binary_of(const std::string& z85) {
  BinaryKey binary{};
  return z85_decode(z85, binary) ? std::optional(binary) : std::nullopt;
}

std::string hex_of(const BinaryKey& binary) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned byte : binary) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

/// The key as Z85; nothing when these are no digits.
std::optional<std::string> z85_of_hex(std::string_view digits) {
  BinaryKey binary{};
  for (std::size_t i = 0; i < binary.size(); ++i) {
    const auto* begin = digits.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, binary[i], 16);
    if (error != std::errc() || end != begin + 2) return std::nullopt;
  }
  return z85_encode(binary);
}

std::string id_of(const std::string& key) {
  return hex_of(binary_of(key).value_or(BinaryKey())).substr(0, 16);
}

/// Takes off what is behind the last dot.
std::string cut_last(std::string& text) {
  const auto dot = std::min(text.rfind('.'), text.size());
  std::string last = text.substr(std::min(dot + 1, text.size()));
  text.resize(dot);
  return last;
}

/// Nothing when it is no token, or somebody else could have written it.
std::optional<TokenRecord> read_token(const std::filesystem::path& path) {
  const bool is_used = path.extension() == ".used";
  if (!is_used && path.extension() != ".token") return std::nullopt;
  std::string name = path.stem().string();
  const std::string id = cut_last(name), digits = cut_last(name);
  TokenRecord record{.name = name, .key = {}, .is_used = is_used};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), record.until);
  struct stat status{};
  const auto keys = read_public_keys(path.string());
  if (!is_holder_name(name) || digits.empty() || error != std::errc() ||
      end != digits.data() + digits.size() || !keys || id_of(keys->front()) != id ||
      ::stat(path.c_str(), &status) != 0)
    return std::nullopt;
  record.key = keys->front();
  record.used_at = status.st_ctim.tv_sec;
  return record;
}

bool is_remembered(const TokenRecord& record) {
  return record.until > unix_seconds_now() - kTokenRemembered;
}

}  // namespace

bool is_curve_key(std::string_view text) {
  return binary_of(std::string(text)).has_value();
}

std::string utc_text(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&time, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
    return std::to_string(unix_seconds);
  return text.data();
}

std::int64_t unix_seconds_now() {
  return std::time(nullptr);
}

Result<JoinToken> JoinToken::make(std::string_view name, std::string_view server_key) {
  auto pair = KeyPair::make();
  if (!pair) return fail(pair.error());
  return JoinToken{std::string(name), std::string(server_key), std::move(*pair)};
}

Result<JoinToken> JoinToken::parse(std::string_view text) {
  const auto dash = text.rfind('-');
  const auto refuse_text = [](const std::string& why) {
    return fail(
        ErrorCode::parse_error,
        "this is no token: " + why + "; meshbus keygen --token host NAME prints one, NAME-DIGITS");
  };
  if (dash == std::string_view::npos) return refuse_text("there is no - in it");
  const auto name = text.substr(0, dash), digits = text.substr(dash + 1);
  if (!is_holder_name(name))
    return refuse_text("what is in front of its last - is no name of a host");
  if (digits.size() != kTokenDigits)
    return refuse_text("expected " + std::to_string(kTokenDigits) +
                       " hexadecimal digits behind its last -, found " +
                       std::to_string(digits.size()) + " characters");
  auto server_key = z85_of_hex(digits.substr(0, kTokenDigits / 2));
  auto secret_key = z85_of_hex(digits.substr(kTokenDigits / 2));
  if (!server_key || !secret_key)
    return refuse_text("there is something else than hexadecimal digits behind its last -");
  const auto secret = CurveKey::from_text(*secret_key);
  if (!secret) return refuse_text("its digits are no key");
  return JoinToken{std::string(name),
                   std::move(*server_key),
                   {secret->make_public().to_text(), std::move(*secret_key)}};
}

std::string JoinToken::to_string() const {
  return name + "-" + hex_of(binary_of(server_key).value_or(BinaryKey())) +
         hex_of(binary_of(keys.secret_key).value_or(BinaryKey()));
}

std::vector<TokenRecord> TokenFolder::read() const {
  std::vector<TokenRecord> found;
  if (!check_trusted(path_)) return found;
  std::error_code error;
  std::filesystem::directory_iterator at(path_, error);
  for (const std::filesystem::directory_iterator end;
       !error && at != end && found.size() < kMostTokens; at.increment(error)) {
    auto record = read_token(at->path());
    if (record && is_remembered(*record)) found.push_back(std::move(*record));
  }
  return found;
}

Result<void> TokenFolder::add(const TokenRecord& record) const {
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(ErrorCode::io_error,
                "cannot make the directory " + path_ + ": " + os_error("mkdir"));
  if (auto trusted = check_trusted(path_); !trusted) return trusted;
  std::error_code error;
  std::vector<std::filesystem::path> old;
  std::filesystem::directory_iterator at(path_, error);
  for (const std::filesystem::directory_iterator end; !error && at != end; at.increment(error)) {
    const auto other = read_token(at->path());
    if (other && (other->name == record.name || !is_remembered(*other))) old.push_back(at->path());
  }
  for (const auto& path : old) ::unlink(path.c_str());
  return write_public_keys(path_of(record, ".token"), {record.key},
                           "a token: who has it may join as host " + record.name +
                               ", once, until " + utc_text(record.until));
}

Result<void> TokenFolder::use(const TokenRecord& record) const {
  const std::string from = path_of(record, ".token");
  if (::rename(from.c_str(), path_of(record, ".used").c_str()) == 0) return {};
  return fail(errno == ENOENT ? ErrorCode::not_exist : ErrorCode::io_error,
              "cannot mark " + from + " as used: " + os_error("rename"));
}

void TokenFolder::give_back(const TokenRecord& record) const {
  ::rename(path_of(record, ".used").c_str(), path_of(record, ".token").c_str());
}

std::string TokenFolder::path_of(const TokenRecord& record, std::string_view extension) const {
  return path_ + "/" + record.name + "." + std::to_string(record.until) + "." + id_of(record.key) +
         std::string(extension);
}

std::vector<KnownKeys> read_known_keys(const KeyDirectory& directory) {
  std::vector<KnownKeys> known;
  for (const auto role : kKeyRoles) {
    const auto folder = std::filesystem::path(directory.public_path(role, "x")).parent_path();
    std::error_code error;
    std::filesystem::directory_iterator at(folder, error);
    for (const std::filesystem::directory_iterator end;
         !error && at != end && known.size() < kMostKnown; at.increment(error)) {
      const std::string name = at->path().stem().string();
      if (at->path().extension() != ".pub" || !is_holder_name(name)) continue;
      if (auto keys = read_key_grants(at->path().string()))
        known.push_back({role, name, std::move(*keys)});
    }
  }
  std::sort(known.begin(), known.end(), [](const auto& a, const auto& b) {
    return std::tie(a.role, a.name) < std::tie(b.role, b.name);
  });
  return known;
}

std::string known_keys_to_text(const std::vector<KnownKeys>& known) {
  std::string text;
  for (const auto& one : known) {
    text += std::string(word_of(one.role)) + " " + one.name;
    for (const auto& grant : one.keys) text += " " + grant.to_string(',');
    text += "\n";
  }
  return text;
}

Result<std::vector<KnownKeys>> parse_known_keys(std::string_view text) {
  std::vector<KnownKeys> known;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string role_word;
    KnownKeys one;
    words >> role_word >> one.name;
    bool are_keys = true;
    for (std::string word; words >> word;) {
      auto grant = KeyGrant::parse(word, ',');
      are_keys = are_keys && grant && is_curve_key(grant->key);
      if (grant) one.keys.push_back(std::move(*grant));
    }
    const auto role = role_of_key(role_word);
    if (!role || !is_holder_name(one.name) || one.keys.empty() || !are_keys ||
        known.size() == kMostKnown)
      return fail(ErrorCode::malformed_message,
                  "line " + std::to_string(known.size() + 1) + " of the known keys is none");
    one.role = *role;
    known.push_back(std::move(one));
  }
  return known;
}

}  // namespace meshbus
