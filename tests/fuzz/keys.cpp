// Keys and tokens: lines of key files with their attributes, files as a whole, tokens of new hosts,
// and the list of keys that such a host gets. The first byte says which.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "common/base/unique_fd.h"
#include "common/security/join_token.h"
#include "common/security/key_grant.h"
#include "common/security/keys.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

namespace {

/// A file that only its owner may read, with that text.
class KeyFile {
 public:
  explicit KeyFile(std::string_view text) : fd_(::memfd_create("key", MFD_CLOEXEC)) {
    if (::fchmod(fd_.get(), 0600) != 0 ||
        ::write(fd_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      std::abort();
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  UniqueFd fd_;
};

void check_grant(std::string_view text, char between) {
  const auto grant = KeyGrant::parse(text, between);
  if (!grant) {
    FUZZ_CHECK(!grant.error().detail().empty(), text);
    return;
  }
  const auto printed = grant->to_string(between);
  const auto again = KeyGrant::parse(printed, between);
  FUZZ_CHECK(again.has_value() && *again == *grant, printed);
}

void check_files(std::string_view text) {
  const KeyFile file(text);
  if (const auto pair = read_key_pair(file.path()))
    FUZZ_CHECK(is_curve_key(pair->public_key) && is_curve_key(pair->secret_key), text);
  const auto grants = read_key_grants(file.path());
  if (!grants) return;
  FUZZ_CHECK(!grants->empty(), text);
  for (const auto& grant : *grants) FUZZ_CHECK(is_curve_key(grant.key), text);
}

void check_token(std::string_view text) {
  const auto token = JoinToken::parse(text);
  if (!token) {
    // A slip of the hand does not put the secret on the screen.
    const auto secret = text.substr(std::min(text.size(), text.rfind('-') + 1));
    const bool is_hex =
        secret.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
    FUZZ_CHECK(
        !is_hex || secret.size() < 32 || token.error().detail().find(secret) == std::string::npos,
        text);
    return;
  }
  FUZZ_CHECK(is_curve_key(token->server_key) && is_curve_key(token->keys.public_key), text);
  const auto again = JoinToken::parse(token->to_string());
  FUZZ_CHECK(again.has_value() && again->to_string() == token->to_string(), text);
}

void check_known_keys(std::string_view text) {
  const auto known = parse_known_keys(text);
  if (!known) {
    FUZZ_CHECK(!known.error().detail().empty(), text);
    return;
  }
  for (const auto& one : *known) {
    // It becomes the name of a file.
    FUZZ_CHECK(is_holder_name(one.name) && one.name.find('/') == std::string::npos, one.name);
    for (const auto& grant : one.keys) FUZZ_CHECK(is_curve_key(grant.key), text);
  }
  const auto printed = known_keys_to_text(*known);
  const auto again = parse_known_keys(printed);
  FUZZ_CHECK(again.has_value() && *again == *known, printed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const fuzz::ExactCopy copy(fuzz::text_of(data + 1, size - 1));
  const auto text = copy.view();
  switch (data[0] % 6) {
    case 0: check_grant(text, ' '); break;
    case 1: check_grant(text, ','); break;
    case 2: check_files(text); break;
    case 3: check_token(text); break;
    case 4: check_known_keys(text); break;
    default:
      if (const auto time = parse_rfc3339(text))
        FUZZ_CHECK(parse_rfc3339(rfc3339_text(*time)) == *time, text);
      break;
  }
  return 0;
}
