#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "client/controller/question_state.h"
#include "meshbus/address.h"
#include "wire/actors_generated.h"
#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// What is known of the actor of one name in one proc. Pure.
struct ActorRecord {
  enum class Standing {
    unknown,  ///< Its proc has not said yet whether it has the actor.
    absent,   ///< Its proc has no such actor.
    live,
    unheard,  ///< It lived when its host was last heard.
    stopped,
    failed,
    never,    ///< Its proc has ended, and had no such actor.
    unasked,  ///< Its proc has ended before it said whether it had the actor.
  };
  static constexpr std::size_t kNumStandings = 8;

  /// The end of the actor that follows from the end of its proc.
  struct End {
    wire::RankState state;
    std::shared_ptr<wire::ExitReportT> exit_report;
  };

  HostAddr host = HostAddr::local(0);
  /// As told; with its exit report when it has ended.
  wire::RankState proc;
  std::shared_ptr<const wire::ExitReportT> proc_exit_report;
  /// Whether it has the actor is known.
  bool is_answered = false;
  /// The state of the actor in the terms of procs; none = there is no actor.
  std::optional<wire::RankState> state;
  std::shared_ptr<const wire::ExitReportT> exit_report;
  /// What the actor said itself.
  std::shared_ptr<const wire::ActorStateT> actor;
  Standing standing = Standing::unknown;
  QuestionState stream;
  QuestionState stop;
  /// query_failed was reported.
  bool has_failed = false;

  bool has_ended() const;
  Standing find_standing(bool is_host_silent) const;
  /// Whether its proc can be asked, and has more to say.
  bool can_ask(bool is_host_silent) const;
  /// Its state as the actor tells it; nothing for a status that this release does not know.
  std::optional<End> end_or_state(const wire::ActorStateT& said, std::uint64_t rank) const;
  End end_with_proc(std::uint64_t rank) const;
};

}  // namespace meshbus
