#include "agent/os/packet.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace meshbus::os {

namespace {

// Room for the control message of a full packet, aligned as the kernel wants it.
union ControlBuffer {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(sizeof(int) * kMaxPacketFds)];
};

bool adopt_descriptors(msghdr& message, Packet& packet) {
  bool sound = (message.msg_flags & MSG_CTRUNC) == 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      packet.fds.emplace_back(fd);
    }
  }
  return sound;
}

}  // namespace

Result<std::pair<UniqueFd, UniqueFd>> make_packet_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return fail(ErrorCode::io_error,
                std::string("socketpair(AF_UNIX, SOCK_SEQPACKET): ") + std::strerror(errno));
  }
  return std::pair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Transfer send_packet(int socket, const Packet& packet) {
  iovec body{const_cast<std::byte*>(packet.bytes.data()), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  ControlBuffer control;
  if (!packet.fds.empty()) {
    if (packet.fds.size() > kMaxPacketFds) return Transfer::lost;
    std::memset(&control, 0, sizeof control);
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * packet.fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * packet.fds.size());
    for (std::size_t i = 0; i < packet.fds.size(); ++i) {
      const int fd = packet.fds[i].get();
      std::memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof fd);
    }
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Transfer::done;
    if (errno == EINTR) continue;
    // ENOBUFS, ENOMEM and ETOOMANYREFS (descriptors in flight) pass when the peer has read;
    // EPOLLOUT comes back at once, which is a slow poll rather than a lost proc.
    if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS)
      return Transfer::would_block;
    return Transfer::lost;
  }
}

Transfer receive_packet(int socket, Packet& packet) {
  packet.fds.clear();
  packet.bytes.resize(kMaxPacketBytes);
  iovec body{packet.bytes.data(), packet.bytes.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &body;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t length = -1;
  do {
    length = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // Reset: the other end has gone without having read all. What it said before is still there.
  } while (length < 0 && (errno == EINTR || errno == ECONNRESET));
  if (length < 0) {
    packet.bytes.clear();
    return errno == EAGAIN ? Transfer::would_block : Transfer::lost;
  }
  const bool sound = adopt_descriptors(message, packet);
  packet.bytes.resize(static_cast<std::size_t>(length));
  // No packet of ours is empty: length 0 is the end of the connection.
  if (length == 0 || !sound || (message.msg_flags & MSG_TRUNC) != 0) return Transfer::lost;
  return Transfer::done;
}

}  // namespace meshbus::os
