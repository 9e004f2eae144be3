#include "cli/chaos/chaos_report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

#include "cli/support/rank_json.h"
#include "cli/support/table.h"
#include "common/base/quantity.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string hold_text(const ChaosDeed& deed) {
  return deed.hold.count() == 0 ? "-" : duration_to_text(deed.hold);
}

/// Whether it was done. Each end of a link says so.
std::string done_text(const ChaosBook::Entry& entry) {
  if (!entry.is_confirmed) return entry.error.empty() ? "no answer" : "no: " + entry.error;
  std::string text = entry.deed.hold.count() == 0 ? "yes" : "for " + hold_text(entry.deed);
  if (!entry.error.empty()) text += ", at one end: " + entry.error;
  return text;
}

std::string seconds_text(std::chrono::milliseconds time) {
  const auto count = time.count();
  const auto tenths = (count % 1000) / 100;
  return std::to_string(count / 1000) + "." + std::to_string(tenths) + "s";
}

/// With the ends of a link, which its deed has in one order only.
std::string words_of(const ChaosNotice& notice) {
  if (notice.rank) return notice.what;
  if (notice.peer)
    return notice.host.to_string() + " to " + notice.peer->to_string() + ": " + notice.what;
  return notice.what;
}

Json to_json(const ChaosDeed& deed) {
  const auto& target = deed.target;
  Json json = {{"at_ms", deed.at.count()},
               {"kind", to_string(deed.kind)},
               {"target", target.text()},
               {"host", target.host.to_string()},
               {"mesh", target.mesh.empty() ? Json(nullptr) : Json(target.mesh)},
               {"rank", nullptr},
               {"role", target.role.empty() ? Json(nullptr) : Json(target.role)},
               {"peer", target.peer ? Json(target.peer->to_string()) : Json(nullptr)},
               {"hold_ms", deed.hold.count()}};
  if (target.type == ChaosTarget::Type::rank) json["rank"] = target.rank;
  return json;
}

Json to_json(const ChaosNotice& notice) {
  Json json = {{"host", notice.host.to_string()},
               {"mesh", notice.mesh.empty() ? Json(nullptr) : Json(notice.mesh)},
               {"rank", nullptr},
               {"role", notice.role.empty() ? Json(nullptr) : Json(notice.role)},
               {"peer", notice.peer ? Json(notice.peer->to_string()) : Json(nullptr)},
               {"what", notice.what}};
  if (notice.rank) json["rank"] = *notice.rank;
  return json;
}

Json to_json(const ChaosBook::Entry& entry) {
  Json json = to_json(entry.deed);
  json["confirmed"] = entry.is_confirmed;
  json["detail"] = entry.is_confirmed ? Json(entry.detail) : Json(nullptr);
  json["error"] = entry.error.empty() ? Json(nullptr) : Json(entry.error);
  json["noticed"] = Json::array();
  for (const auto& heard : entry.heard) {
    Json notice = {{"after_ms", heard.after.count()}};
    notice.update(to_json(heard.notice));
    json["noticed"].push_back(std::move(notice));
  }
  return json;
}

}  // namespace

std::string chaos_plan_text(const ChaosSpec& spec, const std::vector<ChaosDeed>& plan) {
  std::string kinds;
  for (const auto kind : spec.kinds)
    kinds += (kinds.empty() ? "" : ",") + std::string(to_string(kind));
  std::string text = "chaos: --seed " + std::to_string(spec.seed) + " --every " +
                     duration_to_text(spec.every) + " --for " + duration_to_text(spec.length) +
                     " --hold " + duration_to_text(spec.hold) + " --most " +
                     std::to_string(spec.most) + " --kinds " + kinds + "\n";
  Table table({{"AT", Table::Side::right}, {"WHAT"}, {"TARGET"}, {"HOLD", Table::Side::right}});
  for (const auto& deed : plan)
    table.add({seconds_text(deed.at), std::string(to_string(deed.kind)), deed.target.text(),
               hold_text(deed)});
  return text + table.text("  ");
}

std::string chaos_report_text(const ChaosBook& book) {
  const auto entries = book.entries();
  Table table({{"AT", Table::Side::right}, {"WHAT"}, {"TARGET"}, {"DONE"}, {"SUPERVISION SAID"}});
  std::size_t confirmed = 0;
  std::size_t unnoticed = 0;
  for (const auto& entry : entries) {
    const auto& deed = entry.deed;
    const std::string done = done_text(entry);
    if (entry.is_confirmed) ++confirmed;
    if (entry.is_confirmed && entry.heard.empty()) ++unnoticed;
    std::vector<std::string> cells{seconds_text(deed.at), std::string(to_string(deed.kind)),
                                   deed.target.text(), done};
    if (entry.heard.empty()) {
      cells.emplace_back(entry.is_confirmed ? "nothing" : "-");
      table.add(std::move(cells));
      continue;
    }
    for (const auto& heard : entry.heard) {
      cells.push_back("after " + std::to_string(heard.after.count()) +
                      " ms: " + words_of(heard.notice));
      table.add(std::exchange(cells, {"", "", "", ""}));
    }
  }
  std::string text = table.text();
  const auto others = book.others();
  if (!others.empty()) text += "beside that, supervision said:\n";
  for (const auto& notice : others) {
    const std::string rank =
        notice.rank ? notice.mesh + "[" + std::to_string(*notice.rank) + "]: " : "";
    text += "  " + notice.host.to_string() + ": " + rank + notice.what + "\n";
  }
  return text + std::to_string(entries.size()) + " asked for, " + std::to_string(confirmed) +
         " done, " + std::to_string(unnoticed) + " of them never noticed\n";
}

std::string chaos_report_json(const ChaosSpec& spec, const std::vector<ChaosDeed>& plan,
                              const ChaosBook& book, bool is_dry, bool is_interrupted) {
  Json kinds = Json::array();
  for (const auto kind : spec.kinds) kinds.push_back(to_string(kind));
  Json json = {{"seed", spec.seed},
               {"every_ms", spec.every.count()},
               {"for_ms", spec.length.count()},
               {"hold_ms", spec.hold.count()},
               {"most", spec.most},
               {"kinds", std::move(kinds)},
               {"dry_run", is_dry},
               {"interrupted", is_interrupted}};
  json["plan"] = Json::array();
  for (const auto& deed : plan) json["plan"].push_back(to_json(deed));
  json["deeds"] = Json::array();
  std::size_t unnoticed = 0;
  for (const auto& entry : book.entries()) {
    if (entry.is_confirmed && entry.heard.empty()) ++unnoticed;
    json["deeds"].push_back(to_json(entry));
  }
  json["unnoticed"] = unnoticed;
  json["others"] = Json::array();
  for (const auto& notice : book.others()) json["others"].push_back(to_json(notice));
  return dump(json, 2) + "\n";
}

}  // namespace meshbus::cli
