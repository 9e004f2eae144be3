#include "meshbus/actor.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "agent/proc/actors/actor_system.h"
#include "common/wire/actor_body.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

using mesh_proc::ActorCell;
using mesh_proc::ActorSystem;

/// What a caller's time is cut to, so that adding it to now cannot overflow.
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 20);

std::chrono::milliseconds clamp(std::chrono::milliseconds time) {
  return std::clamp(time, std::chrono::milliseconds(0), kLongest);
}

}  // namespace

void Actor::on_stop(ActorContext&, const std::string&) {}

bool Actor::on_child_failed(ActorContext&, const ActorFailure&) {
  return false;
}

void Actor::add(const MessageType& type, Handler handler) {
  const auto [row, is_new] = rows_.try_emplace(type.key(), Row{type, std::move(handler)});
  if (!is_new)
    mistake_ = "two handlers for one message: " + row->second.type.to_string() + " and " +
               type.to_string();
}

// --- Replies. ---

struct ActorReply::State {
  State(ActorSystem& owner, const wire::Envelope& call_envelope,
        const wire::CallHeader& call_header, bool is_wanted)
      : system(owner), envelope(call_envelope), header(call_header), is_open(is_wanted) {}
  ~State() {
    give(meshbus::fail(ErrorCode::call_error, "the actor let go of the call without an answer"));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void give(Result<std::string> answer) {
    if (is_open.exchange(false)) system.answer(envelope, header, std::move(answer));
  }

  ActorSystem& system;
  wire::Envelope envelope;
  wire::CallHeader header;
  std::atomic<bool> is_open;
};

void ActorReply::answer(std::string body) const {
  state_->give(std::move(body));
}

void ActorReply::fail(const Error& error) const {
  state_->give(meshbus::fail(error.code() == ErrorCode::call_error
                                 ? error
                                 : Error(ErrorCode::call_error, error.to_string())));
}

// --- Contexts. ---

const ActorId& ActorContext::id() const noexcept {
  return cell_.id;
}
std::uint64_t ActorContext::rank() const noexcept {
  return cell_.rank;
}
Proc& ActorContext::proc() const noexcept {
  return system_.proc();
}
ActorMeshRef ActorContext::peers() const {
  return {proc().mesh(), cell_.id.name()};
}
std::optional<ActorId> ActorContext::parent() const {
  return cell_.parent == nullptr ? std::nullopt : std::optional(cell_.parent->id);
}

Result<void> ActorContext::send(const ActorId& to, const MessageType& type, std::string_view body) {
  return system_.outside().send(to.proc(), actor_port(to),
                                encode_actor_body(type, cell_.port, body));
}

void ActorContext::call_async(const ActorId& to, const MessageType& type, std::string_view body,
                              std::chrono::milliseconds deadline,
                              std::function<void(ActorContext&, Result<std::string>)> then) {
  system_.call_async(cell_, to, type, body, clamp(deadline), std::move(then));
}

Result<std::uint64_t> ActorContext::send_after(std::chrono::milliseconds delay,
                                               const MessageType& type, std::string_view body) {
  return system_.send_after(cell_, clamp(delay), type, body);
}

void ActorContext::cancel(std::uint64_t delayed) {
  system_.cancel(cell_, delayed);
}

Result<ActorId> ActorContext::spawn(const std::string& type, std::string_view params) {
  return system_.spawn_child(cell_, type, params);
}

void ActorContext::stop_child(const ActorId& child, const std::string& reason,
                              std::chrono::milliseconds grace) {
  system_.stop_child(cell_, child, reason, clamp(grace));
}

void ActorContext::stop(const std::string& reason, std::chrono::milliseconds grace) {
  system_.stop(cell_, reason, clamp(grace));
}

ActorReply ActorContext::defer() {
  return system_.make_reply(cell_);
}

// --- What they ask of the system, on a thread of the pool. ---

namespace mesh_proc {

Result<ActorId> ActorSystem::spawn_child(ActorCell& parent, const std::string& type,
                                         std::string_view params) {
  const Lock lock(mutex_);
  if (!parent.life.is_open())
    return fail(ErrorCode::actor_spawn_error, "actor " + parent.id.to_string() + " " +
                                                  parent.life.words() +
                                                  ": it gets no more children");
  const auto name = parent.id.name();
  auto made = make(type, name, ++next_pid_[name.to_string()], std::string(params));
  if (!made) return fail(std::move(made).error());
  auto& child = **made;
  child.rank = parent.rank;
  child.parent = parent.shared_from_this();
  parent.children.push_back(*made);
  return child.id;
}

void ActorSystem::stop_child(ActorCell& parent, const ActorId& child, const std::string& reason,
                             std::chrono::milliseconds grace) {
  const Lock lock(mutex_);
  const auto found = std::find_if(parent.children.begin(), parent.children.end(),
                                  [&](const auto& one) { return one->id == child; });
  if (found != parent.children.end()) begin_stop(**found, reason, Clock::now() + grace);
}

void ActorSystem::stop(ActorCell& cell, const std::string& reason,
                       std::chrono::milliseconds grace) {
  const Lock lock(mutex_);
  begin_stop(cell, reason, Clock::now() + grace);
}

Result<std::uint64_t> ActorSystem::send_after(ActorCell& cell, std::chrono::milliseconds delay,
                                              const MessageType& type, std::string_view body) {
  const Lock lock(mutex_);
  if (cell.delayed >= cell.mailbox.limits().count)
    return fail(ErrorCode::queue_full, "actor " + cell.id.to_string() + ": " +
                                           std::to_string(cell.delayed) +
                                           " delayed messages wait already");
  ++cell.delayed;
  const auto number = next_delayed_++;
  Letter letter{.message = type.key(), .from = cell.port, .body = std::string(body)};
  letter.envelope.mutate_source_proc(self_.key());
  letter.envelope.mutate_source_host(self_.host().key());
  letter.envelope.mutate_kind(wire::Kind::message);
  later([this, self = cell.shared_from_this(), number, due = Clock::now() + delay,
         letter = std::move(letter)]() mutable {
    self->timers[number] =
        reactor_.at(due, [this, self, number, letter = std::move(letter)]() mutable {
          self->timers.erase(number);
          const Lock timer_lock(mutex_);
          --self->delayed;
          if (!self->life.is_open()) return;
          self->mailbox.push_always(std::move(letter));
          schedule(*self);
        });
  });
  return number;
}

void ActorSystem::cancel(ActorCell& cell, std::uint64_t delayed) {
  const Lock lock(mutex_);
  later([this, self = cell.shared_from_this(), delayed] {
    const auto found = self->timers.find(delayed);
    if (found == self->timers.end()) return;
    reactor_.cancel(found->second);
    self->timers.erase(found);
    const Lock timer_lock(mutex_);
    --self->delayed;
  });
}

void ActorSystem::call_async(ActorCell& cell, const ActorId& to, const MessageType& type,
                             std::string_view body, std::chrono::milliseconds deadline,
                             std::function<void(ActorContext&, Result<std::string>)> then) {
  outside_.call(to.proc(), actor_port(to), encode_actor_body(type, cell.port, body), deadline,
                [this, weak = cell.weak_from_this(), then = std::move(then),
                 name = "the answer to " + type.to_string() + " of " +
                        to.to_string()](Result<std::string> answer) mutable {
                  const auto self = weak.lock();
                  if (self == nullptr) return;
                  const Lock lock(mutex_);
                  if (self->life.is_ended() || self->is_closing) return;
                  self->tasks.push_back({name, [then = std::move(then), answer = std::move(answer)](
                                                   Actor&, ActorContext& context) mutable {
                                           then(context, std::move(answer));
                                           return std::optional<Fault>();
                                         }});
                  schedule(*self);
                });
}

ActorReply ActorSystem::make_reply(ActorCell& cell) {
  const Letter* letter = cell.current;
  const bool is_wanted =
      letter != nullptr && letter->is_call() && !std::exchange(cell.is_deferred, true);
  return ActorReply(std::make_shared<ActorReply::State>(
      *this, letter == nullptr ? wire::Envelope() : letter->envelope,
      letter == nullptr ? wire::CallHeader() : letter->header, is_wanted));
}

}  // namespace mesh_proc
}  // namespace meshbus
