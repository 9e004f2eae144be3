#pragma once

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/base/unique_fd.h"
#include "tests/world/loop.h"

namespace meshbus::test {

/// A relay for TCP on loopback that does to connections what networks do. What it has read and not
/// written dies with a connection that it resets. Lives on the loop's thread.
class TcpProxy {
 public:
  explicit TcpProxy(Loop& loop)
      : loop_(loop), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_.get(), 64) == 0);
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    loop_.reactor.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { on_accept(); });
  }
  ~TcpProxy() {
    loop_.reactor.forget(listener_.get());
    reset();
  }
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::uint16_t port() const { return port_; }
  void set_target(std::uint16_t port) { target_ = port; }
  std::size_t connections() const { return pairs_.size(); }

  /// Ends every connection by RST, both ways.
  void reset() {
    while (!pairs_.empty()) drop(pairs_.begin()->first);
  }
  /// Nothing passes any more, and nobody is told; new connections are made and nothing passes them
  /// either.
  void blackhole(bool is_on) {
    is_black_ = is_on;
    for (auto& [id, pair] : pairs_) watch(id);
  }
  /// Returns what is passed on in place of `bytes`. Side 0 is the end that connected.
  using Change =
      std::function<std::string(std::uint64_t connection, int side, std::string_view bytes)>;
  void change(Change change) { change_ = std::move(change); }

  /// From now on nothing that the connecting side sends arrives: it is on its way.
  void hold() {
    for (auto& [id, pair] : pairs_) {
      if (!pair.is_torn) pair.is_held = true;
      watch(id);
    }
  }
  /// The connecting side of each held connection finds it ended, and makes another one; the other
  /// side notices nothing.
  void tear() {
    for (auto& [id, pair] : pairs_) {
      if (!pair.is_held || pair.is_torn) continue;
      pair.is_torn = true;
      end_by_reset(pair.ends[0]);
      watch(id);
    }
  }
  /// What was on its way arrives, also by connections that have been torn, which end with that.
  void let_go() {
    for (auto& [id, pair] : pairs_) {
      if (!std::exchange(pair.is_held, false)) continue;
      if (pair.is_torn) late_bytes_ += pair.ends[1].to_write.size();
      if (pair.is_torn && pair.ends[1].to_write.empty()) ::shutdown(pair.ends[1].fd.get(), SHUT_WR);
      watch(id);
    }
  }
  /// What arrived by torn connections.
  std::uint64_t late_bytes() const { return late_bytes_; }

  std::uint64_t bytes() const { return bytes_; }
  /// Records what passes, as it is on the wire, in both directions: of all connections, in the
  /// order of reading.
  void record() { is_recording_ = true; }
  const std::string& sent() const { return recorded_[0]; }
  const std::string& answered() const { return recorded_[1]; }

 private:
  struct End {
    UniqueFd fd;
    std::string to_write;
  };
  struct Pair {
    End ends[2];
    bool is_held = false;
    bool is_torn = false;
  };
  static constexpr std::size_t kMostBuffered = 256 * 1024;

  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void on_accept() {
    UniqueFd in(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (in.get() < 0) return;
    UniqueFd out(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(target_);
    // In progress, or refused: a write tells.
    std::ignore = ::connect(out.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const auto id = next_++;
    Pair& pair = pairs_[id];
    pair.ends[0].fd = std::move(in);
    pair.ends[1].fd = std::move(out);
    watch(id);
  }
  void watch(std::uint64_t id) {
    const Pair& pair = pairs_.at(id);
    for (int side = 0; side < 2; ++side) {
      const End& end = pair.ends[side];
      const End& other = pair.ends[1 - side];
      if (!end.fd) continue;
      std::uint32_t events = 0;
      if (!is_black_ && other.to_write.size() < kMostBuffered) events |= EPOLLIN;
      if (!is_black_ && may_write(pair, end)) events |= EPOLLOUT;
      loop_.reactor.forget(end.fd.get());
      if (events != 0)
        loop_.reactor.watch(end.fd.get(), events,
                            [this, id, side](std::uint32_t ready) { on_ready(id, side, ready); });
    }
  }
  static bool may_write(const Pair& pair, const End& end) {
    return end.fd && !end.to_write.empty() && !(pair.is_held && &end == &pair.ends[1]);
  }
  void on_ready(std::uint64_t id, int side, std::uint32_t ready) {
    Pair& pair = pairs_.at(id);
    End& end = pair.ends[side];
    End& other = pair.ends[1 - side];
    if ((ready & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
      char buffer[65536];
      const auto size = ::recv(end.fd.get(), buffer, sizeof buffer, 0);
      if (size == 0 || (size < 0 && errno != EAGAIN)) return drop(id);
      const std::string_view got(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
      if (other.fd)
        other.to_write.append(change_ && !got.empty() ? change_(id, side, got) : std::string(got));
      if (is_recording_) recorded_[side].append(got);
    }
    for (End* one : {&end, &other}) {
      if (!may_write(pair, *one)) continue;
      const auto size =
          ::send(one->fd.get(), one->to_write.data(), one->to_write.size(), MSG_NOSIGNAL);
      if (size < 0 && errno != EAGAIN && errno != ENOTCONN) return drop(id);
      if (size > 0) {
        bytes_ += static_cast<std::uint64_t>(size);
        one->to_write.erase(0, static_cast<std::size_t>(size));
        if (pair.is_torn && one->to_write.empty()) ::shutdown(one->fd.get(), SHUT_WR);
      }
    }
    watch(id);
  }
  void drop(std::uint64_t id) {
    const auto found = pairs_.find(id);
    for (End& end : found->second.ends) end_by_reset(end);
    pairs_.erase(found);
  }
  void end_by_reset(End& end) {
    if (!end.fd) return;
    loop_.reactor.forget(end.fd.get());
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(end.fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    end.fd = UniqueFd();
  }

  Loop& loop_;
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::uint16_t target_ = 0;
  std::map<std::uint64_t, Pair> pairs_;
  std::uint64_t next_ = 1;
  std::uint64_t bytes_ = 0;
  std::uint64_t late_bytes_ = 0;
  Change change_;
  bool is_black_ = false;
  bool is_recording_ = false;
  std::string recorded_[2];
};

}  // namespace meshbus::test
