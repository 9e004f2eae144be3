#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/proc/actors/actor_cell.h"
#include "agent/proc/actors/actor_life.h"
#include "agent/proc/actors/mailbox.h"
#include "meshbus/actor.h"
#include "meshbus/result.h"
#include "wire/frame_generated.h"

namespace meshbus::mesh_proc {

/// One thing that a thread does with an actor.
struct ActorStep {
  enum class Kind : std::uint8_t { construct, task, letter, close };
  Kind kind;
  ActorCell::Task task = {};
  Letter letter = {};
};

/// Calls the program's own code for an actor: its factory, its handlers, on_stop(). What that
/// throws comes back as a value. On the thread that has the actor; it takes no lock.
class ActorRunner {
 public:
  using Factory = std::function<std::unique_ptr<Actor>(
      const std::string& type, ActorContext& context, const std::string& params)>;
  using Answer = std::function<void(const wire::Envelope& call, const wire::CallHeader& header,
                                    Result<std::string> answer)>;
  ActorRunner(Factory factory, Answer answer)
      : factory_(std::move(factory)), answer_(std::move(answer)) {}

  /// Returns what went wrong, if anything: the actor has failed.
  std::optional<Fault> perform(ActorCell& cell, ActorStep& step) const;
  /// What the actor calls that message.
  static std::string name_of(const Actor& actor, std::uint64_t message);
  using Messages = std::shared_ptr<const MessageNames>;
  /// Which messages it has handlers for. `of_type`: what the last actor of its type had said, or
  /// null; all that say the same share one.
  static Messages messages_of(const Actor& actor, Messages& of_type);
  /// Whether it has said more since; handlers are only ever added. `before`: null at first.
  static bool has_more(const Actor& actor, const Messages& before) {
    return before == nullptr || before->size() != actor.rows_.size();
  }
  /// An actor has no handler for that one, but for those.
  static Error no_handler(const ActorId& actor, std::uint64_t message,
                          const MessageNames& messages);

 private:
  void construct(ActorCell& cell) const;
  void handle(ActorCell& cell, const Letter& letter) const;

  const Factory factory_;
  const Answer answer_;
};

}  // namespace meshbus::mesh_proc
