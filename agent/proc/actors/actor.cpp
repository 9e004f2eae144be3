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
  State(ActorSystem& owner, ActorCell& of, const wire::Envelope& call_envelope,
        const wire::CallHeader& call_header, bool is_wanted)
      : system(owner),
        cell(of.weak_from_this()),
        envelope(call_envelope),
        header(call_header),
        is_open(is_wanted) {}
  ~State() {
    give(meshbus::fail(ErrorCode::call_error, "the actor let go of the call without an answer"));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void give(Result<std::string> answer) {
    if (is_open.exchange(false)) system.answer(envelope, header, std::move(answer));
  }

  ActorSystem& system;
  std::weak_ptr<ActorCell> cell;
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

void ActorReply::fail_actor(const std::string& why) const {
  if (const auto cell = state_->cell.lock()) state_->system.fail_later(*cell, why);
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

Result<void> ActorContext::send(const ActorId& to, const MessageType& type, const BodyParts& body) {
  return system_.outside().send(to.proc(), actor_port(to), ActorBodyParts(type, cell_.port, body));
}

void ActorContext::call_async(const ActorId& to, const MessageType& type, const BodyParts& body,
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

std::shared_ptr<ActorContext> ActorContext::share() {
  return {cell_.shared_from_this(), this};
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
  const auto* letter = cell_.current;
  const bool is_wanted =
      letter != nullptr && letter->is_call() && !std::exchange(cell_.is_deferred, true);
  return ActorReply(std::make_shared<ActorReply::State>(
      system_, cell_, letter == nullptr ? wire::Envelope() : letter->envelope,
      letter == nullptr ? wire::CallHeader() : letter->header, is_wanted));
}

}  // namespace meshbus
