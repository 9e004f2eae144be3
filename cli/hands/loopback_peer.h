#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace meshbus::cli {

/// The user whose process has the socket at CLIENT's port of 127.0.0.1, connected to SERVER's, from
/// the text of /proc/net/tcp or tcp6. Nothing: no process has it (any more). Pure.
std::optional<uid_t> find_socket_user(std::string_view table, std::uint16_t client,
                                      std::uint16_t server);

/// The user whose process is at the other end of a connection that came by 127.0.0.1: every local
/// user can connect there. Nothing: it has gone, or the kernel does not tell.
std::optional<uid_t> user_of_loopback_peer(int connection);

}  // namespace meshbus::cli
