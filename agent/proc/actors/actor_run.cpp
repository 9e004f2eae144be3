// What a thread of the pool does with an actor, and the actor there.
#include <algorithm>
#include <utility>

#include "agent/proc/actors/actor_system.h"
#include "common/address/actor_words.h"
#include "common/base/log.h"
#include "common/wire/actor_body.h"

namespace meshbus::mesh_proc {

void ActorCell::run() {
  system.run(*this);
}

void ActorSystem::run(ActorCell& cell) {
  Slice slice(Clock::now());
  for (;;) {
    auto step = next_step(cell);
    // What was said until now does not wait for what comes.
    if (step && is_unheard_.exchange(false)) reactor_.wake();
    if (!step || !settle(cell, *step, runner_.perform(cell, *step))) return;
    if (!slice.is_over(Clock::now())) continue;
    // Still scheduled: behind those that wait.
    pool_.submit(cell.shared_from_this());
    return;
  }
}

void ActorSystem::begin_step(ActorCell& cell, std::string name, Time now) {
  cell.busy.emplace(std::move(name), now);
  busy_.push_back(&cell);
}

std::optional<ActorStep> ActorSystem::next_step(ActorCell& cell) {
  const auto now = Clock::now();
  const Lock lock(mutex_);
  const auto status = cell.life.status();
  if (!cell.life.is_ended()) {
    if (cell.actor == nullptr && status == Status::Kind::initializing) {
      begin_step(cell, {}, now);
      return ActorStep{ActorStep::Kind::construct};
    }
    if (cell.actor != nullptr && !cell.is_closing && !cell.tasks.empty()) {
      ActorStep step{ActorStep::Kind::task, std::move(cell.tasks.front())};
      cell.tasks.pop_front();
      begin_step(cell, step.task.name, now);
      return step;
    }
    if (cell.actor != nullptr && !cell.is_closing && !cell.mailbox.is_empty()) {
      ActorStep step{ActorStep::Kind::letter, {}, std::move(*cell.mailbox.pop())};
      begin_step(cell, ActorRunner::name_of(*cell.actor, step.letter.message), now);
      return step;
    }
    if (status == Status::Kind::stopping && !cell.has_live_children()) {
      cell.is_closing = true;
      drop_mail(cell);
      cell.tasks.clear();
      begin_step(cell, {}, now);
      return ActorStep{ActorStep::Kind::close};
    }
  }
  cell.is_scheduled = false;
  return std::nullopt;
}

bool ActorSystem::settle(ActorCell& cell, const ActorStep& step, std::optional<Fault> fault) {
  const auto now = std::chrono::system_clock::now();
  bool is_over = false;
  {
    const Lock lock(mutex_);
    cell.busy.reset();
    std::erase(busy_, &cell);
    if (step.kind == ActorStep::Kind::letter) ++cell.handled;
    if (cell.actor != nullptr && ActorRunner::has_more(*cell.actor, cell.messages))
      cell.messages = ActorRunner::messages_of(*cell.actor, messages_[cell.type_name]);
    if (cell.life.is_ended()) {
      log::warn("actor " + cell.id.to_string() + ", which was given up, has come back");
    } else if (fault) {
      end_failed(cell, std::move(*fault));
    } else if (step.kind == ActorStep::Kind::construct) {
      cell.has_run = true;
      cell.params.shrink_to_fit();
      if (cell.life.on_running(now)) changed(cell);
    } else if (step.kind == ActorStep::Kind::close && cell.life.on_stopped(now)) {
      on_ended(cell);
    }
    is_over = cell.life.is_ended();
    if (is_over) cell.is_scheduled = false;
  }
  if (is_over) cell.actor.reset();
  return !is_over;
}

// --- What an actor asks of the system. ---

Result<ActorId> ActorSystem::spawn_child(ActorCell& parent, const std::string& type,
                                         std::string_view params) {
  std::string kept(params);  // without the lock: it may be large
  const Lock lock(mutex_);
  if (!parent.life.is_open())
    return fail(ErrorCode::actor_spawn_error, "actor " + parent.id.to_string() + " " +
                                                  parent.life.words() +
                                                  ": it gets no more children");
  const auto name = parent.id.name();
  auto made = make(type, name, table_.next_pid(name.to_string()), std::move(kept));
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
                             const BodyParts& body, std::chrono::milliseconds deadline,
                             std::function<void(ActorContext&, Result<std::string>)> then) {
  outside_.call(to.proc(), actor_port(to), ActorBodyParts(type, cell.port, body), deadline,
                [this, weak = cell.weak_from_this(), then = std::move(then), to, type,
                 name = "the answer to " + type.to_string() + " of " +
                        to.to_string()](Result<std::string> answer) mutable {
                  if (!answer) answer = fail(in_names(answer.error(), to, type));
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

void ActorSystem::fail_later(ActorCell& cell, std::string why) {
  const Lock lock(mutex_);
  if (cell.life.is_ended() || cell.is_closing) return;
  cell.tasks.push_back({"what a message began", [why = std::move(why)](Actor&, ActorContext&) {
                          return std::optional<Fault>(Fault{.error = why});
                        }});
  schedule(cell);
}

}  // namespace meshbus::mesh_proc
