#include "cli/run/restart_settings.h"

#include <cstdio>

#include "cli/support/duration_text.h"
#include "common/base/quantity.h"
#include "meshbus/context.h"

namespace meshbus::cli {
namespace {

std::string seconds_of(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, time.count() < 10'000 ? "%.1f s" : "%.0f s",
                static_cast<double>(time.count()) / 1000);
  return text;
}

}  // namespace

Result<void> parse_restart(std::string_view text, RestartPolicy& policy) {
  const auto colon = text.find(':');
  const auto word = text.substr(0, colon);
  const auto bad = [&] {
    return fail(
        ErrorCode::parse_error,
        "takes never, on-failure, always, or with a number of restarts on-failure:3, not '" +
            std::string(text) + "'");
  };
  RestartPolicy::On on = RestartPolicy::On::never;
  if (word == "on-failure") {
    on = RestartPolicy::On::failure;
  } else if (word == "always") {
    on = RestartPolicy::On::always;
  } else if (word != "never" || colon != std::string_view::npos) {
    return bad();
  }
  policy.budget.reset();
  if (colon != std::string_view::npos) {
    policy.budget = parse_whole(text.substr(colon + 1));
    if (!policy.budget) return bad();
  }
  policy.on = on;
  return {};
}

Result<Gang> parse_gang(std::string_view text) {
  if (text == "one") return Gang::one;
  if (text == "all") return Gang::all;
  if (text == "rest") return Gang::rest;
  return fail(ErrorCode::parse_error, "takes one, all or rest, not '" + std::string(text) + "'");
}

Result<void> parse_restart_delay(std::string_view text, RestartPolicy& policy) {
  const auto colon = text.find(':');
  for (const auto part :
       {text.substr(0, colon), colon == std::string_view::npos ? "0" : text.substr(colon + 1)}) {
    if (auto problem = duration_problem(std::string(part));
        parse_duration(part) && !problem.empty())
      return fail(ErrorCode::parse_error, std::move(problem));
  }
  const auto first = parse_duration(text.substr(0, colon));
  const auto longest =
      colon == std::string_view::npos ? first : parse_duration(text.substr(colon + 1));
  if (!first || !longest || *longest < *first)
    return fail(ErrorCode::parse_error,
                "takes a time, or the first and the longest one, like 1s:30s, not '" +
                    std::string(text) + "'");
  policy.delay = *first;
  policy.max_delay =
      colon == std::string_view::npos ? std::max(*first, policy.max_delay) : *longest;
  return {};
}

Result<std::vector<int>> parse_codes(std::string_view text) {
  std::vector<int> codes;
  for (;;) {
    const auto comma = text.find(',');
    const auto code = parse_whole<int>(text.substr(0, comma));
    if (!code || *code < 0 || *code > 255)
      return fail(ErrorCode::parse_error,
                  "takes exit codes from 0 to 255 like 75,137 (128 + the number of a signal)");
    codes.push_back(*code);
    if (comma == std::string_view::npos) return codes;
    text.remove_prefix(comma + 1);
  }
}

std::string words_of(const RestartReport& restart) {
  std::uint64_t count = 0;
  for (const auto& block : restart.ranks) count += block.size();
  std::string text = restart.cause.describe() + "; ";
  if (restart.is_move) {
    text += count == 1 ? "it moves" : "ranks " + to_string(restart.ranks) + " move";
    text += " to a spare host";
    if (restart.delay == forever) return text + " once the end of that host is proved";
    if (restart.delay.count() > 0)
      text += " in " + seconds_of(restart.delay) + ", when its lease there is over";
    return text;
  }
  text += count == 1 ? "it is" : "ranks " + to_string(restart.ranks) + " are";
  text += " started anew in " + seconds_of(restart.delay) + " (restart " +
          std::to_string(restart.restart);
  if (restart.budget) text += " of " + std::to_string(*restart.budget);
  return text + ")";
}

}  // namespace meshbus::cli
