// What a thread of the pool does with an actor.
#include <utility>

#include "agent/proc/actors/actor_system.h"
#include "common/base/log.h"

namespace meshbus::mesh_proc {

struct ActorSystem::Step {
  enum class Kind { construct, task, letter, close };
  Kind kind;
  ActorCell::Task task = {};
  Letter letter = {};
};

void ActorCell::run() {
  system.run(*this);
}

void ActorSystem::run(ActorCell& cell) {
  Slice slice(Clock::now());
  for (;;) {
    auto step = next_step(cell);
    // What was said until now does not wait for what comes.
    if (step && is_unheard_.exchange(false)) reactor_.wake();
    if (!step || !settle(cell, *step, perform(cell, *step))) return;
    if (!slice.is_over(Clock::now())) continue;
    // Still scheduled: behind those that wait.
    pool_.submit(cell.shared_from_this());
    return;
  }
}

std::optional<ActorSystem::Step> ActorSystem::next_step(ActorCell& cell) {
  const auto now = Clock::now();
  const Lock lock(mutex_);
  const auto status = cell.life.status();
  if (!cell.life.is_ended()) {
    if (cell.actor == nullptr && status == Status::Kind::initializing) {
      cell.busy.emplace("", now);
      return Step{Step::Kind::construct};
    }
    if (cell.actor != nullptr && !cell.is_closing && !cell.tasks.empty()) {
      Step step{Step::Kind::task, std::move(cell.tasks.front())};
      cell.tasks.pop_front();
      cell.busy.emplace(step.task.name, now);
      return step;
    }
    if (cell.actor != nullptr && !cell.is_closing && !cell.mailbox.is_empty()) {
      Step step{Step::Kind::letter, {}, std::move(*cell.mailbox.pop())};
      const auto row = cell.actor->rows_.find(step.letter.message);
      cell.busy.emplace((row == cell.actor->rows_.end() ? MessageType::from_key(step.letter.message)
                                                        : row->second.type)
                            .to_string(),
                        now);
      return step;
    }
    if (status == Status::Kind::stopping && !has_live_children(cell)) {
      cell.is_closing = true;
      drop_mail(cell);
      cell.tasks.clear();
      cell.busy.emplace("", now);
      return Step{Step::Kind::close};
    }
  }
  cell.is_scheduled = false;
  return std::nullopt;
}

std::optional<Fault> ActorSystem::perform(ActorCell& cell, Step& step) {
  std::string what;
  try {
    switch (step.kind) {
      case Step::Kind::construct: construct(cell); break;
      case Step::Kind::task: what = step.task.name; return step.task.run(*cell.actor, cell.context);
      case Step::Kind::letter: {
        const auto row = cell.actor->rows_.find(step.letter.message);
        what = (row == cell.actor->rows_.end() ? MessageType::from_key(step.letter.message)
                                               : row->second.type)
                   .to_string();
        handle(cell, step.letter);
        break;
      }
      case Step::Kind::close:
        what = "";
        if (cell.actor != nullptr) cell.actor->on_stop(cell.context, cell.life.reason());
        cell.actor.reset();
        break;
    }
    return std::nullopt;
  } catch (...) {
    auto fault = describe(std::current_exception(), what);
    if (step.kind == Step::Kind::close) fault.error = "on_stop: " + fault.error;
    return fault;
  }
}

void ActorSystem::construct(ActorCell& cell) {
  auto actor = types_.find(cell.type_name)->second.factory(cell.context, cell.params);
  if (actor == nullptr)
    throw std::runtime_error("the factory of type " + cell.type_name + " made nothing");
  if (!actor->mistake_.empty()) throw std::runtime_error(actor->mistake_);
  cell.actor = std::move(actor);
}

void ActorSystem::handle(ActorCell& cell, const Letter& letter) {
  if (letter.deadline && *letter.deadline < Clock::now()) return;  // nobody waits any more
  const auto row = cell.actor->rows_.find(letter.message);
  if (row == cell.actor->rows_.end()) {
    const Error error(ErrorCode::no_such_port,
                      "actor " + cell.id.to_string() + " has no handler for message " +
                          MessageType::from_key(letter.message).to_string());
    if (letter.is_call()) return answer(letter.envelope, letter.header, fail(error));
    static log::Limited limited(1);
    return limited.warn("a message is dropped: " + error.detail());
  }
  ActorMessage message;
  message.body = letter.body;
  message.type = row->second.type;
  message.is_call = letter.is_call();
  message.source_proc = letter.envelope.source_proc();
  message.source_host = letter.envelope.source_host();
  message.source_actor = letter.from;
  message.deadline = letter.deadline;
  message.point = letter.point;
  cell.current = &letter;
  cell.is_deferred = false;
  Result<std::string> result = fail(ErrorCode::call_error, "");
  try {
    result = row->second.handler(cell.context, message);
  } catch (...) {
    cell.current = nullptr;
    const auto fault = describe(std::current_exception(), {});
    std::string text = fault.error;
    for (const auto& cause : fault.causes) text += "; because: " + cause;
    if (letter.is_call() && !cell.is_deferred)
      answer(letter.envelope, letter.header,
             fail(ErrorCode::call_error, "actor " + cell.id.to_string() + " has failed: " + text));
    throw;
  }
  cell.current = nullptr;
  if (letter.is_call()) {
    if (cell.is_deferred) return;
    if (!result && result.error().code() != ErrorCode::call_error)
      result = fail(ErrorCode::call_error, result.error().to_string());
    answer(letter.envelope, letter.header, std::move(result));
  } else if (!result) {
    log::warn("actor " + cell.id.to_string() + ", message " + row->second.type.to_string() + ": " +
              result.error().to_string());
  }
}

bool ActorSystem::settle(ActorCell& cell, const Step& step, std::optional<Fault> fault) {
  const auto now = std::chrono::system_clock::now();
  bool is_over = false;
  {
    const Lock lock(mutex_);
    cell.busy.reset();
    if (step.kind == Step::Kind::letter) ++cell.handled;
    if (cell.life.is_ended()) {
      log::warn("actor " + cell.id.to_string() + ", which was given up, has come back");
    } else if (fault) {
      end_failed(cell, std::move(*fault));
    } else if (step.kind == Step::Kind::construct) {
      cell.has_run = true;
      cell.params.shrink_to_fit();
      if (cell.life.on_running(now)) changed(cell);
    } else if (step.kind == Step::Kind::close && cell.life.on_stopped(now)) {
      on_ended(cell);
    }
    is_over = cell.life.is_ended();
    if (is_over) cell.is_scheduled = false;
  }
  if (is_over) cell.actor.reset();
  return !is_over;
}

}  // namespace meshbus::mesh_proc
