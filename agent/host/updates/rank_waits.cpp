#include "agent/host/updates/rank_waits.h"

#include <algorithm>
#include <utility>

#include "agent/host/model/exit_report.h"
#include "common/wire/control.h"
#include "common/wire/wire_values.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {
namespace {

/// The longest words of one status: they travel once for each rank that has others.
constexpr std::size_t kStatusWords = 1024;

using KindRun = RankRun<Status::Kind>;

const std::vector<KindRun>& kinds_of(Mesh& mesh) {
  if (!mesh.statuses) {
    auto& runs = mesh.statuses.emplace();
    for (const auto& [rank, proc] : mesh.procs)
      append_run(runs, rank, rank + 1, status_kind(proc->state.state()));
  }
  return *mesh.statuses;
}

std::string words_of(const Proc& proc) {
  if (const auto* report = proc.exit.report()) return report->reason;
  if (const auto& failure = proc.exit.failure()) return failure->text;
  if (!proc.exit.end()) return {};
  return describe_end(*proc.exit.end(), {.sent_signals = proc.stop.sent_signals()}).text;
}

}  // namespace

Status::Kind status_kind(wire::ProcState state) {
  switch (state) {
    case wire::ProcState::none: return Status::Kind::not_exist;
    case wire::ProcState::starting: return Status::Kind::initializing;
    case wire::ProcState::running:
    case wire::ProcState::ready: return Status::Kind::running;
    case wire::ProcState::stopping: return Status::Kind::stopping;
    case wire::ProcState::stopped: return Status::Kind::stopped;
    case wire::ProcState::killed:
    case wire::ProcState::failed: return Status::Kind::failed;
  }
  return Status::Kind::unknown;
}

Status status_of(const Proc& proc) {
  const auto kind = status_kind(proc.state.state());
  return kind == Status::Kind::failed ? Status::failed(cut_text(words_of(proc), kStatusWords))
                                      : Status(kind);
}

StatusOverlay statuses_of(Mesh* mesh, const std::vector<RankBlock>& ranks, std::size_t bytes) {
  std::vector<StatusOverlay::Run> runs;
  const std::vector<KindRun> none;
  const auto& kinds = mesh != nullptr ? kinds_of(*mesh) : none;
  for (const RankBlock& block : ranks) {
    std::uint64_t next = block.begin;
    auto run = std::ranges::upper_bound(kinds, block.begin, {}, &KindRun::end);
    for (; run != kinds.end() && run->begin < block.end; ++run) {
      const auto begin = std::max(run->begin, block.begin), end = std::min(run->end, block.end);
      append_run(runs, next, begin, Status(Status::Kind::not_exist));
      next = end;
      if (run->value != Status::Kind::failed) {
        append_run(runs, begin, end, Status(run->value));
        continue;
      }
      for (auto rank = begin; rank < end; ++rank) {
        auto status = status_of(*mesh->find(rank));
        if (status.reason().size() > bytes) status = Status::failed("");
        bytes -= status.reason().size();
        append_run(runs, rank, rank + 1, std::move(status));
      }
    }
    append_run(runs, next, block.end, Status(Status::Kind::not_exist));
  }
  return StatusOverlay::of(std::move(runs));
}

RankWaits::~RankWaits() {
  for (const auto& [mesh, wait] : waits_) bus_.reactor().cancel(wait.timer);
}

void RankWaits::answer(const Request& request, const std::string& mesh,
                       const std::vector<RankBlock>& ranks) {
  wire::RankStatusesT answer;
  answer.mesh = mesh;
  answer.host = host_;
  answer.statuses =
      std::make_unique<wire::StatusOverlayT>(to_wire(statuses_of(table_.find_mesh(mesh), ranks)));
  bus_.answer(request, std::move(answer));
}

bool RankWaits::is_done(Wait& wait) const {
  const auto& ranks = wait.wanted.ranks;
  if (wait.wanted.minimum == Status::Kind::not_exist) return true;
  const Mesh* mesh = table_.find_mesh(wait.wanted.mesh);
  if (mesh == nullptr) return false;
  for (; wait.block < ranks.size(); ++wait.block) {
    wait.rank = std::max(wait.rank, ranks[wait.block].begin);
    for (auto entry = mesh->procs.find(wait.rank); wait.rank < ranks[wait.block].end;
         ++entry, ++wait.rank) {
      if (entry == mesh->procs.end() || entry->first != wait.rank) return false;
      const Status status = status_kind(entry->second->state.state());
      if (!status.has_reached(wait.wanted.minimum) && !status.is_terminated()) return false;
    }
  }
  return true;
}

Result<bool> RankWaits::add(const Request& request, Wanted wanted) {
  Wait wait{.request = request, .wanted = std::move(wanted)};
  if (is_done(wait) || wait.wanted.limit.count() == 0) {
    answer(request, wait.wanted.mesh, wait.wanted.ranks);
    return false;
  }
  if (waits_.size() >= kMost || intervals_ + wait.wanted.ranks.size() > kMostIntervals)
    return fail(ErrorCode::queue_full,
                "host " + host_ + ": " + std::to_string(waits_.size()) +
                    " requests wait for ranks in " + std::to_string(intervals_) +
                    " intervals already; the limits are " + std::to_string(kMost) + " and " +
                    std::to_string(kMostIntervals) + "; ask with wait_ms 0");
  ++askers_[wait.wanted.asker.to_string()];
  intervals_ += wait.wanted.ranks.size();
  const auto limit = wait.wanted.limit;
  auto key = wait.wanted.mesh;
  const auto added = waits_.emplace(std::move(key), std::move(wait));
  added->second.timer = bus_.reactor().after(limit, [this, added] {
    added->second.timer = 0;
    answer(added->second.request, added->second.wanted.mesh, added->second.wanted.ranks);
    remove(added);
  });
  return true;
}

void RankWaits::flush() {
  for (const auto& mesh : std::exchange(marked_, {})) {
    for (auto [at, end] = waits_.equal_range(mesh); at != end;) {
      if (!is_done(at->second)) {
        ++at;
        continue;
      }
      answer(at->second.request, mesh, at->second.wanted.ranks);
      at = remove(at);
    }
  }
}

RankWaits::Waits::iterator RankWaits::remove(Waits::iterator wait) {
  bus_.reactor().cancel(wait->second.timer);
  const ProcId asker = wait->second.wanted.asker;
  intervals_ -= wait->second.wanted.ranks.size();
  const auto next = waits_.erase(wait);
  const auto count = askers_.find(asker.to_string());
  if (--count->second == 0) {
    askers_.erase(count);
    on_idle_(asker);
  }
  return next;
}

void RankWaits::drop(const std::string& asker) {
  if (askers_.erase(asker) == 0) return;
  std::erase_if(waits_, [&](const auto& entry) {
    if (entry.second.wanted.asker.to_string() != asker) return false;
    bus_.reactor().cancel(entry.second.timer);
    intervals_ -= entry.second.wanted.ranks.size();
    return true;
  });
}

}  // namespace meshbus::host
