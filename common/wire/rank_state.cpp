#include "common/wire/rank_state.h"

namespace meshbus {

bool is_terminal(wire::ProcState state) {
  return state == wire::ProcState::stopped || state == wire::ProcState::killed ||
         state == wire::ProcState::failed;
}

bool is_failure(const wire::RankState& state) {
  switch (state.state()) {
    case wire::ProcState::stopped:
      return state.exit_code() != 0 && state.step() == wire::StopStep::none;
    case wire::ProcState::killed: return state.step() == wire::StopStep::none;
    case wire::ProcState::failed: return true;
    default: return false;
  }
}

}  // namespace meshbus
