#include "agent/keeper/lifeline.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace meshbus::keeper {

namespace {
constexpr std::size_t longest_message = 4096;
}

void Lifeline::send(std::string_view text) const {
  while (::send(socket_.get(), text.data(), std::min(text.size(), longest_message), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

Lifeline::Received Lifeline::receive() const {
  std::array<char, longest_message> buffer;
  ssize_t got = -1;
  do {
    got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return {errno != EAGAIN, std::nullopt};
  if (got == 0) return {true, std::nullopt};
  std::string text(buffer.data(), static_cast<std::size_t>(got));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return {false, std::move(text)};
}

LifelineMessage parse_lifeline(std::string_view text) noexcept {
  const auto blank = text.find(' ');
  if (blank == std::string_view::npos) return {text, {}};
  return {text.substr(0, blank), text.substr(blank + 1)};
}

}  // namespace meshbus::keeper
