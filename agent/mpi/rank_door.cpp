#include "agent/mpi/rank_door.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "common/base/os_error.h"
#include "common/base/unix_address.h"
#include "common/base/unix_peer.h"

namespace meshbus::mpi {
namespace {

/// A line of PMI-1 is shorter than 1,400 bytes.
constexpr std::size_t kLongestLine = 65'536;
/// For a rank to take an answer that does not fit into its socket.
constexpr int kWriteLimit = 5000;

/// Waits for a slow reader instead of losing bytes.
void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    pollfd ready{fd, POLLOUT, 0};
    if (errno != EAGAIN || ::poll(&ready, 1, kWriteLimit) != 1) return;
  }
}

/// The answer to a hello: its size, then the entries with a NUL behind each. One that begins with
/// '!' says why the rank is refused.
std::string pack(const Result<std::vector<std::string>>& answer) {
  std::string body;
  if (answer) {
    for (const auto& entry : *answer) body.append(entry).push_back('\0');
  } else {
    body = "!" + answer.error().to_string() + '\0';
  }
  const auto size = static_cast<std::uint32_t>(body.size());
  std::string text(sizeof size, '\0');
  std::memcpy(text.data(), &size, sizeof size);
  return text + body;
}

}  // namespace

RankDoor::RankDoor(Reactor& reactor, Handlers handlers)
    : reactor_(reactor), handlers_(std::move(handlers)) {}

RankDoor::~RankDoor() {
  while (!connections_.empty()) close(connections_.begin()->first);
  if (listener_) reactor_.forget(listener_.get());
}

Result<void> RankDoor::open(const std::string& name) {
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const UnixAddress address(name);
  if (!listener || ::bind(listener.get(), address.get(), address.size()) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0)
    return fail(ErrorCode::io_error, os_error("the socket for the ranks, " + name));
  listener_ = std::move(listener);
  reactor_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept_all(); });
  return {};
}

void RankDoor::accept_all() {
  while (true) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    const auto peer = unix_peer_of(socket.get());
    if (!peer || peer->uid != ::geteuid()) continue;
    UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, peer->pid, 0)));
    if (!process) continue;  // It has ended.
    const int fd = socket.get();
    auto connection = std::make_unique<Connection>();
    connection->socket = std::move(socket);
    connection->process = std::move(process);
    reactor_.watch(fd, EPOLLIN, [this, fd](std::uint32_t) { read(fd); });
    reactor_.watch(connection->process.get(), EPOLLIN, [this, fd](std::uint32_t) {
      // What it has said before its end comes first.
      read(fd);
      close(fd);
    });
    connections_[fd] = std::move(connection);
  }
}

void RankDoor::read(int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  auto& connection = *found->second;
  char bytes[16'384];
  while (true) {
    const auto got = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      // The process may have closed it and live on: its end is told by its pidfd.
      if (got == 0 || errno != EAGAIN) reactor_.forget(fd);
      break;
    }
    connection.unread.append(bytes, static_cast<std::size_t>(got));
    if (static_cast<std::size_t>(got) < sizeof bytes) break;
  }
  std::string text = std::exchange(connection.unread, {});
  std::size_t from = 0;
  for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
    take_line(fd, std::string_view(text).substr(from, end - from));
    from = end + 1;
    if (!connections_.contains(fd)) return;
  }
  if (text.size() - from <= kLongestLine) connection.unread = text.substr(from);
}

void RankDoor::take_line(int fd, std::string_view line) {
  auto& connection = *connections_.at(fd);
  if (connection.is_known) return handlers_.on_line(connection.hello, line);
  const auto hello = RankHello::parse(line);
  if (!hello) return write_all(fd, pack(fail(hello.error())));
  if (auto checked = handlers_.check(*hello); !checked)
    return write_all(fd, pack(fail(checked.error())));
  connection.hello = *hello;
  connection.is_known = true;
  by_rank_[hello->rank] = fd;
  handlers_.on_hello(*hello);
}

void RankDoor::answer(std::uint64_t rank, const Result<std::vector<std::string>>& entries) {
  write(rank, pack(entries));
}

void RankDoor::write(std::uint64_t rank, std::string_view text) {
  if (const auto found = by_rank_.find(rank); found != by_rank_.end())
    write_all(found->second, text);
}

Result<void> RankDoor::kill(std::uint64_t rank) {
  const auto found = by_rank_.find(rank);
  if (found == by_rank_.end()) return {};
  const int process = connections_.at(found->second)->process.get();
  if (::syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0) != 0 && errno != ESRCH)
    return fail(ErrorCode::io_error, os_error("SIGKILL for rank " + std::to_string(rank)));
  return {};
}

void RankDoor::close(int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  const auto connection = std::move(found->second);
  connections_.erase(found);
  reactor_.forget(fd);
  reactor_.forget(connection->process.get());
  if (!connection->is_known) return;
  if (const auto at = by_rank_.find(connection->hello.rank);
      at != by_rank_.end() && at->second == fd)
    by_rank_.erase(at);
  handlers_.on_end(connection->hello);
}

}  // namespace meshbus::mpi
