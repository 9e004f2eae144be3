#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "common/bus/share_ticket.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"

namespace meshbus {

/// Where procs of this host put the descriptors of large bodies (decision 53): an abstract unix
/// socket of this process, made when it is first needed. Each connection brings one descriptor with
/// its ticket, from our own user or root. What strangers can have here is bounded: a connection of
/// another user is closed at once, and the oldest make room for the newest. Lives on the reactor's
/// thread.
class ShareInbox {
 public:
  /// What the names of inboxes begin with.
  static constexpr std::string_view kPrefix = "@meshbus-body-";
  /// Connections that have brought nothing yet, and descriptors that nobody has asked for yet.
  static constexpr std::size_t kMostWaiting = 16;
  static constexpr std::size_t kMostKept = 64;
  /// They are closed after this.
  static constexpr std::chrono::seconds kIdle{30};
  /// The pause when this process has no descriptor left for a connection.
  static constexpr std::chrono::seconds kExhausted{1};

  explicit ShareInbox(Reactor& reactor) : reactor_(reactor) {}
  ~ShareInbox();
  ShareInbox(const ShareInbox&) = delete;
  ShareInbox& operator=(const ShareInbox&) = delete;

  /// The name of the socket. Errors: io_error.
  Result<std::string> address();
  /// What came with that ticket. Errors: io_error (nothing did).
  Result<UniqueFd> take(const ShareTicket& ticket);
  /// Descriptors that are held here.
  std::size_t count() const noexcept { return waiting_.size() + kept_.size(); }
  /// Connections that were closed because they are of another user, or brought something else.
  std::uint64_t refused() const noexcept { return refused_; }

  /// For the other end: hands a descriptor over. Never waits. Errors: io_error, unauthorised (the
  /// inbox is of another user).
  static Result<void> put(std::string_view address, const ShareTicket& ticket, int descriptor);

 private:
  struct Waiting {
    UniqueFd connection;
    Reactor::Time since;
  };
  struct Kept {
    ShareTicket ticket;
    UniqueFd descriptor;
    Reactor::Time since;
  };

  Result<void> listen();
  void watch();
  /// Takes a bounded number of connections.
  void accept();
  /// Reads what a connection brings. False: nothing yet.
  bool read(int connection);
  /// Reads from the connections that have brought nothing yet.
  void read_waiting();
  void watch_age();

  Reactor& reactor_;
  UniqueFd listener_;
  std::string address_;
  std::deque<Waiting> waiting_;
  std::deque<Kept> kept_;
  std::uint64_t refused_ = 0;
  Reactor::TimerId exhausted_timer_ = 0;
  Reactor::TimerId age_timer_ = 0;
};

}  // namespace meshbus
