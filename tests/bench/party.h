#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/bus/bus.h"
#include "common/loop/reactor.h"

/// Peers of a broker that press on it, or take what presses.
namespace meshbus::bench {

/// A peer on our library as it is built into launchers and procs. Throws std::runtime_error when it
/// cannot be one.
class Party {
 public:
  explicit Party(const std::string& address, Dispatcher handlers = {}, Bus::Events events = {});
  Bus& bus() noexcept { return *bus_; }
  Reactor& reactor() noexcept { return reactor_; }
  template <typename Predicate>
  void turn_until(Predicate predicate) {
    while (!predicate()) turn();
  }
  void turn();

 private:
  Reactor reactor_;
  std::optional<Bus> bus_;
};

/// Asks a reader, by a control message, until it answers; how long that took.
std::chrono::nanoseconds ask(Party& party, const Destination& reader);

/// How a reader takes messages.
struct Taking {
  /// Busy for so long with each.
  std::chrono::nanoseconds busy{0};
  /// Waits so long after each, and takes nothing meanwhile.
  std::chrono::nanoseconds pause{0};
  /// Takes none at all.
  bool is_stopped = false;
};

/// `meshbus-bench reader ADDRESS BUSY_NS PAUSE_NS`, and with a pause of -1 stopped: takes messages
/// and answers what ask() asks. Prints its name. Never returns but by an exception.
int run_reader(const std::string& address, const Taking& taking);
/// `meshbus-bench sender ADDRESS READER SIZE`: sends to it as much as it may, and goes on when some
/// of it comes back because a queue is full; sleeps when it may not. Prints its name.
int run_sender(const std::string& address, const std::string& reader, std::size_t size);

/// `meshbus-bench broker PATH` and `... PATH forget`: a broker on that unix socket, known by a tcp
/// address. To forget, it says as one of the first release that it does not resume links, and keeps
/// nothing of what it sent. Prints a line when it listens; ends when stdin ends.
int run_broker(const std::string& path, bool is_forgetting);

}  // namespace meshbus::bench
