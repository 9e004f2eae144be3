#include "cli/doctor/finding.h"

namespace meshbus::cli::doctor {
namespace {

constexpr std::size_t kNamedHosts = 3;

std::string names_of(const std::vector<std::string>& hosts) {
  std::string names;
  for (std::size_t i = 0; i < hosts.size() && i < kNamedHosts; ++i)
    names += (i == 0 ? "" : ", ") + hosts[i];
  if (hosts.size() > kNamedHosts)
    names += " and " + std::to_string(hosts.size() - kNamedHosts) + " more";
  return names;
}

}  // namespace

const char* word_of(Severity severity) {
  return severity == Severity::error ? "error" : "warning";
}

std::string line_of(const Finding& finding) {
  return std::string(word_of(finding.severity)) + ": " + names_of(finding.hosts) + ": " +
         finding.text + "; " + finding.remedy;
}

}  // namespace meshbus::cli::doctor
