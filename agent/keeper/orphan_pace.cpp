#include "agent/keeper/orphan_pace.h"

#include <algorithm>

namespace meshbus::keeper {

void OrphanPace::on_child_ended() {
  next_look_ = std::min(next_look_, not_before_);
  has_dead_child_ = true;
}

void OrphanPace::after_look(Time begin, Time end, bool is_clean, bool has_reaped,
                            bool is_spawning) {
  took_ = end - begin;
  pause_ = is_clean || has_reaped ? kFirstPause : std::min(2 * pause_, kLastPause);
  if (is_clean) {
    const Duration rest = std::max(4 * took_, is_spawning ? kBusyPause : Duration(0));
    not_before_ = next_look_ = end + rest;
    return;
  }
  not_before_ = end;
  next_look_ = has_reaped ? end : end + pause_;  // or earlier, by SIGCHLD
}

void OrphanPace::after_reap(Time now, bool has_dead_child, bool has_more) {
  has_dead_child_ = has_dead_child;
  next_reap_ = has_more ? now : now + kReapPause;
}

}  // namespace meshbus::keeper
