#include "agent/os/lifeline.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "agent/os/packet.h"

namespace meshbus::os {

namespace {
constexpr std::size_t kLongestMessage = 4096;
}

void Lifeline::send(std::string_view text) const {
  while (::send(socket_.get(), text.data(), std::min(text.size(), kLongestMessage),
                MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
         errno == EINTR) {
  }
}

bool Lifeline::send(std::string_view text, int fd) const {
  Packet packet;
  const auto bytes = std::as_bytes(std::span(text.substr(0, kLongestMessage)));
  packet.bytes.assign(bytes.begin(), bytes.end());
  packet.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  return packet.fds.back() && send_packet(socket_.get(), packet) == Transfer::done;
}

Lifeline::Received Lifeline::receive() const {
  Packet packet;
  const Transfer received = receive_packet(socket_.get(), packet);
  if (received != Transfer::done) return {received == Transfer::lost, std::nullopt, {}};
  std::string text(reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size());
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return {false, std::move(text), packet.fds.empty() ? UniqueFd() : std::move(packet.fds.front())};
}

LifelineMessage parse_lifeline(std::string_view text) noexcept {
  const auto blank = text.find(' ');
  if (blank == std::string_view::npos) return {text, {}};
  return {text.substr(0, blank), text.substr(blank + 1)};
}

}  // namespace meshbus::os
