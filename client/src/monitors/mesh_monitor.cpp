#include "client/src/monitors/mesh_monitor.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/log.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {

using Facts = MeshProgress::Facts;

namespace {

/// From the end of a lease to the last of its procs, beyond the grace: SIGKILL has its time.
constexpr std::chrono::seconds kLeaseSlack{5};

}  // namespace

MeshMonitor::MeshMonitor(Reactor& reactor, HandlerThread& handlers, ProcMeshRef mesh,
                         Options options)
    : reactor_(reactor),
      handlers_(handlers),
      mesh_(std::move(mesh)),
      options_(std::move(options)),
      progress_(mesh_, handlers_),
      output_(mesh_.get().root_ranks()) {
  if (!has_restarts()) return;
  progress_.change([this](Facts& facts) {
    facts.restarts.emplace(options_.restart, facts.table.size(), options_.seed);
    if (options_.spares.empty()) return;
    const bool has_lease = options_.lease.count() > 0;
    facts.restarts->set_spares(SpareHosts(
        options_.spares,
        has_lease ? std::optional(options_.lease + options_.grace + kLeaseSlack) : std::nullopt));
  });
}

void MeshMonitor::call(std::function<void(const Handlers&)> handler, std::function<void()> then) {
  handlers_.post([self = shared_from_this(), handler = std::move(handler), then = std::move(then)] {
    self->gate_.pass([&] { handler(self->options_.handlers); });
    if (then) then();
  });
}

void MeshMonitor::tell_states(const std::vector<RankReport>& reports) {
  if (!options_.handlers.on_state) return;
  for (const auto& report : reports)
    call([report](const Handlers& handlers) { handlers.on_state(report); });
}

void MeshMonitor::tell_end(const RankReport& report) {
  std::erase_if(listeners_, [&](const EndListener& listener) { return !listener(report); });
}

void MeshMonitor::tell_failures(std::vector<RankReport>& ended,
                                const std::vector<RankReport>& final_ones) {
  std::set<std::uint64_t> last;
  for (const auto& failure : final_ones) last.insert(failure.rank);
  for (auto& failure : ended) {
    failure.is_restarting = last.erase(failure.rank) == 0;
    tell_end(failure);
  }
  for (const auto& failure : final_ones) {
    if (last.contains(failure.rank)) tell_end(failure);
  }
}

void MeshMonitor::on_update(
    const HostAddr& from, const flatbuffers::Vector<const wire::RankState*>* ranks,
    const flatbuffers::Vector<flatbuffers::Offset<wire::ExitReport>>* exit_reports,
    const flatbuffers::Vector<const wire::LaunchTimes*>* launch) {
  const auto changes = progress_.change([&](Facts& facts) {
    const bool is_told =
        !facts.is_abandoned && (options_.handlers.on_state || !again_listeners_.empty());
    return facts.take_update(from, {.ranks = ranks, .exit_reports = exit_reports, .launch = launch},
                             reactor_.now(), is_told);
  });
  if (!changes.is_news) return;
  tell_states(changes.reports);
  for (const auto& rank : changes.ended) tell_end(rank);
  for (const auto& rank : changes.reports) {
    if (rank.restarts == 0 || rank.state != ProcState::ready) continue;
    std::erase_if(again_listeners_, [&](const AgainListener& listener) { return !listener(rank); });
  }
  settle();
}

void MeshMonitor::on_troubles(const HostAddr& from, const TroubleUpdate& update) {
  const auto changes = progress_.change([&](Facts& facts) {
    auto changed = take_troubles(facts.table, from, update);
    facts.version += changed.size();
    return changed;
  });
  for (const auto& change : changes) {
    const auto subject = "mesh " + name() + ": rank " + std::to_string(change.rank.rank);
    if (change.rank.trouble == Trouble::frozen) {
      log::warn(subject + " is frozen: " + change.rank.trouble_reason);
    } else if (change.rank.trouble == Trouble::stuck) {
      log::warn(subject + " is stuck: " + change.rank.trouble_reason);
    } else if (change.before == Trouble::stuck) {
      log::warn(subject + ": its stuck handler has returned");
    } else if (change.before == Trouble::frozen) {
      log::warn(subject + " answers again");
    }
    if (options_.handlers.on_trouble)
      call([report = change.rank](const Handlers& handlers) { handlers.on_trouble(report); });
  }
}

