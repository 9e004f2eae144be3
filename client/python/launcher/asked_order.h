#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "meshbus/client.h"

namespace meshbus::python {

/// An order for another size of a mesh, while a function of Python looks at it. The thread of the
/// order waits in decide() until settle(); Python's threads use the rest. Needs no GIL.
class AskedOrder {
 public:
  /// `order` is valid until decide() returns.
  explicit AskedOrder(const ResizeOrder& order);

  const bool is_growth;
  const std::vector<HostAddr> hosts;
  const std::uint64_t blocks;
  const RankSet leaving;
  const std::string requester;

  /// Waits until Python has settled it. What carry_out() gave, or why Python refuses.
  Result<ResizeReport> decide();
  /// As ResizeOrder::carry_out(), once. Errors: also refused, when it was done or is settled.
  Result<ResizeReport> carry_out(std::vector<HostAddr> where);
  /// Ends the order: `refusal` is the answer if it was not carried out. False: it was.
  bool settle(std::string refusal);

 private:
  const ResizeOrder& order_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_begun_ = false;  ///< carry_out() was called.
  std::optional<Result<ResizeReport>> done_;
  std::optional<std::string> refusal_;  ///< It is settled.
};

/// The orders for a mesh whose launcher takes them: one at a time, and none any more once the mesh
/// is closed. From any thread, without the GIL.
class AskedOrders {
 public:
  /// The order that Python is to look at; nothing once it is closed.
  std::shared_ptr<AskedOrder> begin(const ResizeOrder& order);
  /// Settles the order that is under way, and refuses those to come.
  void close();

  /// Why an order is refused that Python does not decide any more.
  static constexpr const char* kClosed = "its launcher has closed it";

 private:
  std::mutex mutex_;
  std::weak_ptr<AskedOrder> current_;
  bool is_closed_ = false;
};

}  // namespace meshbus::python
