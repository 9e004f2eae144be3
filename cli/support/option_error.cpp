#include "cli/support/option_error.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <regex>

namespace meshbus::cli {

std::string option_error(const std::string& text) {
  std::smatch part;
  static const std::regex range("(.*): Value (.*) not in range (\\S+) to (\\S+)");
  if (std::regex_match(text, part, range))
    return part.str(1) + ": takes a whole number from " + part.str(3) + " to " + part.str(4) +
           ", not '" + part.str(2) + "'";
  static const std::regex often("(.*): At Most (\\d+) required but received \\d+");
  if (std::regex_match(text, part, often))
    return part.str(1) + (part.str(2) == "1" ? " is given more than once" : " is given too often");
  static const std::regex number("Could not convert: (.*) = (.*)");
  if (std::regex_match(text, part, number))
    return part.str(1) + ": takes a whole number, not '" + part.str(2) + "'";
  static const std::regex excluded("(.*) excludes (.*)");
  if (std::regex_match(text, part, excluded))
    return part.str(1) + " and " + part.str(2) + " exclude each other: give one of them";
  static const std::regex choice("(.*): (.*) not in \\{(.*)\\}");
  if (std::regex_match(text, part, choice)) {
    const std::string words = std::regex_replace(part.str(3), std::regex(","), ", ");
    return part.str(1) + ": takes one of " + words + ", not '" + part.str(2) + "'";
  }
  return text;
}

std::vector<std::string> flags_of(const CLI::App& verb) {
  std::vector<std::string> flags;
  for (const auto* option : verb.get_options()) {
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::string unknown_flag(const CLI::App& verb, const std::vector<std::string>& words) {
  const auto flags = flags_of(verb);
  for (const auto& word : words) {
    if (word == "--") break;
    const auto flag = word.substr(0, word.find('='));
    if (flag.starts_with("--") && std::find(flags.begin(), flags.end(), flag) == flags.end())
      return flag;
  }
  return {};
}

}  // namespace meshbus::cli
