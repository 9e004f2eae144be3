#pragma once

#include <memory>
#include <vector>

#include "cli/doctor/examine_site.h"
#include "cli/support/find_hosts.h"
#include "meshbus/client.h"

namespace meshbus::cli::doctor {

/// Running hosts, each by a context of its own: what it takes to come to one then does not depend
/// on another one.
std::vector<ExamGroup> groups_of(const FoundHosts& hosts);
/// Hosts of a launcher, by its context, which outlives the examination: hosts that a launcher has
/// started let nobody else in.
std::vector<ExamGroup> group_of(Context& context, const std::vector<HostAddr>& hosts);

}  // namespace meshbus::cli::doctor
