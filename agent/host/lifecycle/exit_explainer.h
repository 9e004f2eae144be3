#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "agent/host/lifecycle/error_files.h"
#include "agent/host/lifecycle/memory_kills.h"
#include "agent/host/model/mesh.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {

/// Makes exit reports: how a proc ended, through whom, and as a consequence of what (spec 4.9).
/// Lives on the reactor's thread.
class ExitExplainer {
 public:
  ExitExplainer(MemoryKills memory, ErrorFiles errors)
      : memory_(std::move(memory)), errors_(std::move(errors)) {}

  /// The exit report of a proc that has ended. Once per proc: each kill that the kernel counts for
  /// want of memory explains one end.
  std::unique_ptr<wire::ExitReportT> report(const Proc& proc);

 private:
  void explain(const Proc& proc, wire::ExitReportT& report);
  void explain_end(const Proc& proc, const ProcEnd& end, wire::ExitReportT& report);

  MemoryKills memory_;
  ErrorFiles errors_;
  /// What was found out about the end of a process with its first proc, by pid and time: procs that
  /// share a process have one end.
  std::map<std::pair<std::uint32_t, std::int64_t>, OutOfMemory> shared_ends_;
};

}  // namespace meshbus::host