void MeshMonitor::lose(const HostAddr& host, const std::string& reason, bool is_proved) {
  const auto changed = progress_.change([&](Facts& facts) {
    std::vector<RankReport> reports;
    for (std::uint64_t index = 0; index < mesh().hosts().size(); ++index) {
      if (mesh().hosts()[index] != host) continue;
      const auto lost = facts.table.lose(index, "host lost: " + host.to_string() + ": " + reason,
                                         reactor_.now(), std::chrono::system_clock::now());
      reports.insert(reports.end(), lost.begin(), lost.end());
    }
    if (!reports.empty()) ++facts.version;
    output_.lose(host, facts.table);
    if (facts.restarts && !facts.owners.is_handed_over())
      facts.restarts->lose_host(facts.table, host, reason, is_proved, reactor_.now());
    return reports;
  });
  tell_states(changed);
  settle();
}

void MeshMonitor::lose_block(std::uint64_t host_index, const std::string& reason) {
  const auto changed = progress_.change([&](Facts& facts) {
    const auto& host = mesh().hosts()[host_index];
    auto lost = facts.table.lose(host_index, "host lost: " + host.to_string() + ": " + reason,
                                 reactor_.now(), std::chrono::system_clock::now());
    if (!lost.empty()) ++facts.version;
    for (const auto& rank : lost) output_.set_ended(rank.rank, true);
    return lost;
  });
  tell_states(changed);
  settle();
}

void MeshMonitor::listen(EndListener listener) {
  const auto now = progress_.table();
  for (const auto& rank : now.ranks()) {
    if (rank.is_terminal()) listener(rank);
  }
  listeners_.push_back(std::move(listener));
}

void MeshMonitor::on_output(const HostAddr& from, const wire::Output& output, OutputTaken taken) {
  auto batch = progress_.change([&](Facts& facts) {
    const bool is_wanted = !facts.is_abandoned && options_.handlers.on_output;
    return output_.receive(from, output, facts.table, is_wanted, reactor_.now());
  });
  auto answer = std::move(batch.taken);
  const auto handed = std::make_shared<OutputReceiver::Batch>(std::move(batch));
  handlers_.post([self = shared_from_this(), handed, answer = std::move(answer),
                  taken = std::move(taken)]() mutable {
    for (const auto& chunk : handed->chunks) {
      self->gate_.pass(
          [&] { self->options_.handlers.on_output(chunk.rank, chunk.stream, chunk.bytes); });
    }
    self->reactor_.post([self, handed, answer = std::move(answer), taken]() mutable {
      self->output_.on_handled(handed->ended, self->reactor_.now());
      answer.ended = handed->ended;
      if (!answer.positions.empty() || !answer.ended.empty() || answer.resend)
        taken(std::move(answer));
      self->settle();
    });
  });
}

bool MeshMonitor::should_ask_for_output() {
  if (!options_.has_output) return false;
  return progress_.change([&](const Facts& facts) {
    if (facts.is_abandoned || facts.is_end_posted || facts.owners.is_handed_over()) return false;
    return output_.should_ask_again(facts.table, reactor_.now());
  });
}

bool MeshMonitor::is_output_due(const HostAddr& host) {
  if (!options_.has_output) return false;
  return progress_.change([&](const Facts& facts) {
    if (facts.is_abandoned || facts.is_end_posted || facts.owners.is_handed_over()) return false;
    return !output_.is_over_on(host, facts.table);
  });
}

struct MeshMonitor::Due : MeshFacts::Due {
  std::optional<MeshOutcome> end;
};

