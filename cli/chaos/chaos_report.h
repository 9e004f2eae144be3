#pragma once

#include <string>

#include "cli/chaos/chaos_book.h"

/// What meshbus chaos says at its start and at its end. Pure.
namespace meshbus::cli {

/// The schedule, a line for each deed.
std::string chaos_plan_text(const ChaosSpec& spec, const std::vector<ChaosDeed>& plan);
/// What was done and what was said of it, as a table.
std::string chaos_report_text(const ChaosBook& book);
/// Both as JSON: share/schemas/chaos.json. `is_dry`: nothing was done, the plan says what would be.
std::string chaos_report_json(const ChaosSpec& spec, const std::vector<ChaosDeed>& plan,
                              const ChaosBook& book, bool is_dry, bool is_interrupted);

}  // namespace meshbus::cli
