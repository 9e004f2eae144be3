#include "common/base/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "common/base/unique_fd.h"

namespace meshbus {
namespace {

using namespace std::chrono_literals;

/// A socket as systemd has one, in the abstract namespace.
class Listener {
 public:
  Listener() : name_("@meshbus-test-" + std::to_string(::getpid())) {
    sockaddr_un own{};
    own.sun_family = AF_UNIX;
    name_.copy(own.sun_path + 1, name_.size() - 1, 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    REQUIRE(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own), length) == 0);
  }
  const std::string& name() const { return name_; }
  /// What was said next; empty when nothing was.
  std::string next() {
    std::array<char, 256> text{};
    const auto got = ::recv(socket_.get(), text.data(), text.size(), MSG_DONTWAIT);
    return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : "";
  }

 private:
  UniqueFd socket_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  std::string name_;
};

TEST_CASE("service_manager: it says ready, alive three times within the limit, and stopping") {
  Listener systemd;
  ServiceManager manager(systemd.name(), 30s);
  const ServiceManager::Time start{1000s};
  manager.ready("serves unix:/run/meshbus/host-1/bus");
  CHECK(systemd.next() == "READY=1\nSTATUS=serves unix:/run/meshbus/host-1/bus");
  manager.keep_alive(start);
  CHECK(systemd.next() == "WATCHDOG=1");
  CHECK(manager.due() == start + 10s);
  manager.keep_alive(start + 9s);
  CHECK(systemd.next().empty());
  manager.keep_alive(start + 10s);
  CHECK(systemd.next() == "WATCHDOG=1");
  manager.stopping();
  CHECK(systemd.next() == "STOPPING=1");
}

TEST_CASE("service_manager: without a manager it says nothing, without a limit nothing is due") {
  ServiceManager nobody;
  nobody.ready("here");
  CHECK_FALSE(nobody.due());
  Listener systemd;
  ServiceManager unwatched(systemd.name(), 0s);
  CHECK_FALSE(unwatched.due());
  unwatched.keep_alive(ServiceManager::Time{1s});
  CHECK(systemd.next().empty());
}

TEST_CASE("service_manager: no child inherits the socket; another process's limit is not ours") {
  ::setenv("NOTIFY_SOCKET", "/nowhere", 1);
  ::setenv("WATCHDOG_USEC", "3000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  CHECK(ServiceManager::from_environment().period() == 1s);
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
    CHECK(std::getenv(name) == nullptr);
  ::setenv("NOTIFY_SOCKET", "/nowhere", 1);
  ::setenv("WATCHDOG_USEC", "3000000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  CHECK_FALSE(ServiceManager::from_environment().due());
}

}  // namespace
}  // namespace meshbus
