#include <algorithm>

#include "tests/unit/supervision/world.h"

#include "wire/ranks_generated.h"

/// What must be so when the simulated world has come to its end.
namespace meshbus::test {

using namespace std::chrono_literals;

namespace {

bool has_live_rank(const auto& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const auto& entry) { return !is_terminal(entry.second.state.state()); });
}

}  // namespace

void SupervisionWorld::check_reports(const std::map<LifeKey, std::vector<Report>>& reports,
                                     const std::set<LifeKey>& known, const std::string& who,
                                     bool is_controller) {
  const auto name = [&](const LifeKey& life) {
    return who + ": rank " + std::to_string(std::get<1>(life)) + " of " + std::get<0>(life) + ": ";
  };
  for (const auto& [life, list] : reports) {
    const auto found = truth_.find(life);
    if (found == truth_.end()) {
      complain(name(life) + "is well and was reported as ended");
      continue;
    }
    const auto& truth = found->second;
    const auto& first = list.front();
    if (list.size() > 1)
      complain(name(life) + "was reported " + std::to_string(list.size()) + " times");
    if (first.told < truth.ended) complain(name(life) + "was reported before its end");
    const bool is_lost = truth.is_record_lost && first.exit_report != nullptr &&
                         first.exit_report->cause == wire::Cause::host_lost;
    if (first.state.state() != truth.state && !is_lost)
      complain(name(life) + "was reported with another end than it had");
    if (first.exit_report != nullptr && first.exit_report->cause != truth.cause && !is_lost)
      complain(name(life) + "was reported with another cause");
    if (has_faults_) continue;
    if (first.exit_report == nullptr) complain(name(life) + "was reported without its exit report");
    const auto limit = std::chrono::milliseconds(kExitReportMs + 2 * delay_ + 10);
    const bool was_known = truth.ended > meshes_.at(std::get<0>(life)).made + 2s;
    if (is_controller && was_known && is_fifo_ && first.told - truth.ended > limit)
      complain(name(life) + "was reported late, by a poll");
  }
  for (const auto& [life, truth] : truth_) {
    if (reports.contains(life) || agents_[truth.host].is_dead) continue;
    // What was never heard of before its host forgot it nobody can tell.
    if (agents_[truth.host].meshes.contains(std::get<0>(life)) || known.contains(life))
      complain(name(life) + "has ended and was never reported");
  }
}

void SupervisionWorld::check_end() {
  check_reports(reports_, known_, "controller", true);
  check_reports(heard_, heard_of_, "subscriber", false);
  for (const auto& [name, mesh] : meshes_) {
    bool has_failed = false;
    bool has_live = false;
    std::uint64_t live = 0;
    // Nothing of it went with its host, which may have been before anybody had heard of it.
    bool is_whole = true;
    bool has_lost = false;
    const auto* const known = supervisor_->find(name);
    for (const auto host : mesh.hosts) {
      const auto& agent = agents_[host];
      const auto ranks = agent.meshes.find(name);
      is_whole = is_whole && !agent.is_dead && ranks != agent.meshes.end();
      if (ranks == agent.meshes.end()) continue;
      for (const auto& [rank, one] : ranks->second) {
        const bool is_live = !is_terminal(one.state.state());
        live += is_live ? 1U : 0U;
        has_live = has_live || (is_live && !agent.is_dead);
        has_lost = has_lost || (is_live && agent.is_dead);
        has_failed = has_failed || (!agent.is_dead && is_failure(one.state));
        if (agent.is_dead) continue;
        const auto overlay = known == nullptr ? StatusOverlay() : known->statuses();
        const auto* const status = overlay.find(rank);
        const auto kind = status == nullptr ? Status::Kind::unknown : status->kind();
        const auto expected = is_live ? Status::Kind::running
                              : one.state.state() == wire::ProcState::stopped
                                  ? Status::Kind::stopped
                                  : Status::Kind::failed;
        if (kind != expected)
          complain(name + ": rank " + std::to_string(rank) + " is " + Status(expected).to_string() +
                   ", and said to be " + Status(kind).to_string());
        if (is_live && stopped_.contains(name))
          complain(name + ": rank " + std::to_string(rank) + " lives, though the mesh was stopped");
      }
    }
    if (known == nullptr) continue;
    const auto overall = known->overall();
    if (has_failed && overall != Status::Kind::failed)
      complain(name + " has failed ranks, and is said to be " + Status(overall).to_string());
    if ((has_live || has_lost) && overall == Status::Kind::stopped)
      complain(name + " is said to be stopped, and is not");
    if (is_whole && known->live() != live)
      complain(name + " has " + std::to_string(live) + " live ranks, and is said to have " +
               std::to_string(known->live()));
    if (is_whole && live == 0 && known->is_monitored())
      complain(name + " has ended and is watched on");
    if (has_live && !known->is_monitored()) complain(name + " lives and is not watched any more");
  }
  check_leases();
  check_actors();
  check_troubles(troubles_, known_, "controller");
  check_troubles(heard_troubles_, heard_of_, "subscriber");
  if (beats_ < 2) complain("no heartbeats");
  if (feed_.heartbeats() == 0) complain("the subscriber had no heartbeats");
  if (feed_.is_silent(now_)) complain("the subscriber takes the controller for dead");
  if (!last_ || !is_fifo_) return;
  const auto told = reports_.find(*last_);
  const auto limit = std::chrono::milliseconds(kExitReportMs + 2 * delay_ + 10);
  if (told == reports_.end() || told->second.front().told - truth_.at(*last_).ended > limit)
    complain("when all was well again, an end was not told when it happened");
}

