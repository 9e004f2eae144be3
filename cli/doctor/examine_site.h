#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "cli/doctor/exam.h"
#include "meshbus/client.h"

namespace meshbus::cli::doctor {

/// Hosts that are to reach each other, and how they are reached from here.
struct ExamGroup {
  using MakeContext = std::function<Result<std::shared_ptr<Context>>(const HostAddr&)>;
  std::vector<HostAddr> hosts;
  MakeContext make_context;
};

/// Examines this machine, if that is wanted, and all hosts at once, then the links within each
/// group, in rounds. `limit` is for each stage of one host, so a silent host costs it once and one
/// that falls silent meanwhile a few times. The first host of the result is this machine.
SiteExam examine_site(const std::vector<ExamGroup>& groups, std::chrono::milliseconds limit,
                      bool looks_here);

}  // namespace meshbus::cli::doctor
