#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cli/run/job_stacks.h"
#include "cli/run/role_view.h"
#include "cli/run/stall_judge.h"

namespace meshbus::cli {

/// Carries out --stall-after: asks the hosts what the ranks use, and looks where they are when all
/// stand still.
class JobStall {
 public:
  JobStall(std::chrono::milliseconds limit, StallJudge::Time now)
      : limit_(limit), judge_(limit, now) {}

  StallJudge::Time next_look() const { return judge_.next_look(); }
  /// To be called when next_look() has come. When the job stands still: it has been said on stderr
  /// where, and this is that in one line. Blocks, for as long as hosts do not answer, 2 s at most,
  /// and for the look.
  std::optional<std::string> look(Context& context, HostMesh& hosts, const RoleViews& roles,
                                  JobStacks& stacks);

 private:
  std::chrono::milliseconds limit_;
  StallJudge judge_;
};

}  // namespace meshbus::cli
