#include "cli/run/run_job.h"

#include "cli/run/job.h"
#include "cli/run/say.h"
#include "cli/support/exit_codes.h"

namespace meshbus::cli {

int run_job(const RunArguments& arguments) {
  const auto order = JobOrder::make(arguments.roles);
  if (!order) {
    say(order.error().detail());
    return kUsage;
  }
  Run run{.arguments = arguments, .signals = {}, .hosts = {}, .timeout_at = {}, .hang = {}};
  while (true) {
    if (const auto code = Job(run, *order).run()) return *code;
  }
}

}  // namespace meshbus::cli