MeshMonitor::Due MeshMonitor::find_due(Time now) {
  return progress_.change([&](Facts& facts) {
    Due due{facts.take_due(mesh(), now), {}};
    if (!due.is_complete) return due;
    const bool is_output_over =
        !options_.has_output ||
        (facts.owners.is_handed_over() ? output_.is_idle() : output_.is_over(facts.table));
    if (!is_output_over) {
      const auto limit = output_.give_up_at(facts.table, now);
      if (!output_.is_idle() || now < limit) {
        due.next = std::max(limit, now + std::chrono::seconds(1));
        return due;
      }
      log::warn("mesh " + name() +
                ": its hosts did not say that its output has ended; the rest is not waited for");
    }
    facts.is_end_posted = true;
    due.end = facts.outcome();
    return due;
  });
}

void MeshMonitor::settle() {
  auto due = find_due(reactor_.now());
  tell_failures(due.ended, due.judgement.failures);
  reactor_.cancel(std::exchange(timer_, 0));
  if (due.next && !due.end) {
    timer_ = reactor_.at(*due.next, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->settle();
    });
  }
  carry_out(std::move(due.judgement));
  if (!due.end) return;
  call(
      [end = std::move(*due.end)](const Handlers& handlers) {
        if (handlers.on_end) handlers.on_end(end);
      },
      [this] { progress_.change([](Facts& facts) { facts.is_end_told = true; }); });
}

void MeshMonitor::carry_out(RestartJudge::Judgement judgement) {
  for (auto& restart : judgement.restarts) {
    if (!options_.handlers.on_restart) break;
    call(
        [restart = std::move(restart)](const Handlers& handlers) { handlers.on_restart(restart); });
  }
  for (const auto rank : judgement.starts) output_.set_ended(rank, false);
  for (const auto& [ranks, cause] : judgement.stops) orders_.stop(ranks, cause);
  if (!judgement.starts.empty()) orders_.start(judgement.starts);
  for (const auto& move : judgement.moves) moves_.move(move);
  for (const auto& pair : judgement.questions) moves_.ask_spare(pair);
  for (auto& failure : judgement.failures) {
    call([failure = std::move(failure)](const Handlers& handlers) { handlers.on_failure(failure); },
         [this] { progress_.change([](Facts& facts) { ++facts.failures_told; }); });
  }
}

void MeshMonitor::cancel_incarnations(const std::vector<std::uint64_t>& ranks) {
  if (ranks.empty()) return;
  progress_.change([&](Facts& facts) { facts.cancel_incarnations(ranks, reactor_.now()); });
  for (const auto rank : ranks) output_.set_ended(rank, true);
  settle();
}

void MeshMonitor::fail_incarnations(const std::vector<std::uint64_t>& ranks, const Error& error) {
  const auto changed = progress_.change([&](Facts& facts) {
    return facts.fail_incarnations(ranks, error, reactor_.now(), std::chrono::system_clock::now());
  });
  tell_states(changed);
  settle();
}

void MeshMonitor::on_spare(const SpareHosts::Pair& pair, bool can_take) {
  progress_.change([&](Facts& facts) {
    if (can_take)
      facts.restarts->spares().confirm(pair);
    else
      facts.restarts->spares().reject(pair);
  });
  settle();
}

void MeshMonitor::replace_host(ProcMeshRef mesh, const HostAddr& lost) {
  progress_.change([&](Facts& facts) {
    const auto before = mesh_.get().hosts();
    const auto& now = mesh_.set(std::move(mesh));
    mesh_.show();
    facts.replace_host(before, now, lost);
  });
}

void MeshMonitor::move_in(const RestartJudge::Move& move) {
  progress_.change([&](Facts& facts) {
    for (const auto rank : move.ranks) {
      facts.table.move_in(rank);
      output_.begin_anew(rank);
    }
    ++facts.version;
  });
  if (!options_.handlers.on_move) return;
  call([report = MoveReport{.ranks = to_rank_set(move.ranks), .from = move.from, .to = move.to}](
           const Handlers& handlers) { handlers.on_move(report); });
}

void MeshMonitor::begin_growth(ProcMeshRef mesh) {
  progress_.change([&](Facts& facts) {
    const auto& grown = mesh_.set(std::move(mesh));
    facts.begin_growth(grown);
    output_.resize(grown.root_ranks());
  });
}

void MeshMonitor::end_growth() {
  progress_.change([&](Facts& facts) {
    facts.end_growth();
    mesh_.show();
  });
  settle();
}

