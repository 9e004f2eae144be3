#pragma once

#include <string>
#include <string_view>

namespace meshbus::cli {

/// "train" for "train-13Se1Maqzryj".
std::string base_of(const std::string& mesh);

/// Whether a word that names meshes may mean several: it has `*` (any text) or `?` (any character),
/// which no name has.
bool is_pattern(std::string_view word);

/// Whether a word names a mesh: it is the whole name, its base, or a pattern that fits one of the
/// two. An empty word names every mesh.
bool is_named(const std::string& mesh, const std::string& word);

}  // namespace meshbus::cli
