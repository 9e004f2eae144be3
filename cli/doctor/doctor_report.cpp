#include "cli/doctor/doctor_report.h"

#include <nlohmann/json.hpp>

#include <utility>

#include "cli/doctor/facts_json.h"
#include "cli/support/text_error.h"

namespace meshbus::cli::doctor {
namespace {

using Json = nlohmann::ordered_json;

double ms_of(std::chrono::microseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

Json text_json(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

/// A host that does not answer has its error; one that could not be examined has that.
Json host_json(const HostExam& host) {
  const auto& error = host.code == ErrorCode::none ? host.facts_problem : host.problem;
  return {
      {"host", host.host},
      {"node", text_json(host.node)},
      {"version", text_json(host.version)},
      {"containment", text_json(host.containment)},
      {"error", text_json(error)},
      {"clock_ahead_ms", host.clock ? Json(ms_of(host.clock->ahead)) : Json(nullptr)},
      {"clock_error_ms", host.clock ? Json(ms_of(host.clock->error)) : Json(nullptr)},
      {"own_round_trip_ms", host.own_pace ? Json(ms_of(host.own_pace->round_trip)) : Json(nullptr)},
      {"own_bytes_per_s", host.own_pace ? Json(host.own_pace->bytes_per_s) : Json(nullptr)},
      {"facts", host.facts ? facts_json(*host.facts) : Json(nullptr)}};
}

Json link_json(const SiteExam& site, const LinkExam& link) {
  const bool is_good = link.code == ErrorCode::none;
  return {{"from", site.hosts.at(link.from).host},
          {"to", site.hosts.at(link.to).host},
          {"round_trip_ms", is_good ? Json(ms_of(link.round_trip)) : Json(nullptr)},
          {"bytes_per_s", link.bytes_per_s ? Json(*link.bytes_per_s) : Json(nullptr)},
          {"error", is_good ? Json(nullptr) : Json(link.problem)}};
}

Json finding_json(const Finding& finding) {
  return {{"severity", word_of(finding.severity)},
          {"code", finding.code},
          {"hosts", finding.hosts},
          {"what", finding.text},
          {"remedy", finding.remedy}};
}

}  // namespace

std::string report_text(const SiteExam& site, const std::vector<Finding>& findings) {
  std::string text;
  for (const auto& finding : findings) text += shown(line_of(finding)) + "\n";
  if (!text.empty()) return text;
  const std::size_t count = site.hosts.size() - 1;
  return count == 0   ? "this machine is sound\n"
         : count == 1 ? "1 host is sound\n"
                      : std::to_string(count) + " hosts are sound\n";
}

Json report_json(const SiteExam& site, const std::vector<Finding>& findings) {
  Json hosts = Json::array(), links = Json::array(), list = Json::array();
  for (const auto& host : site.hosts) hosts.push_back(host_json(host));
  for (const auto& link : site.links) links.push_back(link_json(site, link));
  for (const auto& finding : findings) list.push_back(finding_json(finding));
  return {{"sound", findings.empty()},
          {"findings", std::move(list)},
          {"hosts", std::move(hosts)},
          {"links", std::move(links)}};
}

}  // namespace meshbus::cli::doctor
