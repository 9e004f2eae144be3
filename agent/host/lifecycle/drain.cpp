#include "agent/host/lifecycle/drain.h"

#include <algorithm>
#include <utility>

#include "agent/host/model/proc_text.h"

namespace meshbus::host {
namespace {

/// How long a drain waits for descendants after the last proc has ended.
constexpr std::chrono::seconds kLingerLimit{2};

std::vector<std::uint64_t> ids_of(const std::vector<Proc*>& procs) {
  std::vector<std::uint64_t> ids;
  ids.reserve(procs.size());
  for (const Proc* proc : procs) ids.push_back(proc->id);
  return ids;
}

/// Ranks that did not end, by name and reason; of many the first ones.
constexpr std::size_t kMostNamed = 4;
std::string words_of_left(const std::vector<std::string>& named, std::size_t count) {
  std::string words;
  for (const auto& one : named) words += (words.empty() ? "" : "; ") + one;
  if (count > named.size())
    words += (words.empty() ? "" : "; and ") + std::to_string(count - named.size()) +
             (words.empty() ? " procs did not end by SIGKILL" : " more");
  return words;
}

}  // namespace

std::string DrainScope::words() const {
  if (mesh.empty()) return owner.empty() ? "all meshes" : "the meshes of " + owner;
  return "mesh " + mesh + (owner.empty() ? "" : " of " + owner);
}

Drain::Drain(Reactor& reactor, ProcTable& table, ProcEnding& ending, DrainScope scope,
             StopOrder order, std::size_t in_flight, Done done)
    : reactor_(reactor),
      table_(table),
      ending_(ending),
      scope_(std::move(scope)),
      order_(std::move(order)),
      queue_(ids_of(live_procs()), in_flight) {
  if (done) waiting_.push_back(std::move(done));
  for (const auto& [name, mesh] : table_.meshes()) {
    if (!scope_.covers(*mesh)) continue;
    for (const auto& [rank, proc] : mesh->procs) {
      if (proc->exit.end() && !proc->exit.is_empty()) lingering_.insert(proc->id);
    }
  }
}

Drain::~Drain() {
  reactor_.cancel(timer_);
}

std::vector<Proc*> Drain::live_procs() const {
  auto procs = table_.live_procs();
  std::erase_if(procs, [this](const Proc* proc) { return !scope_.covers(proc->mesh); });
  return procs;
}

void Drain::join(const StopOrder& order, std::size_t in_flight, Done done) {
  if (outcome_) {
    if (done) done(*outcome_);
    return;
  }
  if (done) waiting_.push_back(std::move(done));
  order_.grace = std::min(order_.grace, order.grace);
  queue_.allow(in_flight);
  for (Proc* proc : live_procs()) {
    if (proc->stop.termination() != nullptr) ending_.stop(*proc, order);
  }
}

void Drain::on_ended(const Proc& proc, bool ok) {
  if (!scope_.covers(proc.mesh)) return;
  queue_.on_ended(proc.id, ok);
  if (!ok && proc.exit.failure() && left_.size() < kMostNamed)
    left_.push_back(name_of_rank(proc) + ": " + proc.exit.failure()->text);
  if (proc.exit.end() && !proc.exit.is_empty()) lingering_.insert(proc.id);
}

void Drain::pump() {
  if (outcome_) return;
  if (!queue_.is_done()) {
    // Procs that still wait for their start cost nothing to end, and none of them may be born
    // meanwhile.
    for (Proc* proc : live_procs()) {
      if (proc->launch.is_queued()) ending_.stop(*proc, order_);
    }
    while (const auto id = queue_.next()) {
      if (Proc* proc = table_.find_id(*id)) ending_.stop(*proc, order_);
    }
  }
  if (!queue_.is_done()) return;
  if (lingering_.empty()) return finish();
  if (timer_ == 0) timer_ = reactor_.after(kLingerLimit, [this] { finish(); });
}

void Drain::finish() {
  if (outcome_) return;
  reactor_.cancel(timer_);
  DrainOutcome outcome{.attempted = queue_.attempted(), .failed = queue_.failed(), .detail = {}};
  if (outcome.failed > 0) outcome.detail = words_of_left(left_, outcome.failed);
  if (!lingering_.empty())
    outcome.detail +=
        (outcome.detail.empty() ? "" : "; ") +
        ("descendants of " + std::to_string(lingering_.size()) + " procs are still there");
  outcome_ = outcome;
  for (const auto& done : std::exchange(waiting_, {})) done(outcome);
}

}  // namespace meshbus::host
