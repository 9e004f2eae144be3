#include "common/http/machine_names.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>
#include <utility>

#include "common/base/file_text.h"
#include "common/base/machine_name.h"

namespace meshbus::http {
namespace {

using Words = std::vector<std::string>;

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return small;
}

/// The words of each line that has some, without comments.
std::vector<Words> words_by_line(std::string_view text) {
  std::vector<Words> lines;
  std::istringstream input(in_small_letters(text));
  for (std::string line; std::getline(input, line);) {
    std::istringstream words(line.substr(0, line.find_first_of("#;")));
    Words found{std::istream_iterator<std::string>(words), {}};
    if (!found.empty()) lines.push_back(std::move(found));
  }
  return lines;
}

}  // namespace

std::vector<std::string> machine_names(std::string_view machine, std::string_view hosts,
                                       std::string_view resolver) {
  if (machine.empty()) return {};
  Words names{in_small_letters(machine)};
  const auto own = names.front();
  for (const auto& words : words_by_line(hosts)) {
    // The address comes first.
    if (std::find(words.begin() + 1, words.end(), own) != words.end())
      names.insert(names.end(), words.begin() + 1, words.end());
  }
  for (const auto& words : words_by_line(resolver)) {
    if (words.front() != "search" && words.front() != "domain") continue;
    for (std::size_t i = 1; i < words.size(); ++i) names.push_back(own + "." + words[i]);
  }
  return names;
}

std::vector<std::string> machine_names() {
  return machine_names(machine_name(), file_text("/etc/hosts"), file_text("/etc/resolv.conf"));
}

}  // namespace meshbus::http
