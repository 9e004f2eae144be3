#include "cli/doctor/probe.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cli/doctor/facts_json.h"
#include "cli/doctor/gather_facts.h"
#include "cli/doctor/link_measure.h"
#include "cli/support/rank_json.h"
#include "common/base/exit_codes.h"
#include "meshbus/proc.h"

namespace meshbus::cli::doctor {
namespace {

Result<std::string> tell_time(Proc&, const Incoming&) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::to_string(std::chrono::nanoseconds(now).count());
}

Result<std::string> measure(Proc& proc, const Incoming& call) {
  const auto to = ProcId::parse(call.body);
  if (!to) return fail(to.error());
  return answer_text(measure_link(proc, *to));
}

}  // namespace

void be_probe() {
  if (!is_mesh_proc()) return;
  ProcProgram program;
  program
      .on(kFactsPort,
          [](Proc& proc, const Incoming&) -> Result<std::string> {
            return dump(facts_json(gather_facts(proc.id().host())), -1);
          })
      .on(kClockPort, tell_time)
      .on(kEchoPort, [](Proc&, const Incoming&) -> Result<std::string> { return std::string(); })
      .on(kMeasurePort, measure);
  bootstrap_or_die(program);
}

}  // namespace meshbus::cli::doctor
