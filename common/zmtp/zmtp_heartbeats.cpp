#include "common/zmtp/zmtp_heartbeats.h"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace meshbus {
namespace {

using namespace std::string_view_literals;

// PING has a time to live of 2 bytes, and a context that PONG gives back.
constexpr std::string_view kPingName = "\4PING"sv;
constexpr std::string_view kPongName = "\4PONG"sv;
constexpr std::size_t kTimeToLive = 2;
constexpr std::size_t kMostContext = 16;
constexpr std::chrono::milliseconds kTimeToLiveUnit{100};

}  // namespace

void ZmtpHeartbeats::ask(std::chrono::milliseconds time_to_live) {
  const auto units = static_cast<std::uint16_t>(time_to_live / kTimeToLiveUnit);
  ping_ = std::string(kPingName) + static_cast<char>(units >> 8) + static_cast<char>(units & 0xff);
}

void ZmtpHeartbeats::on_command(std::string_view command) {
  const std::size_t least = kPingName.size() + kTimeToLive;
  if (!command.starts_with(kPingName) || command.size() < least) return;
  const auto high = static_cast<unsigned char>(command[kPingName.size()]);
  const auto low = static_cast<unsigned char>(command[kPingName.size() + 1]);
  time_to_live_ = (high << 8 | low) * kTimeToLiveUnit;
  pong_ = std::string(kPongName) + std::string(command.substr(least, kMostContext));
}

std::optional<std::string> ZmtpHeartbeats::take() {
  return std::exchange(pong_ ? pong_ : ping_, std::nullopt);
}

}  // namespace meshbus
