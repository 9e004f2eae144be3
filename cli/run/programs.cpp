#include "cli/run/programs.h"

#include <algorithm>

namespace meshbus::cli {
namespace {

/// "\\:" stands for a ':' that is a word of the command; one more backslash for itself.
std::string without_escape(const std::string& word) {
  const bool is_escaped =
      word.size() > 1 && word.find_first_not_of('\\') == word.size() - 1 && word.back() == ':';
  return is_escaped ? word.substr(1) : word;
}

}  // namespace

Result<std::vector<ProgramWords>> split_programs(const std::vector<std::string>& words) {
  std::vector<ProgramWords> programs(1);
  for (auto word = words.begin(); word != words.end(); ++word) {
    const auto next = word + 1;
    if (*word != ":" || next == words.end() || !next->starts_with('-')) {
      programs.back().command.push_back(without_escape(*word));
      continue;
    }
    if (programs.back().command.empty())
      return fail(ErrorCode::parse_error, "there is no command in front of ':'");
    const auto end = std::find(next, words.end(), "--");
    if (end == words.end())
      return fail(
          ErrorCode::parse_error,
          "behind ':' another program begins, and its command comes last, after --: ': " + *next +
              " ... -- COMMAND'; for a ':' that is a word of the command write '\\:'");
    programs.push_back({{next, end}, {}});
    word = end;
  }
  if (programs.size() > 1 && programs.back().command.empty())
    return fail(ErrorCode::parse_error, "there is no command behind the last --");
  return programs;
}

}  // namespace meshbus::cli
