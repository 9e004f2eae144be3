#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

namespace meshbus {

/// The address of a unix socket as the kernel takes it: of a path, or of an abstract name
/// (`@name`).
class UnixAddress {
 public:
  /// Throws std::system_error when the path is empty or too long.
  explicit UnixAddress(std::string_view path) {
    address_.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address_.sun_path)
      throw std::system_error(ENAMETOOLONG, std::generic_category(),
                              "a unix socket of " + std::to_string(path.size()) + " bytes");
    path.copy(address_.sun_path, path.size());
    const bool is_abstract = path.front() == '@';
    if (is_abstract) address_.sun_path[0] = '\0';
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() +
                                   (is_abstract ? 0 : 1));
  }
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const noexcept { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

}  // namespace meshbus
