#include "cli/watch/status_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string ranks_text(std::vector<std::uint64_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  return to_string(to_rank_set(ranks));
}

}  // namespace

void StatusRows::add(const RankReport& rank) {
  Row row;
  row.status = rank.is_failure() ? Status::Kind::failed : rank.status().kind();
  row.restarts = rank.restarts;
  row.trouble = rank.trouble;
  if (rank.is_terminal()) {
    row.end = rank.words();
    row.signal = rank.signal;
    if (rank.signal == 0 && rank.state == ProcState::stopped) row.exit_code = rank.exit_code;
  }
  rows_[row].push_back(rank.rank);
}

void StatusRows::add_unheard(std::uint64_t rank, bool has_answered) {
  const auto status = has_answered ? Status::Kind::not_exist : Status::Kind::unknown;
  rows_[Row{.status = status}].push_back(rank);
}

bool StatusRows::has(Status::Kind status) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [status](const auto& row) { return row.first.status == status; });
}

std::string StatusRows::text(const std::map<std::string, StatusRows>& meshes, bool is_coloured) {
  bool has_end = false, has_restarts = false, has_trouble = false;
  for (const auto& [mesh, rows] : meshes) {
    for (const auto& [row, ranks] : rows.rows_) {
      has_end = has_end || !row.end.empty();
      has_restarts = has_restarts || row.restarts != 0;
      has_trouble = has_trouble || row.trouble != Trouble::none;
    }
  }
  std::vector<Table::Column> columns = {
      {"MESH"}, {"STATUS", Table::Side::left, colour_of_state}, {"RANKS"}};
  if (has_restarts) columns.push_back({"RESTARTS", Table::Side::right});
  if (has_trouble) columns.push_back({"TROUBLE"});
  if (has_end) columns.push_back({"END"});
  Table table(std::move(columns));
  for (const auto& [mesh, rows] : meshes) {
    for (const auto& [row, ranks] : rows.rows_) {
      std::vector<std::string> cells = {mesh, std::string(to_string(row.status)),
                                        ranks_text(ranks)};
      if (has_restarts) cells.push_back(row.restarts == 0 ? "" : std::to_string(row.restarts));
      if (has_trouble)
        cells.push_back(row.trouble == Trouble::none ? "" : std::string(to_string(row.trouble)));
      if (has_end) cells.push_back(row.end);
      table.add(std::move(cells));
    }
  }
  return table.text({}, is_coloured);
}

Json StatusRows::json() const {
  Json list = Json::array();
  for (const auto& [row, ranks] : rows_) {
    list.push_back({{"status", std::string(to_string(row.status))},
                    {"reason", row.end.empty() ? Json(nullptr) : Json(row.end)},
                    {"exit_code", row.exit_code ? Json(*row.exit_code) : Json(nullptr)},
                    {"signal", row.signal != 0 ? Json(row.signal) : Json(nullptr)},
                    {"restarts", row.restarts},
                    {"ranks", ranks_text(ranks)}});
  }
  return list;
}

Json StatusRows::troubles_json() const {
  std::map<Trouble, std::vector<std::uint64_t>> troubles;
  for (const auto& [row, ranks] : rows_) {
    auto& all = troubles[row.trouble];
    all.insert(all.end(), ranks.begin(), ranks.end());
  }
  troubles.erase(Trouble::none);
  Json list = Json::array();
  for (const auto& [trouble, ranks] : troubles)
    list.push_back({{"trouble", std::string(to_string(trouble))}, {"ranks", ranks_text(ranks)}});
  return list;
}

}  // namespace meshbus::cli
