#include "broker/lifeline.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace meshbus {

Lifeline::Lifeline(Reactor& reactor, UniqueFd fd, Events events)
    : reactor_(reactor), fd_(std::move(fd)), events_(std::move(events)) {
  reactor_.watch(fd_.get(), EPOLLIN, [this](std::uint32_t) { on_readable(); });
}

Lifeline::~Lifeline() {
  reactor_.forget(fd_.get());
}

void Lifeline::say(const std::string& text) {
  [[maybe_unused]] const auto sent =
      ::send(fd_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Lifeline::on_readable() {
  std::array<char, 256> text{};
  const auto size = ::recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    reactor_.forget(fd_.get());
    events_.on_end();
    return;
  }
  const std::string_view said(text.data(), static_cast<std::size_t>(size));
  if (said == "ping") say("pong");
  if (said == "stop" || said.starts_with("stop ")) events_.on_stop();
}

}  // namespace meshbus
