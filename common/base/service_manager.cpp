#include "common/base/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "common/base/unique_fd.h"

namespace meshbus {
namespace {

std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  std::string socket = take_variable("NOTIFY_SOCKET");
  const std::string limit = take_variable("WATCHDOG_USEC");
  const std::string watched = take_variable("WATCHDOG_PID");
  // The limit is meant for another process, the shell that started this one, say.
  const bool is_other = !watched.empty() && watched != std::to_string(::getpid());
  const auto microseconds = is_other ? 0 : std::strtoll(limit.c_str(), nullptr, 10);
  return {std::move(socket), std::chrono::microseconds(std::max(0LL, microseconds))};
}

void ServiceManager::ready(std::string_view status) {
  send("READY=1\nSTATUS=" + std::string(status));
}

void ServiceManager::stopping() {
  send("STOPPING=1");
}

std::chrono::milliseconds ServiceManager::period() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(watchdog_) / 3;
}

std::optional<ServiceManager::Time> ServiceManager::due() const {
  if (socket_.empty() || watchdog_ == watchdog_.zero()) return std::nullopt;
  return last_ + period();
}

void ServiceManager::keep_alive(Time now) {
  if (const auto next = due(); !next || now < *next) return;
  last_ = now;
  send("WATCHDOG=1");
}

// A manager that does not listen is no reason to end: errors are ignored.
void ServiceManager::send(std::string_view state) const {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (socket_.empty() || socket_.size() >= sizeof to.sun_path) return;
  std::copy(socket_.begin(), socket_.end(), to.sun_path);
  if (socket_.front() == '@') to.sun_path[0] = '\0';
  const UniqueFd out(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  [[maybe_unused]] const auto sent = ::sendto(out.get(), state.data(), state.size(), MSG_NOSIGNAL,
                                              reinterpret_cast<const sockaddr*>(&to), length);
}

}  // namespace meshbus
