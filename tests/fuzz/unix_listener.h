#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "common/base/unique_fd.h"
#include "tests/fuzz/support.h"

namespace meshbus::fuzz {

/// Where the connections go, for the whole run.
class UnixListener {
 public:
  UnixListener() : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const std::string name = "@meshbus-fuzz-" + std::to_string(::getpid());
    endpoint = "ipc://" + name;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, name.size());
    address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    FUZZ_CHECK(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                   ::listen(fd_.get(), 4) == 0,
               name);
  }
  /// Closes connections that nobody has accepted.
  void drop_waiting() const {
    for (pollfd waiting{fd_.get(), POLLIN, 0}; ::poll(&waiting, 1, 0) == 1;) accept();
  }
  UniqueFd accept() const { return UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

  std::string endpoint;

 private:
  UniqueFd fd_;
};

}  // namespace meshbus::fuzz
