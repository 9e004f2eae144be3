#include "common/zmtp/curve_traffic.h"

#include <sodium.h>

#include <cstring>

#include "common/zmtp/curve_box.h"

namespace meshbus {
namespace {

constexpr std::string_view kMessageName = "\7MESSAGE";
constexpr std::string_view kOfClient = "CurveZMQMESSAGEC";
constexpr std::string_view kOfServer = "CurveZMQMESSAGES";
constexpr std::size_t kMacAt = kMessageName.size() + curve::kShortNonce;
constexpr std::size_t kTextAt = kMacAt + curve::kMac;
static_assert(kTextAt + 1 == CurveTraffic::kOverhead);

}  // namespace

void CurveTraffic::seal(std::uint8_t flags, std::string_view text, char* command) {
  auto* at = reinterpret_cast<std::uint8_t*>(command);
  const curve::Nonce nonce = curve::short_nonce(is_server_ ? kOfServer : kOfClient, next_++);
  std::memcpy(at, kMessageName.data(), kMessageName.size());
  std::memcpy(at + kMessageName.size(), nonce.data() + curve::kLongNonce, curve::kShortNonce);
  at[kTextAt] = flags;
  if (!text.empty()) std::memcpy(at + kOverhead, text.data(), text.size());
  crypto_box_detached_afternm(at + kTextAt, at + kMacAt, at + kTextAt, text.size() + 1,
                              nonce.data(), shared_.data());
}

std::optional<std::uint8_t> CurveTraffic::open(char* command, std::size_t size) {
  const std::string_view text(command, size);
  if (size < kOverhead || !text.starts_with(kMessageName)) return std::nullopt;
  const std::uint64_t number = curve::get_number(text.substr(kMessageName.size()));
  if (number <= last_) return std::nullopt;
  const curve::Nonce nonce = curve::short_nonce(is_server_ ? kOfClient : kOfServer, number);
  auto* at = reinterpret_cast<std::uint8_t*>(command);
  if (crypto_box_open_detached_afternm(at + kTextAt, at + kTextAt, at + kMacAt, size - kTextAt,
                                       nonce.data(), shared_.data()) != 0)
    return std::nullopt;
  last_ = number;
  return at[kTextAt];
}

}  // namespace meshbus
