#include "client/src/monitors/mesh_progress.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;

template <typename Predicate>
bool wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
              std::chrono::milliseconds deadline, Predicate predicate) {
  // A point in time would overflow for `forever`.
  if (deadline <= std::chrono::hours(24 * 365))
    return changed.wait_until(lock, Clock::now() + deadline, predicate);
  changed.wait(lock, predicate);
  return true;
}

}  // namespace

MeshProgress::MeshProgress(const CurrentMesh& mesh, const HandlerThread& handlers)
    : mesh_(mesh), handlers_(handlers), facts_(mesh.get()) {}

RankTable MeshProgress::table() const {
  const std::lock_guard lock(mutex_);
  return facts_.table;
}

MeshOutcome MeshProgress::outcome() const {
  const std::lock_guard lock(mutex_);
  return facts_.outcome();
}

bool MeshProgress::is_abandoned() const {
  const std::lock_guard lock(mutex_);
  return facts_.is_abandoned;
}

bool MeshProgress::is_handed_over() const {
  const std::lock_guard lock(mutex_);
  return facts_.owners.is_handed_over();
}

void MeshProgress::note_accepted(std::uint64_t host_index) {
  const std::lock_guard lock(mutex_);
  facts_.is_accepted[host_index] = true;
}

bool MeshProgress::is_accepted(std::uint64_t host_index) const {
  const std::lock_guard lock(mutex_);
  return facts_.is_accepted[host_index];
}

bool MeshProgress::has_on(const HostAddr& host,
                          bool (RankTable::*has)(std::uint64_t) const noexcept) const {
  const std::lock_guard lock(mutex_);
  const auto& hosts = mesh_.get().hosts();
  for (std::uint64_t index = 0; index < hosts.size(); ++index) {
    if (hosts[index] == host && facts_.is_accepted[index] && (facts_.table.*has)(index))
      return true;
  }
  return false;
}

bool MeshProgress::is_alive_on(const HostAddr& host) const {
  return has_on(host, &RankTable::is_alive_on);
}

bool MeshProgress::is_moving_to(const HostAddr& host) const {
  const std::lock_guard lock(mutex_);
  if (!facts_.is_armed || !facts_.restarts || !facts_.restarts->has_spares()) return false;
  const auto& hosts = mesh_.get().hosts();
  for (std::uint64_t index = 0; index < hosts.size(); ++index) {
    const auto block = mesh_.get().block_of(index).value_or(RankBlock{});
    if (hosts[index] == host && !facts_.is_accepted[index] && facts_.table.is_alive_on(index) &&
        !facts_.table.is_held(block.begin))
      return true;
  }
  return false;
}

bool MeshProgress::is_left(const HostAddr& host) const {
  const std::lock_guard lock(mutex_);
  return facts_.restarts && facts_.restarts->has_spares() &&
         facts_.restarts->spares().is_lost(host);
}

bool MeshProgress::has_unreported_on(const HostAddr& host) const {
  return has_on(host, &RankTable::has_unreported_on);
}

bool MeshProgress::is_over() const {
  const std::lock_guard lock(mutex_);
  return facts_.table.has_exit_reports(Clock::now());
}

bool MeshProgress::is_end_posted() const {
  const std::lock_guard lock(mutex_);
  return facts_.is_end_posted;
}

RestartPlan MeshProgress::restart_plan(Time now) const {
  const std::lock_guard lock(mutex_);
  return facts_.restarts->plan(now);
}

std::uint64_t MeshProgress::restarts_of(std::uint64_t rank) const {
  const std::lock_guard lock(mutex_);
  return rank < facts_.table.size() ? facts_.table.rank(rank).restarts : 0;
}

std::optional<RankReport> MeshProgress::end_of(std::uint64_t rank) const {
  const std::lock_guard lock(mutex_);
  if (rank >= facts_.table.size()) return std::nullopt;
  const auto& report = facts_.table.rank(rank);
  if (!report.is_terminal() || report.is_restarting) return std::nullopt;
  return report;
}

bool MeshProgress::is_ours() const {
  const std::lock_guard lock(mutex_);
  return !facts_.is_abandoned && !facts_.owners.is_handed_over() && !facts_.owners.is_taking() &&
         !facts_.is_end_posted;
}

bool MeshProgress::is_for(const std::string& self, const HostAddr& host) const {
  const std::lock_guard lock(mutex_);
  return !facts_.owners.is_taking() || facts_.owners.names(host, self);
}

MeshProgress::Start MeshProgress::start_of(std::uint64_t rank, std::uint64_t restarts) const {
  const std::lock_guard lock(mutex_);
  if (rank >= facts_.table.size()) return Start::over;
  const auto& report = facts_.table.rank(rank);
  if (report.is_terminal() || report.restarts != restarts || report.incarnation != 0)
    return Start::over;
  return facts_.is_abandoned || facts_.restarts->is_stopped(rank) ? Start::unwanted : Start::wanted;
}

bool MeshProgress::wait(const std::function<bool(const RankTable&)>& done,
                        std::chrono::milliseconds deadline) const {
  std::unique_lock lock(mutex_);
  return wait_for(changed_, lock, deadline, [&] { return done(facts_.table); });
}

void MeshProgress::wake() const {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

bool MeshProgress::wait_while_changing(const std::function<bool(const RankTable&)>& done,
                                       std::chrono::milliseconds idle) const {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto before = facts_.version;
    if (done(facts_.table)) return true;
    const auto has_changed = [&] { return facts_.version != before || done(facts_.table); };
    if (!wait_for(changed_, lock, idle, has_changed)) return false;
  }
}

bool MeshProgress::wait_failure(std::chrono::milliseconds deadline) const {
  const bool is_handler = handlers_.is_here();
  std::unique_lock lock(mutex_);
  return wait_for(changed_, lock, deadline, [&] {
    if (is_handler) return facts_.table.has_told_failure() || facts_.table.is_ended();
    return facts_.failures_told != 0 || facts_.is_end_told;
  });
}

bool MeshProgress::wait_settled(std::chrono::milliseconds deadline) const {
  const bool is_handler = handlers_.is_here();
  std::unique_lock lock(mutex_);
  return wait_for(changed_, lock, deadline, [&] {
    if (!facts_.table.has_exit_reports(Clock::now())) return false;
    // Before arm() failures are not told, and a handler cannot wait for what comes after itself.
    if (!facts_.is_armed || facts_.is_abandoned || is_handler) return true;
    const bool has_given_up = facts_.restarts && facts_.restarts->has_given_up();
    return !facts_.table.has_untold() && !has_given_up &&
           facts_.failures_told == facts_.failures_posted;
  });
}

bool MeshProgress::wait_end(std::chrono::milliseconds deadline) const {
  const bool is_handler = handlers_.is_here();
  std::unique_lock lock(mutex_);
  return wait_for(changed_, lock, deadline, [&] {
    // A handler cannot wait for what comes after itself.
    if (is_handler) return facts_.is_end_posted || facts_.table.is_complete(Clock::now());
    return facts_.is_end_told;
  });
}

}  // namespace meshbus
