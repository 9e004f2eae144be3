#include "common/security/key_grant.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "common/security/keys.h"

namespace meshbus {
namespace {

constexpr std::string_view kExpires = "expires=";
constexpr std::string_view kCeiling = "ceiling=";

Result<void> parse_attribute(KeyGrant& grant, std::string_view word) {
  if (word.starts_with(kExpires)) {
    const auto time = parse_rfc3339(word.substr(kExpires.size()));
    if (!time) return fail(time.error());
    grant.expires = *time;
    return {};
  }
  const auto ceiling = word.starts_with(kCeiling) ? role_of_key(word.substr(kCeiling.size()))
                                                  : std::optional<wire::Role>();
  if (!ceiling || *ceiling > wire::Role::operate)
    return fail(ErrorCode::parse_error,
                "\"" + std::string(word.substr(0, 64)) +
                    "\" is no attribute of a key: expected expires=2027-01-31T12:00:00Z, or "
                    "ceiling= and observer, client or operator");
  grant.ceiling = *ceiling;
  return {};
}

}  // namespace

Result<KeyGrant> KeyGrant::parse(std::string_view text, char between) {
  KeyGrant grant;
  bool is_key = true;
  while (!text.empty()) {
    const auto end = std::min(text.find(between), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (std::exchange(is_key, false)) {
      grant.key = std::string(word);
    } else if (!word.empty()) {
      if (auto parsed = parse_attribute(grant, word); !parsed) return fail(parsed.error());
    }
  }
  return grant;
}

std::string KeyGrant::to_string(char between) const {
  std::string text = key;
  if (expires) text += between + std::string(kExpires) + rfc3339_text(*expires);
  if (ceiling != wire::Role::operate)
    text += between + std::string(kCeiling) + std::string(word_of(ceiling));
  return text;
}

std::string rfc3339_text(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&time, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
    return std::to_string(unix_seconds);
  return text.data();
}

Result<std::int64_t> parse_rfc3339(std::string_view text) {
  const std::string whole(text);
  for (const char* format : {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d"}) {
    std::tm parts{};
    const char* end = ::strptime(whole.c_str(), format, &parts);
    if (end == nullptr || end != whole.c_str() + whole.size()) continue;
    if (whole.size() == 10) parts.tm_hour = 24;
    const std::time_t time = ::timegm(&parts);
    // What is no day (2027-02-31) becomes another one.
    if (whole.size() == 10 ? rfc3339_text(time - 1).substr(0, 10) == whole
                           : rfc3339_text(time) == whole)
      return time;
  }
  return fail(ErrorCode::parse_error, "\"" + whole.substr(0, 64) +
                                          "\" is no time: expected 2027-01-31 or "
                                          "2027-01-31T12:00:00Z");
}

}  // namespace meshbus
