#include "tests/world/strangers_zmtp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace meshbus::test {
namespace {

using namespace std::chrono_literals;

// The broker is asked by many at once here; one that it does not answer in time goes away as
// strangers do.
constexpr std::chrono::milliseconds patience = 500ms;

constexpr std::uint8_t flag_more = 1;
constexpr std::uint8_t flag_long = 2;
constexpr std::uint8_t flag_command = 4;

bool wait_for(int fd, short events) {
  pollfd one = {fd, events, 0};
  return ::poll(&one, 1, static_cast<int>(patience.count())) == 1;
}

}  // namespace

std::string zmtp_greeting() {
  std::string bytes(64, '\0');
  bytes[0] = '\xff';
  bytes[8] = 1;
  bytes[9] = '\x7f';
  bytes[10] = 3;
  bytes.replace(12, 4, "NULL");
  return bytes;
}

std::string zmtp_long_header(std::uint64_t size, std::uint8_t flags) {
  std::string bytes(1, static_cast<char>(flags | flag_long));
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift);
  return bytes;
}

std::string zmtp_frame(std::string_view body, bool has_more, bool is_command) {
  const auto flags =
      static_cast<std::uint8_t>((has_more ? flag_more : 0) | (is_command ? flag_command : 0));
  if (body.size() > 255) return zmtp_long_header(body.size(), flags).append(body);
  return (std::string(1, static_cast<char>(flags)) + static_cast<char>(body.size())).append(body);
}

std::string zmtp_ready(std::string_view socket_type) {
  std::string ready = "\5READY\13Socket-Type";
  ready += std::string(3, '\0') + static_cast<char>(socket_type.size());
  return zmtp_frame(ready.append(socket_type), /*has_more=*/false, /*is_command=*/true);
}

RawConnection::RawConnection(const std::string& address, std::uint32_t from) {
  const bool is_unix = address.front() == '/' || address.front() == '@';
  UniqueFd fd(::socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return;
  int result = 0;
  if (is_unix) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    address.copy(to.sun_path, sizeof to.sun_path - 1);
    if (address.front() == '@') to.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size() +
                                             (address.front() == '@' ? 0 : 1));
    result = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), size);
  } else {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str())));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in source{};
    source.sin_family = AF_INET;
    source.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
    if (from != 1 &&
        ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&source), sizeof source) != 0)
      return;
    result = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  if (result != 0 && (errno != EINPROGRESS || !wait_for(fd.get(), POLLOUT))) return;
  fd_ = std::move(fd);
}

bool RawConnection::write(std::string_view bytes) {
  while (fd_ && !bytes.empty()) {
    const ssize_t written = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return true;
    if (written < 0) return close(), false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return static_cast<bool>(fd_);
}

std::size_t RawConnection::write_some(std::string_view bytes) {
  const ssize_t written =
      fd_ ? ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
  return written < 0 ? 0 : static_cast<std::size_t>(written);
}

std::string RawConnection::read_some() {
  std::string bytes(64 * 1024, '\0');
  const ssize_t got = fd_ ? ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) : 0;
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

std::string RawConnection::read_to_end(std::chrono::steady_clock::time_point deadline) {
  std::string heard;
  for (auto now = std::chrono::steady_clock::now(); fd_ && now < deadline;
       now = std::chrono::steady_clock::now()) {
    pollfd watched{fd_.get(), POLLIN, 0};
    ::poll(&watched, 1,
           static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count()));
    std::array<char, 64 * 1024> buffer;
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
      heard.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
      close();
    }
  }
  return heard;
}

bool RawConnection::is_ended() {
  std::array<char, 4096> buffer;
  while (fd_) {
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    if (got < 0 && errno == EAGAIN) return false;
    close();
  }
  return true;
}

std::string RawConnection::read(std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (fd_ && have < size) {
    const ssize_t got = ::recv(fd_.get(), bytes.data() + have, size - have, 0);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (got == 0 || (errno != EINTR && (errno != EAGAIN || !wait_for(fd_.get(), POLLIN)))) {
      return {};
    }
  }
  return have == size ? bytes : std::string();
}

bool RawConnection::begin_handshake(std::string_view socket_type) {
  return write(zmtp_greeting() + zmtp_ready(socket_type));
}

bool RawConnection::shake_hands(std::string_view socket_type) {
  if (!write(zmtp_greeting()) || read(64).empty() || !write(zmtp_ready(socket_type))) return false;
  const std::string header = read(2);
  return !header.empty() && (header[0] & flag_command) != 0 &&
         !read(static_cast<unsigned char>(header[1])).empty();
}

bool RawConnection::send(const std::vector<std::string>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!write(zmtp_frame(parts[i], i + 1 < parts.size()))) return false;
  }
  return true;
}

void RawConnection::stop_reading() {
  ::shutdown(fd_.get(), SHUT_RD);
}

void RawConnection::close_with_reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  if (fd_) ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace meshbus::test
