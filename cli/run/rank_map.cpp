#include "cli/run/rank_map.h"

#include <algorithm>
#include <array>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/number_list.h"
#include "meshbus/point.h"

namespace meshbus::cli {
namespace {

using Row = std::array<std::string, 6>;

std::string_view word_of(BindMemory memory) {
  switch (memory) {
    case BindMemory::prefer: return "prefer";
    case BindMemory::only: return "only";
    case BindMemory::any: break;
  }
  return "any";
}

std::string host_of(const ProcMeshRef& mesh, std::uint64_t rank) {
  const auto index = mesh.host_index_of(rank);
  return index ? mesh.hosts()[*index].to_string() : std::string("?");
}

/// "host=0,gpu=3"
std::string point_of(const ProcMeshRef& mesh, std::uint64_t rank) {
  const auto coordinates = mesh.region().extent().coordinates_of(rank);
  std::string text;
  for (std::size_t axis = 0; coordinates && axis < coordinates->size(); ++axis)
    text += (axis == 0 ? "" : ",") + mesh.region().labels()[axis] + "=" +
            std::to_string((*coordinates)[axis]);
  return text;
}

/// "0000:07:00.0", "0000:07:00.0 (sees 3)", "sees 3"
std::string gpu_of(const RankBinding& bound) {
  if (bound.visible_devices.empty()) return bound.gpu.empty() ? "-" : bound.gpu;
  const auto sees = "sees " + bound.visible_devices;
  return bound.gpu.empty() ? sees : bound.gpu + " (" + sees + ")";
}

Row row_of(const ProcMeshRef& mesh, const RankBinding& bound) {
  std::string memory = "any";
  if (bound.memory != BindMemory::any)
    memory = std::string(word_of(bound.memory)) + " " + number_list(bound.memory_nodes);
  return {std::to_string(bound.rank),
          host_of(mesh, bound.rank),
          point_of(mesh, bound.rank),
          bound.cpus.empty() ? "any" : number_list(bound.cpus),
          memory,
          gpu_of(bound)};
}

}  // namespace

std::string rank_map_text(const ProcMeshRef& mesh, const BindingMap& map) {
  std::vector<Row> rows{{"RANK", "HOST", "POINT", "CPUS", "MEMORY", "GPU"}};
  for (const auto& bound : map.ranks) rows.push_back(row_of(mesh, bound));
  for (std::uint64_t rank = 0; map.ranks.empty() && rank < mesh.root_ranks(); ++rank)
    rows.push_back(row_of(mesh, {.rank = rank}));
  std::array<std::size_t, 6> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    text += "meshbus:";
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += " " + row[i];
      if (i + 1 < row.size()) text.append(widths[i] - row[i].size() + 1, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string binding_notes_text(const BindingMap& map) {
  std::string text;
  for (const auto& note : map.notes)
    text += "meshbus: host " + note.host.to_string() + ": " + note.text + "\n";
  return text;
}

nlohmann::ordered_json rank_map_json(const ProcMeshRef& mesh, const BindingMap& map) {
  using Ordered = nlohmann::ordered_json;
  if (map.ranks.empty()) return nullptr;
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Ordered(nullptr) : Ordered(text);
  };
  Ordered json = {{"ranks", Ordered::array()}, {"notes", Ordered::array()}};
  for (const auto& bound : map.ranks)
    json["ranks"].push_back({{"rank", bound.rank},
                             {"host", host_of(mesh, bound.rank)},
                             {"point", point_of(mesh, bound.rank)},
                             {"cpus", text_or_null(number_list(bound.cpus))},
                             {"memory_nodes", text_or_null(number_list(bound.memory_nodes))},
                             {"memory", word_of(bound.memory)},
                             {"gpu", text_or_null(bound.gpu)},
                             {"visible_devices", text_or_null(bound.visible_devices)}});
  for (const auto& note : map.notes)
    json["notes"].push_back({{"host", note.host.to_string()}, {"text", note.text}});
  return json;
}

}  // namespace meshbus::cli
