#include "cli/support/mesh_pattern.h"

#include <fnmatch.h>

namespace meshbus::cli {

std::string base_of(const std::string& mesh) {
  return mesh.substr(0, mesh.rfind('-'));
}

bool is_pattern(std::string_view word) {
  return word.find_first_of("*?") != std::string_view::npos;
}

bool is_named(const std::string& mesh, const std::string& word) {
  if (word.empty()) return true;
  const auto fits = [&word](const std::string& name) {
    return is_pattern(word) ? ::fnmatch(word.c_str(), name.c_str(), FNM_NOESCAPE) == 0
                            : name == word;
  };
  return fits(mesh) || fits(base_of(mesh));
}

}  // namespace meshbus::cli
