#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cli/chaos/chaos_book.h"
#include "cli/chaos/chaos_notices.h"
#include "cli/hands/hand_signals.h"
#include "cli/support/reach.h"
#include "client/src/context/connection.h"

namespace meshbus::cli {

/// What the orders of one run have in common.
struct ChaosOrders {
  std::uint8_t percent = 50;             ///< slow
  std::chrono::milliseconds delay{200};  ///< delay
  std::uint64_t bytes = 0;               ///< fill
  std::chrono::milliseconds answer{5'000};
  std::chrono::milliseconds settle{5'000};  ///< So long it listens after the last one.
};

/// Carries a schedule out: has the hosts do each thing when it is due, and listens to supervision
/// meanwhile. Each disturbance is ended by its host, so nothing has to be undone here.
class ChaosSession {
 public:
  /// Borrows all of them.
  ChaosSession(ReachedHosts& hosts, HandSignals& signals, const ChaosOrders& orders)
      : hosts_(hosts), signals_(signals), orders_(orders) {}

  /// Returns when the last disturbance is over and the time to settle, too, or at once when a
  /// signal says so. Errors: those of Site::watch().
  Result<void> run(const std::vector<ChaosDeed>& plan);

  const ChaosBook& book() const noexcept { return book_; }
  /// The signal that ended it.
  std::optional<int> interrupted() const noexcept { return interrupted_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Order {
    std::size_t deed;
    HostAddr host;
    Connection::Answer answer;
  };

  /// The time at which there is something to do next, until `next`: hears signals and views.
  void listen(const Site& site, Clock::time_point next);
  void take_view(const Site& site);
  void begin(const ChaosDeed& deed);
  void ask(std::size_t number, const ChaosDeed& deed, const HostAddr& host, bool to_broker,
           const std::optional<HostAddr>& peer);
  void take_answers();
  void take_answer(Order& order);
  ConnectionUse& connection(const HostAddr& host);

  ReachedHosts& hosts_;
  HandSignals& signals_;
  const ChaosOrders& orders_;
  ChaosBook book_;
  ChaosNotices notices_;
  std::uint64_t sequence_ = 0;
  std::map<HostAddr, ConnectionUse> connections_;
  std::vector<Order> open_;
  std::optional<int> interrupted_;
};

}  // namespace meshbus::cli
