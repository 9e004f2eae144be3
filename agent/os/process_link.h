#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "common/base/unique_fd.h"

/// What the keeper and a process of several procs say to each other (spec 4.4), over a
/// SOCK_SEQPACKET pair of their own. A proc is named by its place in Bootstrap.procs. Both ends are
/// on one machine and have the layout of this header; an end that gets something else drops the
/// socket. Header-only: roles that link nothing else use it, too.
namespace meshbus::os::process_link {

inline constexpr std::uint32_t kMostProcsPerProcess = 60;

enum class What : std::uint32_t {
  start = 1,   ///< Keeper → process: run that proc, one of `number`. With two descriptors, its
               ///< stdout and stderr; none: the process's are.
  signal = 2,  ///< Keeper → process: SIGTERM, SIGINT or SIGKILL for that proc (`number`).
  ended = 3,   ///< Process → keeper: with exit code `number`.
  killed = 4,  ///< Process → keeper: as if by signal `number`.
  ask = 5,     ///< Keeper → process, first of all: does it take procs later? An older process does
               ///< not answer.
  takes = 6,   ///< Process → keeper: it does.
  join = 7,    ///< Keeper → process: run one more. With three descriptors: its stdout and stderr,
               ///< and a bootstrap, in which it is in place `number`.
};

struct Record {
  What what{};
  std::uint32_t proc = 0;
  std::int32_t number = 0;
};

struct Message {
  Record record;
  UniqueFd out;
  UniqueFd err;
  UniqueFd bootstrap;
};
inline constexpr std::size_t kMostFds = 3;

/// False with errno, EAGAIN among them: it was not sent.
inline bool send(int socket, const Record& record, std::span<const int> fds = {}) {
  iovec body{const_cast<Record*>(&record), sizeof record};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))] = {};
  if (!fds.empty() && fds.size() <= kMostFds) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof record);
}

/// Nothing: with errno EAGAIN there is none now, with EMFILE its descriptors did not fit in here,
/// else the other end is gone.
inline std::optional<Message> receive(int socket) {
  Message got;
  iovec body{&got.record, sizeof got.record};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t size = -1;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    // Reset: the other end has gone without having read all. What it said before is still there.
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size < 0) return std::nullopt;
  UniqueFd* const places[] = {&got.out, &got.err, &got.bootstrap};
  std::size_t next = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      places[std::min(next++, kMostFds - 1)]->reset(fd);
    }
  }
  if (size != static_cast<ssize_t>(sizeof got.record) ||
      (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    errno = (message.msg_flags & MSG_CTRUNC) != 0 ? EMFILE : EPROTO;
    return std::nullopt;
  }
  return got;
}

}  // namespace meshbus::os::process_link
