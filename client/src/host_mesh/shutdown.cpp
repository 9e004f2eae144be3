#include <algorithm>
#include <thread>

#include "client/src/base/time_left.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;
/// A host whose lifeline has ended is gone within two seconds (spec 4.7).
constexpr std::chrono::milliseconds kLifelineLimit{2500};
/// How often an attached host's address is tried while it leaves.
constexpr std::chrono::milliseconds kProbeInterval{10};
/// What of the time is kept for the host whose broker carries our orders, which is told after the
/// others; a third when that is less.
constexpr std::chrono::seconds kLastShare{5};
/// A host process has ended, but its last answer may still be on its way to us.
constexpr std::chrono::milliseconds kHostAnswerLimit{100};

constexpr std::chrono::milliseconds kNoTime{0};

std::uint32_t wire_ms(std::chrono::milliseconds duration) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(duration.count(), 0, UINT32_MAX));
}

/// Waits until nothing listens at that address any more.
bool wait_free(const HostAddr& host, Clock::time_point end) {
  for (;;) {
    const auto listens = probe(host);
    if (!listens && listens.error().code() == ErrorCode::not_exist) return true;
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(kProbeInterval);
  }
}

/// The shutdown of a set of hosts. All at once, but for the one whose broker carries our orders: it
/// ends its procs with the others, and itself after them.
class Shutdown {
 public:
  Shutdown(const HostMesh::Impl& mesh, Allocation* allocation, std::chrono::milliseconds grace,
           std::string_view reason, Clock::time_point end)
      : mesh_(mesh),
        core_(*mesh.core()),
        connection_(mesh.connection()),
        hosts_(mesh.distinct_hosts()),
        allocation_(allocation),
        grace_(grace),
        reason_(reason),
        end_(end),
        problems_(hosts_.size()) {}

  Result<ShutdownSummary> run() {
    const auto gateway = core_.run([this] {
      connection_.gateway().retire();
      return connection_.gateway().host();
    });
    // One unresponsive host must not use up the deadline of the host that is shut down last.
    const auto others_end = hosts_.size() > 1
                                ? end_ - std::min<Clock::duration>(kLastShare, left_until(end_) / 3)
                                : end_;
    std::vector<std::size_t> last;
    std::vector<std::pair<std::size_t, Connection::Answer>> answers;
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      // One that has ended needs no order, and cannot answer one.
      if (has_ended(i)) continue;
      if (hosts_[i] == gateway && hosts_.size() > 1) {
        last.push_back(i);
      } else {
        answers.emplace_back(i, order(i, others_end));
      }
    }
    const auto alive_at_gateway = last.empty() || answers.empty() ? 0 : stop_procs(gateway);
    for (auto& [i, answer] : answers) take(i, answer, 0);
    for (const auto i : last) {
      auto answer = order(i, end_);
      take(i, answer, alive_at_gateway);
    }
    std::string detail;
    if (allocation_ != nullptr) detail = end_allocation();
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (wait_gone(i)) ++summary_.hosts;
    }
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (problems_[i].empty()) continue;
      detail += (detail.empty() ? "" : "; ") + mesh_.describe(hosts_[i]) + ": " + problems_[i];
    }
    if (!detail.empty()) return fail(ErrorCode::stop_error, std::move(detail));
    return summary_;
  }

 private:
  /// Waits until a host of an allocation has ended.
  bool has_ended(std::size_t i, std::chrono::milliseconds deadline = kNoTime) const {
    return allocation_ != nullptr &&
           allocation_->wait_end(mesh_.rank_of(hosts_[i]), deadline).has_value();
  }

  Connection::Answer order(std::size_t i, Clock::time_point end) {
    wire::ShutdownHostT order;
    order.grace_ms = grace_ms();
    order.in_flight = static_cast<std::uint16_t>(core_.config().count(keys::terminate_in_flight));
    order.reason = reason_;
    order.requester = connection_.self();
    return connection_.ask(Destination::to_agent(hosts_[i]), std::move(order), left_until(end));
  }

  std::uint32_t grace_ms() const { return wire_ms(grace_); }

  /// Orders the procs of a host to be stopped, without waiting. How many there were.
  std::uint64_t stop_procs(const HostAddr& host) {
    const auto alive = ask_hosts(connection_, {host}, left_until(end_)).front().live;
    wire::DrainHostT drain;
    drain.reason = reason_;
    drain.requester = connection_.self();
    drain.grace_ms = grace_ms();
    drain.in_flight = static_cast<std::uint16_t>(core_.config().count(keys::terminate_in_flight));
    connection_.ask(Destination::to_agent(host), std::move(drain), left_until(end_));
    return alive;
  }

  /// Waits for a host's answer. `alive` procs of it were ordered to stop before.
  void take(std::size_t i, Connection::Answer& future, std::uint64_t alive) {
    // The end of a host of ours is an answer too, and may be the only one.
    while (future.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
      if (has_ended(i) && future.wait_for(kHostAnswerLimit) != std::future_status::ready) return;
    }
    const auto answer = future.get();
    const auto* const done = answer ? answer->body_as<wire::ShutdownSummary>() : nullptr;
    if (done == nullptr) {
      problems_[i] = answer ? "it answered " + answer->body_name() : answer.error().to_string();
      is_fate_unknown_[i] = !answer && answer.error().code() == ErrorCode::fate_unknown;
      return;
    }
    const auto attempted = std::max(done->attempted(), alive);
    summary_.attempted += attempted;
    summary_.failed += done->failed();
    summary_.ok += attempted - std::min(attempted, done->failed());
    has_left_over_[i] = done->failed() != 0;
    if (has_left_over_[i])
      problems_[i] =
          std::to_string(done->failed()) + " of " + std::to_string(attempted) +
          (done->failed() == 1 ? " procs is still there: " : " procs are still there: ") +
          text_of(done->detail());
  }

  /// Waits until the hosts of an allocation are gone, and helps. What is to be said of those that
  /// needed it.
  std::string end_allocation() {
    bool are_gone = true;
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      are_gone &= has_ended(i, problems_[i].empty() ? left_until(end_) : kNoTime);
    if (are_gone) return {};
    const auto stopped = allocation_->stop(kLifelineLimit);
    return stopped ? std::string() : stopped.error().detail();
  }

  /// Waits until the host is gone. A host that goes has ended its procs first, whether its last
  /// answer reached us or not.
  bool wait_gone(std::size_t i) {
    if (allocation_ != nullptr) {
      const bool is_gone = has_ended(i, kHostAnswerLimit);
      if (is_gone && !has_left_over_[i]) problems_[i].clear();
      if (!is_gone && problems_[i].empty())
        problems_[i] = "its procs are ended, but it is still there";
      return is_gone;
    }
    // One that did not take the order may be out of reach, which is no end.
    if (!problems_[i].empty() && !is_fate_unknown_[i]) return false;
    const bool is_gone = wait_free(
        hosts_[i], problems_[i].empty() ? end_ : std::min(end_, Clock::now() + kLifelineLimit));
    if (is_gone) problems_[i].clear();
    if (!is_gone && problems_[i].empty())
      problems_[i] = "its procs are ended, but something still listens at its address";
    return is_gone;
  }

  const HostMesh::Impl& mesh_;
  ContextCore& core_;
  Connection& connection_;
  const std::vector<HostAddr>& hosts_;
  Allocation* allocation_;
  std::chrono::milliseconds grace_;
  std::string reason_;
  Clock::time_point end_;
  std::vector<std::string> problems_;
  std::vector<bool> is_fate_unknown_ = std::vector<bool>(problems_.size());
  std::vector<bool> has_left_over_ = std::vector<bool>(problems_.size());
  ShutdownSummary summary_;
};

}  // namespace

