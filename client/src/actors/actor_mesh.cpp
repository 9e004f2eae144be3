#include "meshbus/actor_mesh.h"

#include <algorithm>
#include <map>

#include "client/src/actors/actor_mesh_impl.h"
#include "client/src/base/time_left.h"
#include "client/src/context/async_call.h"
#include "client/src/context/check_owner.h"
#include "common/address/actor_words.h"
#include "common/base/quantity.h"
#include "common/wire/actor_body.h"
#include "meshbus/accumulator.h"
#include "meshbus/point.h"
#include "wire/actors_generated.h"

namespace meshbus {
namespace {

using std::chrono::milliseconds;

std::string message_to(const ActorMeshRef& ref, const MessageType& type) {
  return "message " + type.to_string() + " to actors " + ref.name().to_string();
}

/// Why an actor did not answer, in the words of its caller. `monitor`: null, there is none.
Error explain(const ActorMonitor* monitor, const ActorMeshRef& ref, std::uint64_t ordinal,
              const MessageType& type, const Error& error) {
  const auto named = in_names(error, ref.name(), 0, type);
  return monitor == nullptr ? named : monitor->explain(ref, ordinal, named);
}

Connection::Answer ask_stop(Connection& connection, const ActorMeshRef& ref, std::uint64_t rank,
                            const std::string& reason, milliseconds grace, milliseconds deadline) {
  wire::StopActorT stop;
  stop.name = ref.name().to_string();
  stop.reason = reason;
  stop.grace_ms =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(grace.count(), 0, UINT32_MAX));
  return connection.ask(Destination::to(ref.actor_at(rank)->proc()), std::move(stop), deadline);
}

}  // namespace

// --- What they share. ---

void ActorMeshImpl::let_go() {
  if (monitor_ == nullptr || has_let_go_.exchange(true)) return;
  if (!core().check_process()) {
    // A forked child: the actors are its parent's.
    new std::shared_ptr<ActorMonitor>(monitor_);
    return;
  }
  for (const auto& report : monitor_->reports()) {
    if (!is_detached_ && !report.status.is_terminated() &&
        !proc_end(*monitor_->ref().procs().create_rank(report.rank)))
      ask_stop(connection(), monitor_->ref(), report.rank, "the launcher let go of the actors",
               std::chrono::seconds(10), std::chrono::seconds(15));
  }
  monitor_->abandon();
  core().post([core = connection_.core().get(), connection = connection_.get(),
               monitor = std::weak_ptr(monitor_),
               stops = !is_detached_] { core->forget_actors(connection, monitor, stops); });
}

std::optional<RankReport> ActorMeshImpl::proc_end(std::uint64_t create_rank) const {
  if (procs_ == nullptr) return std::nullopt;
  return procs_->progress().table().end_of(create_rank);
}

std::optional<RankReport> ActorMeshImpl::wait_proc_end(std::uint64_t create_rank,
                                                       milliseconds limit) const {
  if (procs_ != nullptr)
    procs_->progress().wait(
        [create_rank](const RankTable& table) { return table.end_of(create_rank).has_value(); },
        limit);
  return proc_end(create_rank);
}

// --- Views. ---

Result<ActorView> ActorView::attach(Context& context, ActorMeshRef ref) {
  const auto& core = context.core();
  if (auto fine = check_owner(core); !fine) return fail(fine.error());
  const auto& hosts = ref.procs().hosts();
  auto connection = core->find_connection(core, hosts.empty() ? HostAddr::local(0) : hosts.front());
  if (!connection) return fail(connection.error());
  return ActorView(std::make_shared<ActorMeshImpl>(std::move(*connection), nullptr, nullptr),
                   std::move(ref));
}

Result<ActorView> ActorView::range(std::string_view label, std::uint64_t begin,
                                   std::optional<std::uint64_t> end, std::uint64_t step) const {
  auto slice = ref_.range(label, begin, end, step);
  if (!slice) return fail(slice.error());
  return ActorView(impl_, std::move(*slice));
}

Result<ActorView> ActorView::at(std::string_view label, std::uint64_t index) const {
  auto slice = ref_.at(label, index);
  if (!slice) return fail(slice.error());
  return ActorView(impl_, std::move(*slice));
}