std::vector<RankReport> MeshMonitor::shrink(ProcMeshRef mesh) {
  auto gone = progress_.change([&](Facts& facts) {
    const auto& left = mesh_.set(std::move(mesh));
    auto reports = facts.shrink(left);
    output_.resize(left.root_ranks());
    mesh_.show();
    return reports;
  });
  settle();
  return gone;
}

bool MeshMonitor::is_output_over_from(std::uint64_t rank) {
  if (!options_.has_output) return true;
  return progress_.change(
      [&](const Facts& facts) { return output_.is_over_from(rank, facts.table); });
}

void MeshMonitor::tell_resized(ResizeReport report) {
  if (!options_.handlers.on_resize) return;
  call([report = std::move(report)](const Handlers& handlers) { handlers.on_resize(report); });
}

void MeshMonitor::post_settle() {
  reactor_.post([self = shared_from_this()] { self->settle(); });
}

void MeshMonitor::arm() {
  progress_.change([](Facts& facts) {
    facts.is_armed = true;
    if (facts.restarts) facts.table.set_judged();
  });
  post_settle();
}

Result<RestartPlan> MeshMonitor::pause_restarts(std::chrono::milliseconds deadline) {
  progress_.change([](Facts& facts) { facts.are_restarts_paused = true; });
  // What was ordered is begun by its host in a moment, or fails.
  const auto has_begun = [](const RankTable& table) {
    return std::none_of(table.ranks().begin(), table.ranks().end(), [](const RankReport& rank) {
      return rank.restarts != 0 && !rank.is_terminal() && rank.incarnation == 0;
    });
  };
  if (!progress_.wait(has_begun, deadline)) {
    resume_restarts();
    return fail(ErrorCode::timeout,
                "mesh " + name() + ": ranks that are to be restarted have not begun; try again");
  }
  return progress_.change([](Facts& facts) { return facts.restarts->plan(Time::clock::now()); });
}

void MeshMonitor::resume_restarts() {
  progress_.change([](Facts& facts) { facts.are_restarts_paused = false; });
  post_settle();
}

void MeshMonitor::restore_restarts(const RestartPlan& plan) {
  progress_.change(
      [&](Facts& facts) { facts.restarts.emplace(plan, facts.table.size(), options_.seed); });
}

RestartPlan MeshMonitor::restart_plan() const {
  return progress_.restart_plan(Time::clock::now());
}

void MeshMonitor::on_ownership(const HostAddr& from, const wire::Ownership* ownership) {
  if (ownership == nullptr) return;
  bool is_over = false;
  const bool is_given_away = progress_.change([&](Facts& facts) {
    const bool is_done = facts.owners.take(mesh(), from, *ownership);
    is_over =
        has_restarts() && facts.owners.is_handed_over() && !facts.is_restarted_by_others(mesh());
    return is_done;
  });
  // A handover that had failed, because a host did not answer, is done after all.
  if (is_given_away) hand_over();
  if (has_restarts()) {
    if (const auto stopped = stopped_on(mesh(), from, *ownership); !stopped.empty())
      stop_restarts(stopped);
  }
  if (is_over) settle();
}

void MeshMonitor::begin_taking() {
  progress_.change([](Facts& facts) { facts.owners.begin_taking(); });
}

void MeshMonitor::end_taking() {
  progress_.change([](Facts& facts) { facts.owners.end_taking(); });
}

void MeshMonitor::begin_handover(const ProcId& controller) {
  progress_.change([&](Facts& facts) { facts.owners.begin_handover(controller.to_string()); });
}

void MeshMonitor::hand_over() {
  progress_.change([](Facts& facts) { facts.hand_over(); });
  post_settle();
}

void MeshMonitor::abandon() {
  progress_.change([](Facts& facts) { facts.is_abandoned = true; });
  gate_.shut();
}

void MeshMonitor::stop_restarts(const RankSet& ranks) {
  if (!has_restarts() || progress_.is_handed_over()) return;
  progress_.change([&](Facts& facts) { facts.restarts->stop(facts.table, ranks); });
  post_settle();
}

}  // namespace meshbus
