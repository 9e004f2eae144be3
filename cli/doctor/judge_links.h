#pragma once

#include <vector>

#include "cli/doctor/exam.h"
#include "cli/doctor/finding.h"

namespace meshbus::cli::doctor {

/// Which hosts do not reach each other, and which only slowly. A host that is bad with several
/// others is one finding, not one for each link. Pure.
std::vector<Finding> judge_links(const SiteExam& site);

/// Whether a way over the network took so long that it is worth another look. Pure.
bool looks_slow(const SiteExam& site, const LinkExam& link);

/// Whether one of two hosts does not know the other's key. Pure.
bool is_wrong_key(ErrorCode code);

/// Whether nothing gets through, for another reason than keys or addresses. Pure.
bool is_cut(const LinkExam& link);

}  // namespace meshbus::cli::doctor
