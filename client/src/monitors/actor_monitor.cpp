#include "client/src/monitors/actor_monitor.h"

#include <algorithm>
#include <utility>

#include "client/src/base/unclear_answer.h"
#include "common/wire/control.h"
#include "meshbus/point.h"
#include "wire/actors_generated.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

/// For the constructor of an actor that is made again. After it, it is ordered once more.
constexpr std::chrono::seconds kMakeLimit{30};
/// The grace of an actor that is being made while its mesh is let go of.
constexpr std::chrono::seconds kUnbornGrace{10};

/// Whether an answer leaves open what became of the order: another attempt of the rank may follow,
/// or the way there comes back. The order can be repeated.
bool may_be_repeated(const Error& error) {
  return is_unclear(error.code()) || error.code() == ErrorCode::no_such_host;
}

}  // namespace

ActorReport to_report(const wire::ActorState& state) {
  ActorReport report;
  report.rank = state.create_rank();
  report.type = text_of(state.type());
  report.reason = text_of(state.reason());
  report.status = static_cast<Status::Kind>(state.status());
  report.message = text_of(state.message());
  if (report.status.kind() == Status::Kind::failed)
    report.status = Status::failed(
        (report.message.empty() ? "" : "in message " + report.message + ": ") + report.reason);
  for (flatbuffers::uoffset_t i = 0; state.causes() != nullptr && i < state.causes()->size(); ++i)
    report.causes.push_back(state.causes()->Get(i)->str());
  report.generation = state.generation();
  report.handled = state.handled();
  report.dropped = state.dropped();
  return report;
}

std::string ActorReport::describe() const {
  std::string text = "rank " + std::to_string(rank) + (point.empty() ? "" : " (" + point + ")") +
                     ": actor " + actor + " ";
  switch (status.kind()) {
    case Status::Kind::failed:
      text += "failed" + (message.empty() ? "" : " in message " + message) + ": " + reason;
      break;
    case Status::Kind::stopped: text += "stopped: " + reason; break;
    case Status::Kind::stopping: text += "is stopping: " + reason; break;
    default: text += "is " + status.to_string() + (reason.empty() ? "" : ": " + reason);
  }
  for (const auto& cause : causes) text += "; because: " + cause;
  if (dropped != 0) text += "; " + std::to_string(dropped) + " messages were in its mailbox";
  return text;
}

ActorMonitor::ActorMonitor(HandlerThread& handlers, ActorMeshRef ref, std::string type,
                           Failed on_failure, std::chrono::milliseconds lease)
    : handlers_(handlers),
      ref_(std::move(ref)),
      on_failure_(std::move(on_failure)),
      lease_(lease),
      told_(ref_.num_ranks()) {
  const auto extent = ref_.region().extent();
  for (std::uint64_t rank = 0; rank < ref_.num_ranks(); ++rank) {
    ActorReport report;
    report.rank = rank;
    report.type = type;
    if (const auto point = extent.point_of(rank)) report.point = point->to_string();
    if (const auto actor = ref_.actor_at(rank)) {
      report.actor = actor->to_string();
      rank_of_.emplace(actor->proc().key(), std::pair(rank, actor->proc().host().key()));
    }
    reports_.push_back(std::move(report));
  }
}

bool ActorMonitor::apply(std::uint64_t rank, ActorReport report) {
  ActorReport& now = reports_[rank];
  if (now.status.is_terminated() || (report.generation <= now.generation && !report.proc))
    return false;
  report.rank = rank;
  report.actor = now.actor;
  report.point = now.point;
  if (report.type.empty()) report.type = now.type;
  now = std::move(report);
  return true;
}

void ActorMonitor::tell(std::uint64_t rank) {
  const ActorReport& report = reports_[rank];
  if (!is_armed_ || is_abandoned_ || !report.status.is_failure() || told_[rank]) return;
  if (revival_ != nullptr && report.proc && report.proc->is_restarting) return;
  told_[rank] = true;
  if (!first_failure_) first_failure_ = report;
  handlers_.post([self = shared_from_this(), report] {
    if (self->on_failure_) self->gate_.pass([&] { self->on_failure_(report); });
    {
      const std::lock_guard lock(self->mutex_);
      self->is_first_told_ = true;
    }
    self->changed_.notify_all();
  });
}

