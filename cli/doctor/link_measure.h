#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "cli/doctor/exam.h"
#include "meshbus/address.h"
#include "meshbus/proc.h"
#include "meshbus/result.h"

namespace meshbus::cli::doctor {

/// As a probe answers; errors keep their code.
std::string answer_text(const Result<Pace>& answer);
/// Errors: malformed_message, and the one in the answer.
Result<Pace> parse_answer(std::string_view text);

/// For all of measure_link(), when nothing is lost. With a slow peer the last calls add their
/// limit.
inline constexpr std::chrono::milliseconds kMeasureTime{600};
/// For one call of it: what takes longer counts as cut.
inline constexpr std::chrono::milliseconds kMeasureLimit{4000};

/// Calls the other probe: small bodies for round trips, large ones for the bandwidth. Errors: those
/// of Proc::call().
Result<Pace> measure_link(Proc& proc, const ProcId& to);

}  // namespace meshbus::cli::doctor
