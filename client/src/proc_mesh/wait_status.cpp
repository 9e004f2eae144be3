#include <chrono>

#include "client/src/base/status_limits.h"
#include "client/src/context/check_owner.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "meshbus/status_wait.h"

namespace meshbus {

Result<StatusMesh> ProcMesh::wait_status(Status::Kind minimum, WaitOptions options) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  if (auto fine = check_minimum(minimum); !fine) return fail(fine.error());
  auto& monitor = impl_->monitor();
  StatusWait wait(ref().region(), minimum, limits_of(options), std::chrono::steady_clock::now());
  // What a table says has changed when this has.
  const auto sum_of = [](const RankTable& table) {
    std::uint64_t sum = 0;
    for (const auto& rank : table.ranks())
      sum += 8 * rank.generation + static_cast<std::uint64_t>(rank.state);
    return sum;
  };
  for (;;) {
    const auto table = monitor.progress().table();
    const auto now = std::chrono::steady_clock::now();
    for (const auto& rank : table.ranks()) (void)wait.set(rank.rank, rank.status(), now);
    if (is_settled(wait, now)) return wait.statuses();
    if (wait.check(now) != StatusWait::State::waiting)
      return fail(wait.outcome(now).error().within("mesh " + monitor.name()));
    const auto due = wait.next_due();
    monitor.progress().wait(
        [&, sum = sum_of(table)](const RankTable& later) { return sum_of(later) != sum; },
        due ? std::chrono::ceil<std::chrono::milliseconds>(*due - now) : forever);
  }
}

}  // namespace meshbus