void ActorMonitor::on_states(
    const wire::Envelope& from,
    const flatbuffers::Vector<flatbuffers::Offset<wire::ActorState>>* states) {
  const auto found = rank_of_.find(from.source_proc());
  if (found == rank_of_.end() || found->second.second != from.source_host() || states == nullptr)
    return;
  const auto name = ref_.name().to_string();
  for (const auto* state : *states) {
    if (state->pid() == 0 && state->name()->string_view() == name)
      on_state(found->second.first, *state);
  }
}

void ActorMonitor::on_state(std::uint64_t rank, const wire::ActorState& state) {
  auto report = to_report(state);
  if (revival_ != nullptr) report.generation += revival_->base(rank);
  {
    const std::lock_guard lock(mutex_);
    report.restarts = reports_[rank].restarts;
    if (!apply(rank, std::move(report))) return;
    tell(rank);
  }
  changed_.notify_all();
}

void ActorMonitor::on_proc_end(const RankReport& proc) {
  const auto ordinal = ref_.procs().ordinal_of(proc.rank);
  if (!ordinal) return;
  if (revival_ != nullptr) revival_->on_end({.rank = *ordinal, .restarts = proc.restarts});
  {
    const std::lock_guard lock(mutex_);
    ActorReport& now = reports_[*ordinal];
    // Its attempt has been told of, and it stays the last one after all.
    if (now.proc && now.proc->restarts == proc.restarts) {
      now.proc->is_restarting = proc.is_restarting;
      tell(*ordinal);
    }
    ActorReport report = now;
    ++report.generation;
    report.reason = "its proc has ended: " + proc.describe();
    report.status =
        proc.is_failure() ? Status::failed(report.reason) : Status(Status::Kind::stopped);
    report.proc = proc;
    if (revival_ != nullptr && now.proc && now.proc->restarts < proc.restarts) {
      // A later attempt, which has ended before its actor was made.
      now = std::move(report);
    } else if (!apply(*ordinal, std::move(report))) {
      return;
    }
    tell(*ordinal);
  }
  changed_.notify_all();
}

// --- Actors of ranks that were restarted. ---

void ActorMonitor::set_revival(std::string params, ActorRevival::Made on_made) {
  revival_ =
      std::make_unique<ActorRevival>(ref_.num_ranks(), std::move(params), std::move(on_made));
}

void ActorMonitor::on_proc_ready(const RankReport& proc) {
  const auto ordinal = ref_.procs().ordinal_of(proc.rank);
  if (revival_ != nullptr && ordinal)
    revival_->on_ready({.rank = *ordinal, .restarts = proc.restarts});
}

void ActorMonitor::make_again(Bus& bus, const std::string& self) {
  if (revival_ == nullptr || is_abandoned()) return;
  for (const auto& order : revival_->take_wanted()) {
    wire::SpawnActorT spawn;
    spawn.type = report(order.rank).type;
    spawn.name = ref_.name().to_string();
    spawn.params.assign(revival_->params().begin(), revival_->params().end());
    spawn.create_rank = order.rank;
    spawn.owner = self;
    bus.request(Destination::to(ref_.actor_at(order.rank)->proc()), std::move(spawn), kMakeLimit,
                [weak = weak_from_this(), order](const Result<ControlMessage>& answer) {
                  if (const auto monitor = weak.lock()) monitor->on_made(order, answer);
                });
  }
}

void ActorMonitor::on_made(const ActorRevival::Order& order, const Result<ControlMessage>& answer) {
  if (!revival_->take_answer(order)) return;
  const auto* const state = answer ? answer->body_as<wire::ActorState>() : nullptr;
  if (!answer && may_be_repeated(answer.error())) return revival_->retry(order);
  const auto before = report(order.rank);
  ActorReport made = state != nullptr ? to_report(*state) : ActorReport{};
  if (state == nullptr) {
    made.generation = 1;
    made.reason = "it was not made again: " + (answer ? "its proc answered " + answer->body_name()
                                                      : answer.error().to_string());
    made.status = Status::failed(made.reason);
  }
  made.rank = order.rank;
  made.actor = before.actor;
  made.point = before.point;
  made.type = before.type;
  made.restarts = order.restarts;
  made.generation += before.generation;
  revival_->on_made(order, before.generation);
  {
    const std::lock_guard lock(mutex_);
    reports_[order.rank] = made;
    told_[order.rank] = false;
    tell(order.rank);
  }
  changed_.notify_all();
  if (state == nullptr || !revival_->on_made()) return;
  handlers_.post([self = shared_from_this(), made = std::move(made)] {
    self->gate_.pass([&] { self->revival_->on_made()(made); });
  });
}