std::uint64_t HostMesh::Impl::rank_of(const HostAddr& host) const {
  return static_cast<std::uint64_t>(std::find(ref_.hosts().begin(), ref_.hosts().end(), host) -
                                    ref_.hosts().begin());
}

std::string HostMesh::Impl::describe(const HostAddr& host) const {
  return "host " + std::to_string(rank_of(host)) + " (" + host.to_string() + ")";
}

HostMesh::Impl::~Impl() {
  if (!core()->check_process()) {
    // A forked child: the hosts are its parent's, and only that may end them.
    new std::unique_ptr<Allocation>(std::move(allocation_));
    return;
  }
  for (const auto& [name, monitor] : unclear_) monitor->abandon();
  if (is_handed_over_) return;
  if (ownership_ == Ownership::taken && !(shutdown_ && *shutdown_)) order_shutdown();
}

void HostMesh::Impl::order_shutdown() {
  // It waits for the reactor: a mesh that is let go on that thread leaves its hosts running.
  if (!core()->check_may_wait()) return;
  auto hosts = distinct_hosts_;
  const auto gateway = core()->run([this] { return connection_->gateway().host(); });
  // The host that carries the orders last.
  std::stable_partition(hosts.begin(), hosts.end(),
                        [&](const HostAddr& host) { return host != gateway; });
  for (const auto& host : hosts) {
    wire::ShutdownHostT order;
    order.grace_ms = wire_ms(core()->config().duration(keys::terminate_grace));
    order.in_flight = static_cast<std::uint16_t>(core()->config().count(keys::terminate_in_flight));
    order.reason = "the launcher let go of the hosts";
    order.requester = connection_->self();
    connection_->ask(Destination::to_agent(host), std::move(order), kLifelineLimit);
  }
}

void HostMesh::Impl::keep_unclear(std::shared_ptr<MeshMonitor> monitor) {
  drop_unclear(monitor->name());
  const std::lock_guard lock(unclear_mutex_);
  unclear_.insert_or_assign(monitor->name(), std::move(monitor));
}

void HostMesh::Impl::drop_unclear(const std::string& mesh) {
  const std::lock_guard lock(unclear_mutex_);
  const auto found = unclear_.find(mesh);
  if (found == unclear_.end()) return;
  found->second->abandon();
  unclear_.erase(found);
}

ConnectionUse HostMesh::Impl::use() const {
  return {core(), connection_.get()};
}

Result<ShutdownSummary> HostMesh::Impl::shutdown(std::chrono::milliseconds deadline,
                                                 std::optional<std::chrono::milliseconds> grace,
                                                 std::string_view reason) {
  const std::lock_guard lock(shutdown_mutex_);
  if (shutdown_) return *shutdown_;
  const auto end =
      Clock::now() + std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24));
  Shutdown work(*this, allocation_.get(),
                grace.value_or(core()->config().duration(keys::terminate_grace)), reason, end);
  auto done = work.run();
  if (!done) done = fail(done.error().within("shutdown of " + ref_.name().to_string()));
  // Nobody is left to talk to.
  if (done) core()->run([this] { connection_->close("its hosts were shut down"); });
  shutdown_ = done;
  return done;
}

}  // namespace meshbus