void SupervisionWorld::check_troubles(const Troubles& troubles, const std::set<LifeKey>& known,
                                      const std::string& who) {
  for (const auto& agent : agents_) {
    if (agent.is_dead || !agent.is_up) continue;
    for (const auto& [name, ranks] : agent.meshes) {
      for (const auto& [rank, one] : ranks) {
        const LifeKey life{name, rank, one.state.incarnation()};
        const auto found = troubles.find(life);
        const auto told = found == troubles.end() ? wire::Trouble::none : found->second;
        if (known.contains(life) && told != one.trouble.trouble())
          complain(who + ": rank " + std::to_string(rank) + " of " + name + ": its trouble is " +
                   wire::EnumNameTrouble(one.trouble.trouble()) + ", and was last told as " +
                   wire::EnumNameTrouble(told));
      }
    }
  }
}

void SupervisionWorld::check_leases() {
  for (const auto& agent : agents_) {
    if (agent.is_dead || !agent.is_up) continue;
    for (const auto& [name, ranks] : agent.meshes) {
      if (!meshes_.at(name).is_owned) continue;
      const auto renewed = agent.renewed.find(name);
      const auto since = renewed == agent.renewed.end() ? meshes_.at(name).made : renewed->second;
      if (has_live_rank(ranks) && now_ - since > kLease)
        complain(name + " lives on " + agent.address.to_string() +
                 ", and its lease was not renewed");
    }
  }
}

void SupervisionWorld::check_known() {
  for (const auto& agent : agents_) {
    for (const auto& [name, ranks] : agent.meshes) {
      if (!has_live_rank(ranks) || now_ - meshes_.at(name).made < kKnown) continue;
      const auto* const known = supervisor_->find(name);
      if (known == nullptr || known->live_on(agent.address) == 0)
        complain(name + " lives on " + agent.address.to_string() +
                 ", and the controller does not know that");
    }
  }
}

void SupervisionWorld::kill_last() {
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    if (agents_[host].is_dead) continue;
    for (const auto& [mesh, ranks] : agents_[host].meshes) {
      for (const auto& [rank, one] : ranks) {
        if (one.state.state() != wire::ProcState::ready) continue;
        last_ = {mesh, rank, one.state.incarnation()};
        is_last_ = true;
        return end_rank(host, mesh, rank, wire::ProcState::killed, wire::Cause::out_of_memory, 0);
      }
    }
  }
}

}  // namespace meshbus::test
