#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace meshbus::test {
namespace {

using Clock = std::chrono::steady_clock;

UniqueFd connect_to(const std::string& url) {
  UniqueFd socket;
  int done = -1;
  if (url.starts_with("unix:")) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, url.c_str() + 5, sizeof address.sun_path - 1);
    socket.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    done = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } else {
    const auto colon = url.rfind(':');
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(colon + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    done = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  if (done != 0) throw std::runtime_error("cannot connect to " + url + ": " + std::strerror(errno));
  return socket;
}

/// Whether a response with its Content-Length is there as a whole.
bool is_complete(std::string_view received) {
  constexpr std::string_view kLength = "\r\ncontent-length:";
  const auto end = received.find("\r\n\r\n");
  if (end == std::string_view::npos) return false;
  std::string head(received.substr(0, end));
  for (char& letter : head) letter = static_cast<char>(std::tolower(letter));
  const auto length = head.find(kLength);
  return length != std::string::npos &&
         received.size() - end - 4 >= std::stoull(head.substr(length + kLength.size()));
}

}  // namespace

HttpClient::HttpClient(const std::string& url) : socket_(connect_to(url)) {}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool HttpClient::read_some(Clock::time_point until) {
  if (is_closed_) return false;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd ready{socket_.get(), POLLIN, 0};
  if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) <= 0) return false;
  std::array<char, 65536> buffer;
  const auto got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (got <= 0) {
    is_closed_ = true;
    return false;
  }
  received_.append(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

bool HttpClient::read_until(std::string_view text, std::chrono::milliseconds deadline) {
  const auto until = Clock::now() + deadline;
  while (received_.find(text) == std::string::npos) {
    if (!read_some(until)) return false;
  }
  return true;
}

bool HttpClient::is_closed_within(std::chrono::milliseconds deadline) {
  const auto until = Clock::now() + deadline;
  while (read_some(until)) {
  }
  return is_closed_;
}

HttpAnswer HttpClient::read_all(std::chrono::milliseconds deadline) {
  const auto until = Clock::now() + deadline;
  while (!is_complete(received_) && read_some(until)) {
  }
  HttpAnswer answer;
  const auto end = received_.find("\r\n\r\n");
  if (end == std::string::npos || !received_.starts_with("HTTP/1.1 ")) return answer;
  answer.status = std::stoi(received_.substr(9, 3));
  answer.head = received_.substr(0, end);
  answer.body = received_.substr(end + 4);
  return answer;
}

HttpAnswer http_get(const std::string& url, const std::string& path,
                    const std::vector<std::string>& headers) {
  HttpClient client(url);
  std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n";
  for (const auto& header : headers) request += header + "\r\n";
  client.send(request + "\r\n");
  return client.read_all();
}

}  // namespace meshbus::test
