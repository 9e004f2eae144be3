#include "client/src/base/status_limits.h"

namespace meshbus {

StatusWait::Limits limits_of(const WaitOptions& options) {
  StatusWait::Limits limits{.idle = options.idle};
  if (options.deadline != forever) limits.deadline = options.deadline;
  return limits;
}

Result<void> check_minimum(Status::Kind minimum) {
  if (minimum != Status::Kind::unknown) return {};
  return fail(ErrorCode::out_of_range,
              "nothing reaches status Unknown; wait for one of NotExist, Initializing, Running, "
              "Stopping, Stopped");
}

bool is_settled(const StatusWait& wait, std::chrono::steady_clock::time_point now) {
  return wait.check(now) == StatusWait::State::complete ||
         count_missing(wait.statuses(), Status::Kind::stopped) == 0;
}

}  // namespace meshbus