std::vector<std::uint64_t> ActorMonitor::stop_revival() {
  return revival_ == nullptr ? std::vector<std::uint64_t>() : revival_->stop();
}

void ActorMonitor::stop_unborn(Bus& bus) {
  for (const auto rank : stop_revival()) {
    wire::StopActorT stop;
    stop.name = ref_.name().to_string();
    stop.reason = "the launcher let go of the actors";
    stop.grace_ms = static_cast<std::uint32_t>(std::chrono::milliseconds(kUnbornGrace).count());
    bus.request(Destination::to(ref_.actor_at(rank)->proc()), std::move(stop), 2 * kUnbornGrace,
                [](const Result<ControlMessage>&) {});
  }
}

Error ActorMonitor::explain(const ActorMeshRef& view, std::uint64_t ordinal,
                            const Error& error) const {
  const bool is_gone = error.code() == ErrorCode::no_such_proc;
  if (!is_gone && error.code() != ErrorCode::no_such_port) return error;
  const auto create_rank = view.procs().create_rank(ordinal);
  const auto rank = create_rank ? ref_.procs().ordinal_of(*create_rank) : create_rank;
  if (!rank) return error;
  const auto now = report(*rank);
  if (!now.proc) return error;
  if (is_gone) return {error.code(), error.detail() + ": " + now.proc->describe()};
  return {error.code(),
          error.detail() + "; rank " + std::to_string(*rank) + " was restarted" +
              (revival_ == nullptr
                   ? ", and these actors are not made again (ActorSpawnOptions::again): "
                   : ", and its actor is not made again yet: ") +
              now.proc->describe()};
}

void ActorMonitor::resync(Bus& bus, const std::string& self, const std::optional<HostAddr>& host) {
  for (std::uint64_t rank = 0; rank < ref_.num_ranks(); ++rank) {
    const auto actor = ref_.actor_at(rank);
    if (!actor || (host && actor->proc().host() != *host) || report(rank).status.is_terminated())
      continue;
    wire::StreamActorsT stream;
    stream.name = ref_.name().to_string();
    stream.subscriber = self;
    bus.request(Destination::to(actor->proc()), std::move(stream), std::chrono::seconds(5),
                [weak = weak_from_this(), rank](const Result<ControlMessage>& answer) {
                  const auto monitor = weak.lock();
                  const auto* const list =
                      monitor != nullptr && answer ? answer->body_as<wire::ActorList>() : nullptr;
                  for (flatbuffers::uoffset_t i = 0;
                       list != nullptr && list->actors() != nullptr && i < list->actors()->size();
                       ++i) {
                    if (list->actors()->Get(i)->pid() == 0)
                      monitor->on_state(rank, *list->actors()->Get(i));
                  }
                });
  }
}

void ActorMonitor::arm() {
  const std::lock_guard lock(mutex_);
  is_armed_ = true;
  for (std::uint64_t rank = 0; rank < reports_.size(); ++rank) tell(rank);
}

void ActorMonitor::abandon() {
  {
    const std::lock_guard lock(mutex_);
    is_abandoned_ = true;
  }
  gate_.shut();
}

bool ActorMonitor::is_leased_on(const HostAddr& host) const {
  if (lease_.count() == 0) return false;
  const std::lock_guard lock(mutex_);
  if (is_abandoned_) return false;
  return std::any_of(rank_of_.begin(), rank_of_.end(), [&, key = host.key()](const auto& entry) {
    const auto& [rank, host_key] = entry.second;
    return host_key == key && (!reports_[rank].status.is_terminated() ||
                               (revival_ != nullptr && revival_->is_due(rank)));
  });
}

bool ActorMonitor::is_abandoned() const {
  const std::lock_guard lock(mutex_);
  return is_abandoned_;
}

std::vector<ActorReport> ActorMonitor::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

ActorReport ActorMonitor::report(std::uint64_t rank) const {
  const std::lock_guard lock(mutex_);
  return reports_[rank];
}

std::optional<ActorReport> ActorMonitor::wait_failure(std::chrono::milliseconds deadline) {
  const bool is_handler = handlers_.is_here();
  std::unique_lock lock(mutex_);
  const auto limit = std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24 * 365));
  changed_.wait_for(lock, limit,
                    [&] { return is_handler ? first_failure_.has_value() : is_first_told_; });
  return first_failure_;
}

}  // namespace meshbus
