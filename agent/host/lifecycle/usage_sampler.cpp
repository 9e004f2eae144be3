#include "agent/host/lifecycle/usage_sampler.h"

#include <algorithm>
#include <ctime>

#include "agent/host/lifecycle/proc_usage.h"
#include "agent/host/model/real_time.h"
#include "wire/ranks_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

/// The sampler uses at most one in so many parts of a CPU.
constexpr int kMostShare = 100;
/// Figures that are younger are not taken again: CPU time comes in steps of 10 ms, so a load over
/// less time says little.
constexpr Reactor::Duration kYoung = 250ms;

std::chrono::nanoseconds own_cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// In thousandths of a CPU.
std::uint32_t load_of(std::uint64_t cpu_us, std::chrono::nanoseconds time) {
  const auto time_us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  if (time_us <= 0) return 0;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(cpu_us * 1000 / static_cast<std::uint64_t>(time_us), UINT32_MAX));
}

bool can_be_seen(const Proc& proc) {
  return proc.launch.is_born() && !proc.has_ended();
}

}  // namespace

UsageSampler::UsageSampler(Reactor& reactor, ProcTable& table, const ProgressFiles& progress,
                           std::chrono::milliseconds period)
    : reactor_(reactor), table_(table), progress_(progress), period_(period) {
  arm(period_);
}

void UsageSampler::arm(std::chrono::nanoseconds pause) {
  if (period_.count() == 0) return;
  timer_ =
      reactor_.after(std::chrono::duration_cast<Reactor::Duration>(pause), [this] { on_timer(); });
}

void UsageSampler::on_timer() {
  if (next_ >= round_.size()) {
    round_.clear();
    next_ = 0;
    for (const Proc* proc : table_.live_procs()) round_.push_back(proc->id);
    if (round_.empty()) return arm(period_);
  }
  const auto before = own_cpu_time();
  const auto end = std::min(next_ + kProcsPerSlice, round_.size());
  for (; next_ < end; ++next_) {
    if (Proc* proc = table_.find_id(round_[next_]); proc != nullptr && can_be_seen(*proc))
      look(*proc);
  }
  const auto slices = (round_.size() + kProcsPerSlice - 1) / kProcsPerSlice;
  arm(std::max<std::chrono::nanoseconds>(period_ / static_cast<std::int64_t>(slices),
                                         (own_cpu_time() - before) * (kMostShare - 1)));
}

std::size_t UsageSampler::refresh(const Mesh& mesh, std::size_t most) {
  std::size_t looked = 0;
  for (const auto& [rank, proc] : mesh.procs) {
    if (looked == most) break;
    if (!can_be_seen(*proc) ||
        (proc->sample.at != Reactor::Time() && reactor_.now() - proc->sample.at < kYoung))
      continue;
    look(*proc);
    ++looked;
  }
  return looked;
}

void UsageSampler::refresh_all() {
  std::size_t left = kFreshAtOnce;
  for (const auto& [name, mesh] : table_.meshes()) left -= refresh(*mesh, left);
}

void UsageSampler::look(Proc& proc) {
  const auto usage = read_usage(static_cast<pid_t>(proc.state.to_wire().pid()));
  // The process has ended, and its number may belong to another one already: the keeper is about to
  // tell of its exit.
  if (!usage || usage->rss_bytes == 0 ||
      (proc.sample.start_ticks != 0 && proc.sample.start_ticks != usage->start_ticks))
    return;
  const auto now = reactor_.now();
  const auto real_now = now_ns();
  const wire::RankUsage& last = proc.sample.seen;
  const bool is_first = last.sampled_ns() == 0;
  const auto cpu_us = usage->user_us + usage->system_us;
  const auto last_us = last.user_us() + last.system_us();
  const auto since = is_first ? std::chrono::nanoseconds(std::max<std::int64_t>(
                                    real_now - proc.state.to_wire().started_ns(), 0))
                              : std::chrono::nanoseconds(now - proc.sample.at);
  const auto load = load_of(cpu_us - std::min(cpu_us, last_us), since);
  proc.sample.start_ticks = usage->start_ticks;
  proc.sample.at = now;
  proc.sample.seen = wire::RankUsage(proc.rank(), real_now, usage->user_us, usage->system_us,
                                     usage->rss_bytes, usage->peak_rss_bytes, usage->threads,
                                     usage->descriptors, load, progress_.last_beat(proc));
}

}  // namespace meshbus::host
