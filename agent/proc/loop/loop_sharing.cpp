#include "agent/proc/loop/loop_sharing.h"

namespace meshbus::mesh_proc {

bool LoopSharing::lead(Lock& lock) {
  if (!has_loop()) return false;
  if (is_led_) {
    // The leader may sleep over what this thread has left to it.
    wake_();
    has_follower_ = true;
    return false;
  }
  is_led_ = true;
  has_follower_ = false;
  lock.unlock();
  turn_();
  lock.lock();
  is_led_ = false;
  return has_follower_;
}

}  // namespace meshbus::mesh_proc
