#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::os {

inline constexpr std::size_t kMaxPacketBytes =
    64u << 10;  ///< One datagram; far below the kernel's default send buffer.
inline constexpr std::size_t kMaxPacketFds = 250;  ///< SCM_MAX_FD is 253.

/// One datagram of a SOCK_SEQPACKET socket with the descriptors that travel along, owned until it
/// was sent.
struct Packet {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
};

enum class Transfer {
  done,         ///< Sent, or received.
  would_block,  ///< Try again when the socket is ready.
  lost,         ///< The other end is gone.
};

/// A connected pair of close-on-exec, non-blocking SEQPACKET sockets. Errors: io_error.
Result<std::pair<UniqueFd, UniqueFd>> make_packet_pair();

/// Sends without blocking. A packet that the kernel can never take (too large) counts as lost.
Transfer send_packet(int socket, const Packet& packet);

/// Receives without blocking. A truncated packet (larger than we allow) counts as lost: the peer is
/// not one of ours.
Transfer receive_packet(int socket, Packet& packet);

}  // namespace meshbus::os
