#include "agent/proc/actors/actor_runner.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/base/log.h"

namespace meshbus::mesh_proc {

std::string ActorRunner::name_of(const Actor& actor, std::uint64_t message) {
  const auto row = actor.rows_.find(message);
  return (row == actor.rows_.end() ? MessageType::from_key(message) : row->second.type).to_string();
}

ActorRunner::Messages ActorRunner::messages_of(const Actor& actor, Messages& of_type) {
  const auto& rows = actor.rows_;
  const auto is_same = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (of_type == nullptr ||
      !std::equal(rows.begin(), rows.end(), of_type->begin(), of_type->end(), is_same)) {
    auto names = std::make_shared<MessageNames>();
    for (const auto& [key, row] : rows) names->emplace(key, row.type.to_string());
    of_type = std::move(names);
  }
  return of_type;
}

Error ActorRunner::no_handler(const ActorId& actor, std::uint64_t message,
                              const MessageNames& messages) {
  constexpr std::size_t kMostNamed = 12;
  std::vector<std::string> names;
  for (const auto& [key, name] : messages) names.push_back(name);
  std::sort(names.begin(), names.end());
  std::string known;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i)
    known += (i == 0 ? "; it has " : ", ") + names[i];
  if (names.size() > kMostNamed)
    known += " and " + std::to_string(names.size() - kMostNamed) + " more";
  return {ErrorCode::no_such_port, "actor " + actor.to_string() + " has no handler for message " +
                                       MessageType::from_key(message).to_string() +
                                       (names.empty() ? "; it has none" : known)};
}

std::optional<Fault> ActorRunner::perform(ActorCell& cell, ActorStep& step) const {
  std::string what;
  try {
    switch (step.kind) {
      case ActorStep::Kind::construct: construct(cell); break;
      case ActorStep::Kind::task:
        what = step.task.name;
        return step.task.run(*cell.actor, cell.context);
      case ActorStep::Kind::letter:
        what = name_of(*cell.actor, step.letter.message);
        handle(cell, step.letter);
        break;
      case ActorStep::Kind::close:
        if (cell.actor != nullptr) cell.actor->on_stop(cell.context, cell.life.reason());
        cell.actor.reset();
        break;
    }
    return std::nullopt;
  } catch (...) {
    auto fault = describe(std::current_exception(), what);
    if (step.kind == ActorStep::Kind::close) fault.error = "on_stop: " + fault.error;
    return fault;
  }
}

void ActorRunner::construct(ActorCell& cell) const {
  auto actor = factory_(cell.type_name, cell.context, cell.params);
  if (actor == nullptr)
    throw std::runtime_error("the factory of type " + cell.type_name + " made nothing");
  if (!actor->mistake_.empty()) throw std::runtime_error(actor->mistake_);
  cell.actor = std::move(actor);
}

void ActorRunner::handle(ActorCell& cell, const Letter& letter) const {
  if (letter.deadline && *letter.deadline < std::chrono::steady_clock::now())
    return;  // nobody waits any more
  const auto row = cell.actor->rows_.find(letter.message);
  if (row == cell.actor->rows_.end()) {
    // Its sender has been told that it is taken: the constructor had not returned by then, or the
    // actor sent it to itself.
    Messages unshared;
    const auto error = no_handler(cell.id, letter.message, *messages_of(*cell.actor, unshared));
    if (letter.is_call()) return answer_(letter.envelope, letter.header, fail(error));
    static log::Limited limited(1);
    return limited.warn("a message is dropped: " + error.detail());
  }
  ActorMessage message;
  message.body = letter.bytes();
  message.type = row->second.type;
  message.is_call = letter.is_call();
  message.source_proc = letter.envelope.source_proc();
  message.source_host = letter.envelope.source_host();
  message.source_actor = letter.from;
  message.deadline = letter.deadline;
  message.point = letter.point;
  message.owner = &letter.owner;
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
      answer_(letter.envelope, letter.header,
              fail(ErrorCode::call_error, "actor " + cell.id.to_string() + " has failed: " + text));
    throw;
  }
  cell.current = nullptr;
  if (letter.is_call()) {
    if (cell.is_deferred) return;
    if (!result && result.error().code() != ErrorCode::call_error)
      result = fail(ErrorCode::call_error, result.error().to_string());
    answer_(letter.envelope, letter.header, std::move(result));
  } else if (!result) {
    log::warn("actor " + cell.id.to_string() + ", message " + row->second.type.to_string() + ": " +
              result.error().to_string());
  }
}

}  // namespace meshbus::mesh_proc
