#pragma once

#include <cstdint>
#include <vector>

#include "agent/host/model/proc_table.h"
#include "agent/host/streams/output_spool.h"

namespace meshbus::host {

/// Which procs have a slot in the spool. A slot is freed in two steps: a new agent believes the
/// ledger, so the ledger must say first that the proc has none. Lives on the reactor's thread.
class SpoolSlots {
 public:
  SpoolSlots(OutputSpool& spool, ProcTable& table) : spool_(spool), table_(table) {}

  void take(Proc& proc) { proc.output.slot = spool_.take_slot(); }
  /// The proc needs none any more.
  void release(Proc& proc);
  /// Releases it when the proc is reported and its owner has taken all that it wrote.
  void release_if_done(Proc& proc);
  /// The ledger is written: frees what was released.
  void free_released();

 private:
  OutputSpool& spool_;
  ProcTable& table_;
  std::vector<std::uint32_t> released_;
};

}  // namespace meshbus::host
