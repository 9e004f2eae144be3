#include "cli/hands/forward_session.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

constexpr std::size_t kForwardPiece = 64 * 1024;
/// Connections at a time; the others wait.
constexpr std::size_t kMostLinks = 1000;
/// Descriptors that are not those of connections: libraries, connections to hosts, doors.
constexpr std::size_t kOtherDescriptors = 64;
/// A socket, and the news of its exec.
constexpr std::size_t kDescriptorsOfLink = 2;
/// From a connection that could not be taken to the next attempt.
constexpr std::chrono::milliseconds kDoorPause{100};
/// What is kept of what the other side says: one message may go beyond it.
constexpr std::size_t kMostSaidOfLink = 4096;

std::size_t most_links() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMostLinks;
  const auto descriptors = static_cast<std::size_t>(limit.rlim_cur);
  const auto free = descriptors - std::min(descriptors, kOtherDescriptors);
  return std::clamp<std::size_t>(free / kDescriptorsOfLink, 1, kMostLinks);
}

}  // namespace

ForwardSession::ForwardSession(HandSignals& signals)
    : signals_(signals), most_links_(most_links()) {}

void ForwardSession::add(LocalListener listener, std::string name, Connect connect) {
  doors_.push_back({std::move(listener), std::move(name), std::move(connect)});
}

int ForwardSession::run() {
  while (true) {
    std::vector<pollfd> fds = {{signals_.fd(), POLLIN, 0}};
    const auto pause = pause_left();
    const bool are_open = links_.size() < most_links_ && pause == 0;
    for (const auto& door : doors_) fds.push_back({are_open ? door.listener.fd() : -1, POLLIN, 0});
    for (const auto& link : links_) {
      const bool may_read = !link.is_read && link.exec.news().may_write();
      const bool may_write = link.sequence.has_value();
      const auto events = static_cast<short>((may_read ? POLLIN : 0) | (may_write ? POLLOUT : 0));
      fds.push_back({events == 0 ? -1 : link.socket.get(), events, 0});
      fds.push_back({link.exec.news().fd(), POLLIN, 0});
    }
    if (::poll(fds.data(), fds.size(), pause > 0 ? pause : -1) < 0 && errno != EINTR)
      return kOwnFailure;
    while (const auto signal = signals_.next()) {
      // An end that was asked for, in the way that there is.
      if (*signal == SIGINT || *signal == SIGTERM || *signal == SIGHUP) return by_signal(*signal);
    }
    std::size_t at = 1 + doors_.size();
    for (auto& link : links_) {
      turn(link, fds[at].revents);
      at += 2;
    }
    links_.remove_if([](const Link& link) { return link.is_over; });
    for (std::size_t i = 0; i < doors_.size(); ++i) {
      if (fds[1 + i].revents != 0) accept(doors_[i]);
    }
  }
}

int ForwardSession::pause_left() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(pause_end_ - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void ForwardSession::pause() {
  pause_end_ = Clock::now() + kDoorPause;
}

void ForwardSession::accept(Door& door) {
  UniqueFd socket = door.listener.accept();
  if (!socket) {
    const int error = errno;
    // Its client went away.
    if (error == EAGAIN || error == ECONNABORTED || error == EINTR) return;
    // Said once, not with each attempt.
    if (Clock::now() - pause_end_ > kDoorPause)
      complain(door.name + ": a connection cannot be taken yet: " + std::strerror(error));
    return pause();
  }
  if (const auto own = door.listener.check_peer(socket.get()); !own)
    return complain(door.name + ": " + own.error().detail());
  auto exec = door.connect();
  if (!exec) {
    pause();
    return complain(door.name + ": " + exec.error().to_string());
  }
  links_.push_back({.socket = std::move(socket), .exec = std::move(*exec), .name = door.name});
}

void ForwardSession::turn(Link& link, short ready) {
  auto& news = link.exec.news();
  news.clear();
  if ((ready & (POLLIN | POLLHUP | POLLERR)) != 0 && !link.is_read && news.may_write()) read(link);
  if (news.is_input_closed()) link.is_read = true;
  write(link);
  while (!link.sequence && !link.is_over) {
    auto piece = news.take();
    if (!piece) break;
    if (piece->is_err) {
      if (link.said.size() < kMostSaidOfLink) link.said += piece->bytes;
      link.exec.taken(piece->sequence);
      continue;
    }
    link.is_back_ended = link.is_back_ended || piece->is_end;
    link.pending = std::move(piece->bytes);
    link.at = 0;
    link.sequence = piece->sequence;
    write(link);
  }
  if (link.sequence || link.is_over) return;
  if (const auto end = news.end()) finish(link, *end);
}

void ForwardSession::read(Link& link) {
  std::string bytes(kForwardPiece, '\0');
  const auto n = ::recv(link.socket.get(), bytes.data(), bytes.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // A connection that was reset ends the other half, too.
  if (n < 0) {
    link.is_over = true;
    return;
  }
  bytes.resize(static_cast<std::size_t>(n));
  link.is_read = n == 0;
  link.exec.write(std::move(bytes), link.is_read);
}

void ForwardSession::write(Link& link) {
  while (link.sequence && link.at < link.pending.size()) {
    const auto n = ::send(link.socket.get(), link.pending.data() + link.at,
                          link.pending.size() - link.at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {
      link.is_over = true;
      return;
    }
    link.at += static_cast<std::size_t>(n);
  }
  if (!link.sequence) return;
  if (link.is_back_ended) ::shutdown(link.socket.get(), SHUT_WR);
  link.exec.taken(*std::exchange(link.sequence, std::nullopt));
}

void ForwardSession::finish(Link& link, const Result<ExecEnd>& end) {
  link.is_over = true;
  while (link.said.ends_with('\n')) link.said.pop_back();
  if (!end)
    complain(link.name + ": " + end.error().to_string());
  else if (!end->reason.empty())
    complain(link.name + ": the connection was ended: " + end->reason);
  else if (end->code != 0 || end->signal != 0)
    complain(link.name + ": " + (link.said.empty() ? "the connection broke off" : link.said));
}

}  // namespace meshbus::cli
