#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/dispatcher.h"
#include "meshbus/address.h"
#include "meshbus/resize_order.h"
#include "meshbus/result.h"

namespace meshbus {

class Gateway;
class MeshMonitor;

/// The size that somebody orders for a mesh of this launcher.
struct OrderedSize {
  bool is_growth = true;
  std::vector<HostAddr> hosts = {};
  std::uint64_t blocks = 0;
  std::optional<std::chrono::milliseconds> grace = {};
  /// The order is given up after this.
  std::chrono::milliseconds limit{0};
  std::string requester = {};
};

/// Brings orders for another size, which hosts of a mesh pass on, to the object that stands for the
/// mesh here. Lives on the reactor's thread.
class OrderRouter {
 public:
  /// Called on the reactor's thread.
  using Answer = std::function<void(Result<OrderedResize>)>;
  /// Takes an order. Calls the answer once, later or at once.
  using Taker = std::function<void(OrderedSize, Answer)>;
  /// The mesh of a request, when an agent of ours has sent it, and that host; else null.
  using Find =
      std::function<MeshMonitor*(const Request&, const flatbuffers::String*, const HostAddr**)>;

  OrderRouter(Gateway& gateway, Find find) : gateway_(gateway), find_(std::move(find)) {}

  void handle(Dispatcher& handlers);
  /// `mesh`: its whole name.
  void add(const std::string& mesh, Taker taker);
  void remove(const std::string& mesh) { takers_.erase(mesh); }

 private:
  void on_order_resize(const Request& request, const wire::OrderResize& message);
  void refuse(const Request& request, ErrorCode code, const std::string& why);
  void answer(const Request& request, const std::string& mesh,
              const Result<OrderedResize>& resized);

  Gateway& gateway_;
  Find find_;
  std::map<std::string, Taker, std::less<>> takers_;
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
