#include "cli/doctor/exam_groups.h"

#include <utility>

namespace meshbus::cli::doctor {
namespace {

Result<std::shared_ptr<Context>> context_for(const FoundHosts& found, const HostAddr& host) {
  FoundHosts one{.addresses = {host}, .source = {}, .settings = found.settings, .local = {}};
  for (const auto& local : found.local) {
    if (local.address == host) one.local.push_back(local);
  }
  auto context = one.make_context();
  if (!context) return fail(context.error());
  return std::make_shared<Context>(std::move(*context));
}

}  // namespace

std::vector<ExamGroup> groups_of(const FoundHosts& hosts) {
  std::vector<ExamGroup> groups;
  for (const auto& part : hosts.parts()) {
    if (part.addresses.empty()) continue;
    groups.push_back(
        {part.addresses, [part](const HostAddr& host) { return context_for(part, host); }});
  }
  return groups;
}

std::vector<ExamGroup> group_of(Context& context, const std::vector<HostAddr>& hosts) {
  // The pointer owns nothing.
  const std::shared_ptr<Context> shared(std::shared_ptr<void>(), &context);
  return {
      {hosts, [shared](const HostAddr&) -> Result<std::shared_ptr<Context>> { return shared; }}};
}

}  // namespace meshbus::cli::doctor
