#include "client/src/proc_mesh/resize_orders.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"

namespace meshbus {

/// The order, and how it is carried out.
class ResizeOrder::Impl {
 public:
  Impl(ProcMesh::Impl& mesh, OrderedSize order, std::stop_token stop)
      : mesh_(mesh), order_(std::move(order)), stop_(std::move(stop)) {}

  const OrderedSize& order() const noexcept { return order_; }
  RankSet leaving() const {
    const auto& ref = mesh_.monitor().shown();
    const auto blocks = ref.hosts().size();
    if (order_.is_growth || order_.blocks == 0 || order_.blocks > blocks) return {};
    const auto first = ref.block_of(blocks - order_.blocks);
    return first ? RankSet{{first->begin, ref.num_ranks()}} : RankSet{};
  }
  Result<ResizeReport> carry_out(std::vector<HostAddr> hosts) const {
    if (order_.is_growth) {
      if (hosts.empty()) hosts = order_.hosts;
      return grow_mesh(mesh_, {.hosts = std::move(hosts), .blocks = order_.blocks, .stop = stop_});
    }
    ShrinkOptions options{.blocks = order_.blocks, .grace = order_.grace};
    if (!order_.requester.empty()) options.reason += ", as " + order_.requester + " has ordered";
    return shrink_mesh(mesh_, options);
  }

 private:
  ProcMesh::Impl& mesh_;
  const OrderedSize order_;
  const std::stop_token stop_;
};

bool ResizeOrder::is_growth() const noexcept {
  return impl_.order().is_growth;
}
const std::vector<HostAddr>& ResizeOrder::hosts() const noexcept {
  return impl_.order().hosts;
}
std::uint64_t ResizeOrder::blocks() const noexcept {
  return impl_.order().blocks;
}
RankSet ResizeOrder::leaving() const {
  return impl_.leaving();
}
const std::string& ResizeOrder::requester() const noexcept {
  return impl_.order().requester;
}
Result<ResizeReport> ResizeOrder::carry_out(std::vector<HostAddr> hosts) const {
  return impl_.carry_out(std::move(hosts));
}

namespace {

/// What the sender of an order is told of what was done.
OrderedResize to_answer(const ProcMeshRef& mesh, const ResizeReport& report) {
  OrderedResize answer{.size = report.size, .ranks = report.came};
  for (std::uint64_t index = 0; index < mesh.hosts().size(); ++index) {
    const auto block = mesh.block_of(index);
    if (block && block->size() > 0 && contains(report.came, block->begin))
      answer.hosts.push_back(mesh.hosts()[index]);
  }
  std::vector<std::uint64_t> gone;
  for (const auto& rank : report.gone) {
    gone.push_back(rank.rank);
    const bool is_next =
        gone.size() == 1 || rank.host_index != report.gone[gone.size() - 2].host_index;
    if (is_next) answer.hosts.push_back(rank.host);
  }
  if (!gone.empty()) answer.ranks = to_rank_set(gone);
  return answer;
}

/// The handler is the launcher's: it may throw.
Result<ResizeReport> call_handler(const MeshMonitor& monitor, const ResizeOrder& order) {
  try {
    return monitor.options().handlers.on_resize_order(order);
  } catch (const std::exception& thrown) {
    log::error("on_resize_order has thrown: " + std::string(thrown.what()));
    return fail(ErrorCode::call_error,
                "mesh " + monitor.name() + ": its launcher has thrown: " + thrown.what());
  } catch (...) {
    log::error("on_resize_order has thrown what is no std::exception");
    return fail(ErrorCode::call_error, "mesh " + monitor.name() + ": its launcher has thrown");
  }
}

}  // namespace

ResizeOrders::ResizeOrders(ProcMesh::Impl& mesh) : mesh_(mesh) {
  mesh_.core().run([&] {
    mesh_.connection().updates().orders().add(
        mesh_.monitor().name(), [this](OrderedSize order, OrderRouter::Answer answer) {
          take(std::move(order), std::move(answer));
        });
  });
}

void ResizeOrders::close() {
  mesh_.core().run([&] { mesh_.connection().updates().orders().remove(mesh_.monitor().name()); });
  stop_.request_stop();
}

void ResizeOrders::join() {
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void ResizeOrders::take(OrderedSize order, OrderRouter::Answer answer) {
  const auto monitor = mesh_.shared_monitor();
  if (is_busy_->exchange(true))
    return answer(fail(ErrorCode::refused,
                       "mesh " + monitor->name() + ": another order for its size is under way"));
  // It has ended, or is about to.
  join();
  stop_ = std::stop_source();
  mesh_.core().reactor().after(order.limit, [stop = stop_]() mutable { stop.request_stop(); });
  thread_ = std::thread([impl = ResizeOrder::Impl(mesh_, std::move(order), stop_.get_token()),
                         core = mesh_.connection_use().core(), monitor, is_busy = is_busy_,
                         answer = std::move(answer)]() mutable {
    const auto report = call_handler(*monitor, ResizeOrder(impl));
    auto told = report ? Result<OrderedResize>(to_answer(monitor->shown(), *report))
                       : Result<OrderedResize>(fail(report.error()));
    *is_busy = false;
    core->post([answer = std::move(answer), told = std::move(told)]() mutable {
      answer(std::move(told));
    });
  });
}

}  // namespace meshbus