Result<RankAnswers> ActorView::call(const MessageType& type, const BodyParts& body,
                                    milliseconds deadline) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  if (size() == 0) return RankAnswers();
  auto answers = impl_->connection().calls().call_all(ref_.procs(), actor_port(ref_.name()),
                                                      ActorBodyParts(type, 0, body), deadline);
  if (!answers) return fail(answers.error().within(message_to(ref_, type)));
  for (std::uint64_t ordinal = 0; ordinal < size(); ++ordinal) {
    auto& answer = (*answers)[ordinal];
    if (!answer) answer = fail(explain(impl_->monitor(), ref_, ordinal, type, answer.error()));
  }
  return answers;
}

void ActorView::call_async(const MessageType& type, const BodyParts& body, AsyncOptions options,
                           RankAnswerHandler handler) const {
  if (auto fine = check_owner(impl_); !fine) return refuse_ranks(handler, size(), fine.error());
  if (size() == 0) return;
  handler = [monitor = impl_->shared_monitor(), view = ref_, type, handler = std::move(handler)](
                std::uint64_t ordinal, Result<std::string> answer) {
    if (!answer) answer = fail(explain(monitor.get(), view, ordinal, type, answer.error()));
    handler(ordinal, std::move(answer));
  };
  const auto call = std::make_shared<AsyncCall>(impl_->core(), size(), options, std::move(handler));
  call->watch(std::move(options.stop));
  impl_->connection().calls().call_all_async(ref_.procs(), actor_port(ref_.name()),
                                             ActorBodyParts(type, 0, body), options.deadline, call);
}

Result<Accumulation> ActorView::accumulate(const MessageType& type, const BodyParts& body,
                                           std::string_view reducer,
                                           const AccumulateOptions& options) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  auto by = (options.reducers == nullptr ? Reducers::builtin() : *options.reducers).find(reducer);
  if (!by) return fail(by.error());
  if (size() == 0) return Accumulation();
  if (!Reducers::builtin().find(reducer))
    return accumulate_here(type, body, std::move(*by), options.deadline);
  auto reduced =
      impl_->connection().accumulate(ref_.procs(), actor_port(ref_.name()),
                                     encode_actor_body(type, 0, body), std::move(*by), options);
  if (!reduced) return fail(reduced.error().within(message_to(ref_, type)));
  for (auto& [ordinal, error] : reduced->errors) error = in_names(error, ref_.name(), 0, type);
  return reduced;
}

Result<Accumulation> ActorView::accumulate_here(const MessageType& type, const BodyParts& body,
                                                Reducer reducer, milliseconds deadline) const {
  auto answers = call(type, body, deadline);
  if (!answers) return fail(answers.error());
  Accumulation reduced;
  reduced.num_ranks = reduced.num_messages = size();
  Accumulator accumulator(reducer, size(), Accumulator::Deliver::snapshots);
  const Accumulator::Time now{};
  for (std::uint64_t ordinal = 0; ordinal < size(); ++ordinal) {
    auto& answer = (*answers)[ordinal];
    auto value = answer ? reducer.read(*answer) : Result<ReplyValue>(fail(answer.error()));
    const auto added = value ? accumulator.add(ordinal, std::move(*value), now)
                             : Result<void>(fail(value.error()));
    if (!added) reduced.errors.emplace(ordinal, added.error());
  }
  if (auto all = accumulator.take(Accumulator::Time::max())) {
    reduced.value = std::move(all->value);
    reduced.ranks = std::move(all->ranks);
  }
  return reduced;
}

Result<void> ActorView::send(const MessageType& type, const BodyParts& body) const {
  if (auto fine = check_owner(impl_); !fine) return fine;
  if (size() == 0) return {};
  const auto sent = impl_->connection().calls().cast(ref_.procs(), actor_port(ref_.name()),
                                                     ActorBodyParts(type, 0, body));
  if (!sent) return fail(sent.error().within(message_to(ref_, type)));
  return {};
}

