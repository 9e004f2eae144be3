#pragma once

#include <string>

namespace meshbus::cli {

/// What is wrong with the name that somebody chose for a mesh, with one that would do; empty:
/// nothing is. `option`: where it was given, "--name". Pure.
std::string name_problem(const std::string& option, const std::string& name);

}  // namespace meshbus::cli
