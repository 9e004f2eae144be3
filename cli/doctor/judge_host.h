#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cli/doctor/exam.h"
#include "cli/doctor/finding.h"

namespace meshbus::cli::doctor {

/// What is wrong with one host, without regard to the others. `now`: Unix seconds. `is_alone`: no
/// other machine takes part, so that nobody needs to find this one by its name. Pure.
std::vector<Finding> judge_host(const HostExam& host, std::int64_t now, bool is_alone);

}  // namespace meshbus::cli::doctor
