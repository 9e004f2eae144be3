#include "agent/host/output/spool_slots.h"

#include <utility>

namespace meshbus::host {

void SpoolSlots::release(Proc& proc) {
  if (proc.output.slot != 0) released_.push_back(std::exchange(proc.output.slot, 0));
}

void SpoolSlots::release_if_done(Proc& proc) {
  const auto slot = proc.output.slot;
  if (slot == 0 || !proc.exit.is_reported()) return;
  for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
    const bool is_taken = spool_.released(slot, stream) >= spool_.written(slot, stream);
    if (proc.mesh.output.is_relaying && !is_taken) return;
  }
  release(proc);
  table_.touch(proc);
}

void SpoolSlots::free_released() {
  for (const auto slot : std::exchange(released_, {})) spool_.free_slot(slot);
}

}  // namespace meshbus::host
