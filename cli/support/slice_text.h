#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mesh/axes.h"
#include "mesh/text.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// What went wrong with a text that could be read, as if the parser had found it there.
inline Error found_at(std::string_view kind, std::size_t position, const Error& error) {
  return error.within(std::string(kind) + ": at " + std::to_string(position)).at(position);
}

/// The slice of a reference (to hosts, to procs) by one LABEL=I or LABEL=[B]:[E][:STEP]; keeps the
/// axis. Errors: parse_error, and those of Region::range, with the position in the text.
template <typename Ref>
Result<Ref> sliced(const Ref& mesh, std::string_view text) {
  text::Scanner scanner("slice", text);
  const auto at_label = scanner.position();
  const auto label = scanner.label();
  if (!label) return fail(label.error());
  if (auto equals = scanner.expect('='); !equals) return fail(std::move(equals).error());
  const auto at_range = scanner.position();
  const auto number = [&](std::string_view expected) -> Result<std::optional<std::uint64_t>> {
    if (scanner.at_end() || scanner.peek() == ':') return std::nullopt;
    const auto found = scanner.number(expected, axes::kMaxNumRanks);
    if (!found) return fail(found.error());
    return *found;
  };
  if (scanner.at_end()) return scanner.unexpected("an index or BEGIN:END:STEP");
  const auto begin = number("an index or BEGIN:END:STEP");
  if (!begin) return fail(begin.error());
  std::optional<std::uint64_t> end;
  std::uint64_t step = 1;
  if (scanner.at_end()) {
    end = **begin + 1;
  } else {
    if (auto colon = scanner.expect(':'); !colon) return fail(std::move(colon).error());
    const auto stop = number("an index to end before");
    if (!stop) return fail(stop.error());
    end = *stop;
    if (scanner.accept(':')) {
      const auto at_step = scanner.position();
      const auto found = scanner.number("a step", axes::kMaxNumRanks);
      if (!found) return fail(found.error());
      if (*found == 0) return scanner.problem_at(at_step, "expected a step of at least 1, found 0");
      step = *found;
    }
    if (auto over = scanner.expect_end("the end"); !over) return fail(std::move(over).error());
  }
  auto slice = mesh.range(*label, begin->value_or(0), end, step);
  if (!slice)
    return fail(found_at("slice", mesh.region().find(*label) ? at_range : at_label, slice.error()));
  return slice;
}

}  // namespace meshbus::cli
