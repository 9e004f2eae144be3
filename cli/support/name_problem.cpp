#include "cli/support/name_problem.h"

#include <algorithm>
#include <cctype>

#include "meshbus/name.h"

namespace meshbus::cli {
namespace {

bool is_letter_or_digit(char c) {
  return c >= 0 && std::isalnum(static_cast<unsigned char>(c)) != 0;
}

/// The nearest name that is one.
std::string nearest(std::string name) {
  for (auto& c : name) {
    if (!is_letter_or_digit(c)) c = '_';
  }
  if (std::isdigit(static_cast<unsigned char>(name.front())) != 0) name.insert(0, "_");
  return name.substr(0, Name::max_base);
}

}  // namespace

std::string name_problem(const std::string& option, const std::string& name) {
  if (name.empty()) return option + " is empty";
  if (Name::is_reserved(name))
    return option + " " + name + ": meshbus itself uses this name; choose another one";
  if (Name::plain(name)) return {};
  std::string problem = option + " " + name + ": ";
  if (name.find('-') != std::string::npos) {
    problem +=
        "a name has no '-', which stands before the id that meshbus adds (train-13Se1Maqzryj)";
  } else if (name.size() > Name::max_base && std::all_of(name.begin(), name.end(), [](char c) {
               return is_letter_or_digit(c) || c == '_';
             })) {
    problem += "a name has at most " + std::to_string(Name::max_base) + " characters";
  } else {
    problem += "a name has letters, digits and '_', and begins with no digit";
  }
  return problem + "; this one would do: " + nearest(name);
}

}  // namespace meshbus::cli
