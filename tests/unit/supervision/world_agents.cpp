#include <algorithm>

#include "tests/unit/supervision/world.h"

#include "wire/supervision_generated.h"

/// The hosts of the simulated world.
namespace meshbus::test {

using namespace std::chrono_literals;

const std::string SupervisionWorld::kOwner = "unix:/host,controller";

void SupervisionWorld::push(std::size_t host, const std::string& mesh, RankUpdate news) {
  auto& agent = agents_[host];
  // The owner is told unasked, as by agent/host/updates/publisher.cpp.
  if (!agent.is_up || (!agent.streams.contains(mesh) && !meshes_.at(mesh).is_owned)) return;
  send(from_agent_[host], [this, host, mesh, news = std::move(news)] {
    if (!is_connected_) return;
    at_controller([this, host, mesh, news] {
      act(supervisor_->pushed(agents_[host].address, mesh, news, now_));
    });
  });
}

void SupervisionWorld::end_rank(std::size_t host, const std::string& mesh, std::uint64_t rank,
                                wire::ProcState state, wire::Cause cause, int code) {
  auto& agent = agents_[host];
  const auto found = agent.meshes.find(mesh);
  if (agent.is_dead || found == agent.meshes.end() ||
      (cause != wire::Cause::stopped && now_ >= quiet_ && !is_last_))
    return;
  auto& one = found->second.at(rank).state;
  if (is_terminal(one.state())) return;
  one.mutate_generation(one.generation() + 1);
  one.mutate_state(state);
  one.mutate_exit_code(code);
  one.mutate_signal(state == wire::ProcState::killed ? 9 : 0);
  one.mutate_ended_ns(1 + agent.clock_offset_ns +
                      std::chrono::nanoseconds(now_.time_since_epoch()).count());
  if (cause == wire::Cause::stopped) one.mutate_step(wire::StopStep::term);
  found->second.at(rank).trouble = {};
  truth_[{mesh, rank, one.incarnation()}] = {now_, state, cause, host, false};
  note_proc_end(host, mesh, found->second.at(rank), is_failure(one));
  if (is_failure(one)) ++failures_;
  push(host, mesh, {{one}, {}});
  after(any(0, kExitReportMs),
        [this, host, mesh, rank, cause] { report_exit(host, mesh, rank, cause); });
}

void SupervisionWorld::set_trouble(std::size_t host, const std::string& mesh, std::uint64_t rank,
                                   wire::Trouble trouble) {
  auto& agent = agents_[host];
  const auto found = agent.meshes.find(mesh);
  if (agent.is_dead || !agent.is_up || found == agent.meshes.end() || now_ >= quiet_) return;
  auto& one = found->second.at(rank);
  if (one.state.state() != wire::ProcState::ready || one.trouble.trouble() == trouble) return;
  one.trouble = {rank, one.state.incarnation(), 1, 10'000, trouble, 'T'};
  push(host, mesh, {.ranks = {}, .exit_reports = {}, .owner = {}, .troubles = {one.trouble}});
}

void SupervisionWorld::report_exit(std::size_t host, const std::string& mesh, std::uint64_t rank,
                                   wire::Cause cause) {
  const auto found = agents_[host].meshes.find(mesh);
  if (agents_[host].is_dead || found == agents_[host].meshes.end()) return;
  auto& one = found->second.at(rank);
  one.exit_report = std::make_shared<wire::ExitReportT>();
  one.exit_report->rank = rank;
  one.exit_report->cause = cause;
  push(host, mesh, {{}, {one.exit_report}});
}

MeshUpdate SupervisionWorld::describe(const Agent& agent, const std::string& mesh,
                                      bool with_exit_reports) const {
  const auto& made = meshes_.at(mesh);
  MeshUpdate news{.mesh = mesh, .region = made.region, .hosts = {}, .ranks_update = {}};
  for (const auto host : made.hosts) news.hosts.push_back(agents_[host].address);
  news.ranks_update.owner =
      OwnerUpdate{.owner = made.is_owned ? kOwner : "unix:/h0,client-11111111111c",
                  .lease = kLease,
                  .loss = wire::OwnerLoss::lapse};
  for (const auto& [rank, one] : agent.meshes.at(mesh)) {
    news.ranks_update.ranks.push_back(one.state);
    if (with_exit_reports && one.exit_report != nullptr)
      news.ranks_update.exit_reports.push_back(one.exit_report);
    if (one.trouble.trouble() != wire::Trouble::none)
      news.ranks_update.troubles.push_back(one.trouble);
  }
  return news;
}

HostAnswer SupervisionWorld::ask_agent(std::size_t host, const Supervisor::Question& question) {
  using Kind = Supervisor::Question::Kind;
  auto& agent = agents_[host];
  if (question.kind == Kind::probe) {
    HostUpdate news{.incarnation = agent.incarnation, .live = 0};
    for (const auto& [name, ranks] : agent.meshes)
      news.live += static_cast<std::uint64_t>(std::count_if(
          ranks.begin(), ranks.end(),
          [](const auto& entry) { return !is_terminal(entry.second.state.state()); }));
    return news;
  }
  if (question.kind == Kind::list) {
    ListUpdate list{.meshes = {}, .after = question.after, .more = false};
    for (auto entry = agent.meshes.upper_bound(question.after); entry != agent.meshes.end();
         ++entry) {
      // Pages of one, to have pages.
      if (!list.meshes.empty()) {
        list.more = true;
        break;
      }
      list.meshes.push_back(describe(agent, entry->first, false));
    }
    return list;
  }
  if (question.kind == Kind::renew) {
    for (const auto& mesh : question.meshes) agent.renewed[mesh] = now_;
    return std::monostate();
  }
  const auto found = agent.meshes.find(question.mesh);
  if (question.kind == Kind::stop) {
    if (found == agent.meshes.end()) return std::monostate();
    for (auto& [rank, one] : found->second) {
      if (is_terminal(one.state.state()) || one.state.state() == wire::ProcState::stopping)
        continue;
      one.state.mutate_generation(one.state.generation() + 1);
      one.state.mutate_state(wire::ProcState::stopping);
      one.trouble = {};
      push(host, question.mesh, {{one.state}, {}});
      after(any(0, 300), [this, host, mesh = question.mesh, number = rank] {
        end_rank(host, mesh, number, wire::ProcState::stopped, wire::Cause::stopped, 143);
      });
    }
    return std::monostate();
  }
  if (found == agent.meshes.end()) return fail(ErrorCode::not_exist, "no mesh " + question.mesh);
  if (question.kind == Kind::stream) agent.streams.insert(question.mesh);
  return describe(agent, question.mesh, true);
}

void SupervisionWorld::replace_agent(std::size_t host) {
  auto& agent = agents_[host];
  if (agent.is_dead || !agent.is_up) return;
  agent.is_up = false;
  trouble(host, now_ + 3s);
  // The next agent has to find out again which ranks are in trouble.
  for (auto& [mesh, ranks] : agent.meshes) {
    for (auto& [rank, one] : ranks) one.trouble = {};
  }
  // It may or may not remember its subscribers.
  if (chance(0.5)) agent.streams.clear();
  after(any(100, 3000), [this, host] {
    agents_[host].is_up = true;
    agents_[host].incarnation = random_();
  });
}

void SupervisionWorld::kill_host(std::size_t host, bool comes_back) {
  auto& agent = agents_[host];
  if (agent.is_dead || now_ >= quiet_) return;
  agent.is_dead = true;
  trouble(host, comes_back ? now_ + 9s : end_);
  for (const auto& [mesh, ranks] : agent.meshes) {
    for (const auto& [rank, one] : ranks) {
      const LifeKey life{mesh, rank, one.state.incarnation()};
      if (is_terminal(one.state.state())) {
        // A subscriber that has not heard of that end by now never will.
        truth_.at(life).is_record_lost = true;
      } else {
        truth_[life] = {now_, wire::ProcState::failed, wire::Cause::host_lost, host, false};
        note_proc_end(host, mesh, one, true);
      }
    }
  }
  after(5s + Duration(2 * delay_), [this, host, died = now_, incarnation = agent.incarnation] {
    // A controller that was blind meanwhile cannot tell.
    if (agents_[host].incarnation != incarnation || blind_until_ >= died || is_stalled_ ||
        !is_connected_)
      return;
    const auto silent = supervisor_->unreachable();
    if (std::find(silent.begin(), silent.end(), agents_[host].address) == silent.end())
      complain("a dead host was not noticed within 5 s");
  });
  if (!comes_back) return;
  after(any(300, 9000), [this, host] {
    auto& again = agents_[host];
    again.is_dead = false;
    again.is_up = true;
    again.incarnation = random_();
    again.meshes.clear();
    again.streams.clear();
  });
}

}  // namespace meshbus::test
