#include "common/zmtp/z85.h"

#include <array>
#include <limits>

namespace meshbus {
namespace {

constexpr std::string_view kDigits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
constexpr std::uint32_t kBase = 85;
static_assert(kDigits.size() == kBase);
constexpr std::size_t kBytes = 4;
constexpr std::size_t kLetters = 5;

constexpr std::uint8_t kNone = 0xff;

/// By letter.
constexpr auto kValues = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNone);
  for (std::size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<std::uint8_t>(kDigits[i])] = static_cast<std::uint8_t>(i);
  return values;
}();

}  // namespace

std::string z85_encode(std::span<const std::uint8_t> bytes) {
  std::string text;
  text.reserve(bytes.size() / kBytes * kLetters);
  for (; bytes.size() >= kBytes; bytes = bytes.subspan(kBytes)) {
    std::uint32_t value = 0;
    for (const std::uint32_t byte : bytes.first(kBytes)) value = value << 8U | byte;
    std::array<char, kLetters> letters{};
    for (auto at = letters.rbegin(); at != letters.rend(); ++at, value /= kBase)
      *at = kDigits[value % kBase];
    text.append(letters.data(), letters.size());
  }
  return text;
}

bool z85_decode(std::string_view text, std::span<std::uint8_t> bytes) {
  if (text.size() % kLetters != 0 || text.size() / kLetters * kBytes != bytes.size()) return false;
  for (; !text.empty(); text.remove_prefix(kLetters), bytes = bytes.subspan(kBytes)) {
    std::uint64_t value = 0;
    for (const char letter : text.substr(0, kLetters)) {
      const auto digit = kValues[static_cast<std::uint8_t>(letter)];
      if (digit == kNone) return false;
      value = value * kBase + digit;
    }
    if (value > std::numeric_limits<std::uint32_t>::max()) return false;
    for (std::size_t i = 0; i < kBytes; ++i)
      bytes[i] = static_cast<std::uint8_t>(value >> (8 * (kBytes - 1 - i)));
  }
  return true;
}

}  // namespace meshbus
