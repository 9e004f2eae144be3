#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "cli/doctor/exam.h"
#include "cli/doctor/finding.h"

namespace meshbus::cli::doctor {

/// What `meshbus doctor` prints: a line for each finding; or one line that says that there is none.
std::string report_text(const SiteExam& site, const std::vector<Finding>& findings);
/// share/schemas/doctor.json
nlohmann::ordered_json report_json(const SiteExam& site, const std::vector<Finding>& findings);

}  // namespace meshbus::cli::doctor
