#include "cli/support/choose_mesh.h"

#include <algorithm>
#include <utility>

#include "cli/support/exit_codes.h"
#include "cli/support/selector.h"
#include "cli/support/text_error.h"
#include "common/base/did_you_mean.h"

namespace meshbus::cli {
namespace {

using Meshes = std::vector<const MeshReport*>;

bool is_live(const MeshReport* mesh) {
  return std::any_of(mesh->ranks.begin(), mesh->ranks.end(),
                     [](const RankReport& rank) { return !rank.is_terminal(); });
}

/// Whether a rank lives as far as is known: one of a host that does not answer may.
bool may_live(const MeshListing& listing, const MeshReport* mesh) {
  if (is_live(mesh)) return true;
  return std::ranges::any_of(listing.unreachable, [&](const HostReport& silent) {
    for (const auto& block : ranks_on(*mesh, silent.host)) {
      for (auto rank = block.begin; rank < block.end; ++rank) {
        if (!std::ranges::binary_search(mesh->ranks, rank, {}, &RankReport::rank)) return true;
      }
    }
    return false;
  });
}

/// When the last of its ranks was started; nothing: none was.
std::optional<std::chrono::system_clock::time_point> last_start(const MeshReport& mesh) {
  std::optional<std::chrono::system_clock::time_point> last;
  for (const auto& rank : mesh.ranks) last = std::max(last, rank.started);
  return last;
}

Meshes matching(const MeshListing& listing, const std::string& word) {
  Meshes found;
  for (const auto& mesh : listing.meshes) {
    if (mesh.name == word) return {&mesh};
    if (is_named(mesh.name, word)) found.push_back(&mesh);
  }
  return found;
}

void complain_of_none(const MeshListing& listing, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& mesh : listing.meshes) names.push_back(base_of(mesh.name));
  const auto near = word.empty() ? std::string_view() : did_you_mean(word, names);
  complain((word.empty() ? "no mesh on these hosts" : "no mesh '" + word + "' on these hosts") +
           (near.empty() ? "; meshbus ps --all lists what is there"
                         : "; did you mean '" + std::string(near) + "'?") +
           (listing.unreachable.empty() ? "" : "; the hosts that do not answer may have it"));
}

/// How a word that means several meshes can be told apart.
enum class TakesSeveral { no, yes };

const MeshReport* choose(const MeshListing& listing, const std::string& word, Among among,
                         TakesSeveral several) {
  const auto found = matching(listing, word);
  Meshes live;
  std::copy_if(found.begin(), found.end(), std::back_inserter(live),
               [&](const MeshReport* mesh) { return may_live(listing, mesh); });
  if (live.size() == 1) return live.front();
  if (live.empty() && found.size() == 1 && among == Among::all) return found.front();
  if (found.empty()) {
    complain_of_none(listing, word);
  } else if (live.empty() && among == Among::live) {
    complain((word.empty() ? "every mesh on these hosts" : "mesh '" + word + "'") +
             " has ended already: " + listed(found));
  } else {
    const auto& meant = live.empty() ? found : live;
    complain(
        std::to_string(meant.size()) + " meshes are meant by '" + word + "': " + listed(meant) +
        "; give the whole name of one" +
        (several == TakesSeveral::yes && !word.empty() ? ", or '" + word + "-*' for all" : ""));
  }
  return nullptr;
}

MeantRanks give_up(const Error& error, int code) {
  complain(error.detail());
  return {.code = code};
}

/// The ranks of that mesh that a selector names.
MeantRanks ranks_of(const MeshReport& mesh, const Selector& selector) {
  if (selector.ranks.empty() && selector.slices.empty()) return {.mesh = &mesh};
  const auto whole = mesh.ref();
  if (!whole) return give_up(whole.error(), kFailed);
  const auto views = selector.select(*whole);
  if (!views) return give_up(views.error(), selector.slices.empty() ? kFailed : kUsage);
  std::vector<std::uint64_t> ranks;
  for (const auto& view : *views) {
    for (std::uint64_t ordinal = 0; ordinal < view.num_ranks(); ++ordinal) {
      if (const auto rank = view.create_rank(ordinal)) ranks.push_back(*rank);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return {.mesh = &mesh, .ranks = to_rank_set(ranks)};
}

MeantRanks choose_ranks_of(const MeshListing& listing, const Selector& selector, Among among,
                           TakesSeveral several) {
  const auto* const mesh = choose(listing, selector.mesh, among, several);
  return mesh == nullptr ? MeantRanks{.code = kFailed} : ranks_of(*mesh, selector);
}

RankSet common_ranks(const RankSet& all, const RankSet& meant) {
  std::vector<std::uint64_t> both;
  for (const auto& block : all) {
    for (auto rank = block.begin; rank < block.end; ++rank) {
      if (is_meant(meant, rank)) both.push_back(rank);
    }
  }
  return to_rank_set(both);
}

}  // namespace

std::string listed(const Meshes& all) {
  constexpr std::size_t most = 8;
  Meshes meshes = all;
  std::stable_sort(meshes.begin(), meshes.end(), [](const MeshReport* a, const MeshReport* b) {
    return last_start(*a) > last_start(*b);
  });
  std::string text;
  for (std::size_t i = 0; i < meshes.size() && i < most; ++i)
    text += (i == 0 ? "" : ", ") + meshes[i]->name + (is_live(meshes[i]) ? " (live" : " (ended") +
            (i == 0 && meshes.size() > 1 ? ", the newest)" : ")");
  return meshes.size() > most ? text + " and " + std::to_string(meshes.size() - most) + " more"
                              : text;
}

const MeshReport* choose_mesh(const MeshListing& listing, const std::string& word, Among among) {
  return choose(listing, word, among, TakesSeveral::no);
}

MeantRanks choose_ranks(const MeshListing& listing, const std::string& selector, Among among) {
  const auto parsed = Selector::parse(selector);
  if (!parsed) return give_up(parsed.error(), kUsage);
  return choose_ranks_of(listing, *parsed, among, TakesSeveral::no);
}

MeantMeshes choose_meshes(const MeshListing& listing, const MeshChoice& choice, Among among) {
  const auto parsed = Selector::parse(choice.selector);
  if (!parsed) return {.code = give_up(parsed.error(), kUsage).code};
  if (!choice.is_all && !is_pattern(parsed->mesh)) {
    const auto meant = choose_ranks_of(listing, *parsed, among, TakesSeveral::yes);
    if (meant.mesh == nullptr) return {.code = meant.code};
    return {.all = {meant}};
  }
  auto found = matching(listing, parsed->mesh);
  const bool has_ended = !found.empty();
  if (among == Among::live)
    std::erase_if(found, [&](const auto* mesh) { return !may_live(listing, mesh); });
  if (found.empty()) {
    const bool knows_all = listing.unreachable.empty();
    if (choice.is_all) {
      complain(std::string(among == Among::live ? "no live mesh" : "no mesh") + " on these hosts" +
               (knows_all ? "" : "; those that do not answer may have one"));
    } else if (has_ended) {
      complain("every mesh that '" + parsed->mesh + "' means has ended already");
    } else {
      complain_of_none(listing, parsed->mesh);
    }
    // To have nothing left to do is what --all asks for.
    return {.code = choice.is_all && knows_all ? 0 : kFailed};
  }
  MeantMeshes meant;
  for (const auto* mesh : found) {
    auto ranks = ranks_of(*mesh, *parsed);
    if (ranks.mesh == nullptr) return {.code = ranks.code};
    meant.all.push_back(std::move(ranks));
  }
  return meant;
}

RankSet ranks_on(const MeshReport& mesh, const HostAddr& host) {
  const auto ref = mesh.ref();
  std::vector<std::uint64_t> ranks;
  for (std::uint64_t index = 0; ref && index < ref->hosts().size(); ++index) {
    const Result<RankBlock> block = ref->hosts()[index] == host
                                        ? ref->block_of(index)
                                        : Result<RankBlock>(fail(ErrorCode::not_exist, ""));
    if (!block) continue;
    for (auto rank = block->begin; rank < std::min(block->end, ref->num_ranks()); ++rank)
      ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return to_rank_set(ranks);
}

RankSet ranks_on(const MeantRanks& meant, const HostAddr& host) {
  return common_ranks(ranks_on(*meant.mesh, host), meant.ranks);
}

bool is_meant(const RankSet& ranks, std::uint64_t rank) {
  return ranks.empty() || contains(ranks, rank);
}

}  // namespace meshbus::cli