Result<std::vector<ActorReport>> ActorView::states(milliseconds deadline) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  std::vector<Connection::Answer> answers;
  for (std::uint64_t ordinal = 0; ordinal < size(); ++ordinal) {
    wire::GetActorStateT get;
    get.name = ref_.name().to_string();
    answers.push_back(impl_->connection().ask(Destination::to(ref_.actor_at(ordinal)->proc()),
                                              std::move(get), deadline));
  }
  const auto extent = ref_.region().extent();
  std::vector<ActorReport> reports;
  for (std::uint64_t ordinal = 0; ordinal < size(); ++ordinal) {
    const auto answer = answers[ordinal].get();
    const auto* const state = answer ? answer->body_as<wire::ActorState>() : nullptr;
    ActorReport report;
    if (state != nullptr) {
      report = to_report(*state);
    } else if (!answer && answer.error().code() == ErrorCode::not_exist) {
      report.status = Status::Kind::not_exist;
    } else if (const auto end = impl_->proc_end(*ref_.procs().create_rank(ordinal))) {
      report.reason = "its proc has ended: " + end->describe();
      report.status =
          end->is_failure() ? Status::failed(report.reason) : Status(Status::Kind::stopped);
      report.proc = end;
    } else {
      report.reason = answer ? "it answered nonsense" : answer.error().to_string();
    }
    report.rank = ordinal;
    report.actor = ref_.actor_at(ordinal)->to_string();
    if (const auto point = extent.point_of(ordinal)) report.point = point->to_string();
    reports.push_back(std::move(report));
  }
  return reports;
}

// --- Owners. ---

// What was moved from still says which actors it had.
ActorMesh::ActorMesh(ActorMesh&& other) noexcept
    : view_(std::move(other.view_.impl_), other.view_.ref_) {}
ActorMesh& ActorMesh::operator=(ActorMesh&& other) noexcept {
  std::swap(view_, other.view_);
  return *this;
}
ActorMesh::~ActorMesh() {
  if (view_.impl_ != nullptr) view_.impl_->let_go();
}

std::vector<ActorReport> ActorMesh::known() const {
  return view_.impl_ == nullptr ? std::vector<ActorReport>() : view_.impl_->monitor()->reports();
}

Result<ActorReport> ActorMesh::wait_for_failure(milliseconds deadline) const {
  if (auto fine = check_owner(view_.impl_); !fine) return fail(fine.error());
  if (auto failure = view_.impl_->monitor()->wait_failure(deadline)) return std::move(*failure);
  return fail(ErrorCode::timeout, "actors " + ref().name().to_string() + ": none failed within " +
                                      duration_to_text(deadline));
}

Result<std::vector<ActorReport>> ActorMesh::stop(ActorStopOptions options) {
  if (auto fine = check_owner(view_.impl_); !fine) return fail(fine.error());
  auto& impl = *view_.impl_;
  auto& monitor = *impl.monitor();
  const auto limit =
      options.deadline.value_or(options.grace + impl.core().config().duration(keys::stop_idle));
  const auto give_up = std::chrono::steady_clock::now() + limit;
  // Ordered before: a stop comes to their procs after that.
  const auto unborn = impl.core().run([&] { return monitor.stop_revival(); });
  const auto is_unborn = [&](std::uint64_t rank) {
    return std::find(unborn.begin(), unborn.end(), rank) != unborn.end();
  };
  std::vector<std::pair<std::uint64_t, Connection::Answer>> answers;
  for (const auto& report : monitor.reports()) {
    if (!report.status.is_terminated() || is_unborn(report.rank))
      answers.emplace_back(report.rank, ask_stop(impl.connection(), ref(), report.rank,
                                                 options.reason, options.grace, limit));
  }
  std::map<std::uint64_t, Error> left;
  for (auto& [rank, future] : answers) {
    auto answer = std::make_shared<Result<ControlMessage>>(future.get());
    const auto* const state = *answer ? (*answer)->body_as<wire::ActorState>() : nullptr;
    if (state != nullptr) impl.core().run([&] { monitor.on_state(rank, *state); });
    const bool is_told = *answer || answer->error().code() == ErrorCode::not_exist;
    if (monitor.report(rank).status.is_terminated() && (is_told || !is_unborn(rank))) continue;
    // A proc that is not there any more has ended; that its host says so may be still to come.
    const auto code = *answer ? ErrorCode::none : answer->error().code();
    const bool is_gone = code == ErrorCode::no_such_proc || code == ErrorCode::fate_unknown;
    const auto create_rank = *ref().procs().create_rank(rank);
    if (const auto end = is_gone ? impl.wait_proc_end(create_rank, left_until(give_up))
                                 : impl.proc_end(create_rank)) {
      impl.core().run([&] { monitor.on_proc_end(*end); });
      continue;
    }
    left.emplace(rank, *answer ? Error(ErrorCode::internal, "it has not ended") : answer->error());
  }
  if (left.empty()) return monitor.reports();
  return fail(ErrorCode::stop_error,
              "actors " + ref().name().to_string() + ": " + std::to_string(left.size()) + " of " +
                  std::to_string(size()) + " have not ended: " + describe_by_rank(left));
}

}  // namespace meshbus
