#include "cli/run/programs.h"

#include <algorithm>

namespace meshbus::cli {

Result<std::vector<ProgramWords>> split_programs(const std::vector<std::string>& words) {
  std::vector<ProgramWords> programs(1);
  for (auto word = words.begin(); word != words.end(); ++word) {
    const auto next = word + 1;
    if (*word != ":" || next == words.end() || !next->starts_with('-')) {
      programs.back().command.push_back(*word);
      continue;
    }
    if (programs.back().command.empty())
      return fail(ErrorCode::parse_error, "there is no command in front of ':'");
    const auto end = std::find(next, words.end(), "--");
    if (end == words.end())
      return fail(
          ErrorCode::parse_error,
          "behind ':' another program begins, and its command comes last, after --: ': " + *next +
              " ... -- COMMAND'; a ':' that is a word of the command needs no flag "
              "behind it: put both into sh -c '...'");
    programs.push_back({{next, end}, {}});
    word = end;
  }
  if (programs.size() > 1 && programs.back().command.empty())
    return fail(ErrorCode::parse_error, "there is no command behind the last --");
  return programs;
}

}  // namespace meshbus::cli
