#pragma once

#include <atomic>
#include <memory>
#include <stop_token>
#include <thread>

#include "client/src/monitors/order_router.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"

namespace meshbus {

/// Hands orders for another size of a mesh to its launcher (Handlers::on_resize_order), one at a
/// time, on a thread of their own.
class ResizeOrders {
 public:
  /// `mesh` has such a handler, and outlives this.
  explicit ResizeOrders(ProcMesh::Impl& mesh);
  /// No order comes any more; the one that is under way is given up. join() waits for it.
  void close();
  /// Not on the thread of an order: that one ends by itself.
  void join();
  ~ResizeOrders() { join(); }
  ResizeOrders(const ResizeOrders&) = delete;
  ResizeOrders& operator=(const ResizeOrders&) = delete;

 private:
  /// On the reactor's thread.
  void take(OrderedSize order, OrderRouter::Answer answer);

  ProcMesh::Impl& mesh_;
  /// Whether an order is under way. Its thread may outlive this.
  std::shared_ptr<std::atomic<bool>> is_busy_ = std::make_shared<std::atomic<bool>>(false);
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace meshbus
