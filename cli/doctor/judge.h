#pragma once

#include <vector>

#include "cli/doctor/exam.h"
#include "cli/doctor/finding.h"

namespace meshbus::cli::doctor {

/// What is wrong with a set of hosts: errors first, one finding for all hosts that have the same.
/// Nothing: they are sound. Pure.
std::vector<Finding> judge(const SiteExam& site);

}  // namespace meshbus::cli::doctor
