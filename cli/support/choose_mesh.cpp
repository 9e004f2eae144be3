#include "cli/support/choose_mesh.h"

#include <algorithm>
#include <vector>

#include "cli/support/text_error.h"
#include "common/base/did_you_mean.h"

namespace meshbus::cli {

namespace {

bool is_live(const MeshReport& mesh) {
  return std::any_of(mesh.ranks.begin(), mesh.ranks.end(),
                     [](const RankReport& rank) { return !rank.is_terminal(); });
}

/// "train-13Se1Maqzryj (live), ..."
std::string listed(const std::vector<const MeshReport*>& meshes) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < meshes.size() && i < most; ++i)
    text += (i == 0 ? "" : ", ") + meshes[i]->name + (is_live(*meshes[i]) ? " (live)" : " (ended)");
  return meshes.size() > most ? text + " and " + std::to_string(meshes.size() - most) + " more"
                              : text;
}

}  // namespace

std::string base_of(const std::string& mesh) {
  return mesh.substr(0, mesh.rfind('-'));
}

std::vector<const MeshReport*> matching(const MeshListing& listing, const std::string& word) {
  std::vector<const MeshReport*> found;
  for (const auto& mesh : listing.meshes) {
    if (mesh.name == word || base_of(mesh.name) == word) found.push_back(&mesh);
  }
  return found;
}

const MeshReport* choose_mesh(const MeshListing& listing, const std::string& word) {
  std::vector<const MeshReport*> found;
  if (!word.empty()) {
    found = matching(listing, word);
  } else {
    for (const auto& mesh : listing.meshes) found.push_back(&mesh);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    std::vector<std::string> names;
    for (const auto& mesh : listing.meshes) names.push_back(base_of(mesh.name));
    const auto near = word.empty() ? std::string_view() : did_you_mean(word, names);
    complain((word.empty() ? "no mesh on these hosts" : "no mesh '" + word + "' on these hosts") +
             (near.empty() ? "; meshbus ps --all lists what is there"
                           : "; did you mean '" + std::string(near) + "'?"));
    return nullptr;
  }
  std::vector<const MeshReport*> live;
  std::copy_if(found.begin(), found.end(), std::back_inserter(live),
               [](const MeshReport* mesh) { return is_live(*mesh); });
  if (live.size() == 1) return live.front();
  complain(std::to_string(found.size()) + " meshes are meant by '" + word + "': " + listed(found) +
           "; give the whole name of one");
  return nullptr;
}

}  // namespace meshbus::cli
