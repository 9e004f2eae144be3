#include "cli/doctor/examine_site.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <utility>

#include "cli/doctor/examined_host.h"
#include "cli/doctor/gather_facts.h"
#include "cli/doctor/judge_links.h"
#include "cli/doctor/link_plan.h"
#include "cli/support/find_hosts.h"
#include "common/base/machine_name.h"

namespace meshbus::cli::doctor {
namespace {

/// Each host has a thread here while it is waited for.
constexpr std::size_t kAtOnce = 64;
/// Two or three ways, each of which takes three measurements. What stays within a host, once
/// measured, speaks for all of its ways.
constexpr std::chrono::seconds kDoubtTime{5};

/// Each host has a connection of its own, which takes some descriptors: as many as may be had, for
/// the scope.
class DescriptorScope {
 public:
  DescriptorScope() {
    is_raised_ = ::getrlimit(RLIMIT_NOFILE, &before_) == 0;
    const rlimit most{before_.rlim_max, before_.rlim_max};
    is_raised_ = is_raised_ && ::setrlimit(RLIMIT_NOFILE, &most) == 0;
  }
  ~DescriptorScope() {
    if (is_raised_) ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  DescriptorScope(const DescriptorScope&) = delete;
  DescriptorScope& operator=(const DescriptorScope&) = delete;

 private:
  rlimit before_{};
  bool is_raised_ = false;
};

/// One host of a group, and its number in the result.
struct Patient {
  const ExamGroup* group;
  std::size_t number;
  std::unique_ptr<ExaminedHost> host;
};

HostExam examine(Patient& patient, const HostAddr& address, std::chrono::milliseconds limit) {
  auto context = patient.group->make_context(address);
  if (context) return patient.host->examine(std::move(*context), limit);
  return {.host = address.to_string(),
          .code = context.error().code(),
          .problem = context.error().detail()};
}

/// Runs `act` for each of them, many at once, and waits.
void for_each_at_once(std::size_t count, const std::function<void(std::size_t)>& act) {
  for (std::size_t begin = 0; begin < count; begin += kAtOnce) {
    std::vector<std::future<void>> acts;
    for (std::size_t i = begin; i < std::min(count, begin + kAtOnce); ++i)
      acts.push_back(std::async(std::launch::async, [&act, i] { act(i); }));
    for (auto& one : acts) one.get();
  }
}

/// The way from here to each host that was examined: what its clock took.
void add_own_links(SiteExam& site) {
  for (std::size_t i = 1; i < site.hosts.size(); ++i) {
    if (const auto& clock = site.hosts[i].clock)
      site.links.push_back({.from = 0, .to = i, .round_trip = 2 * clock->error});
  }
}

/// A host that does not know the other's present key hears nothing when it connects; the other one
/// is told why. So a way that is cut is tried from its other end, too.
LinkExam measure_way(const Patient& from, const Patient& to, std::chrono::milliseconds limit) {
  auto there = from.host->measure(*to.host, limit);
  if (!is_cut(there)) return there;
  auto back = to.host->measure(*from.host, limit);
  return is_wrong_key(back.code) ? back : there;
}

void measure_links(const std::vector<Patient*>& patients, std::chrono::milliseconds limit,
                   SiteExam& site) {
  for (const auto& round : plan_links(patients.size())) {
    std::vector<LinkExam> links(round.size());
    for_each_at_once(round.size(), [&](std::size_t i) {
      const auto* from = patients[round[i].first];
      const auto* to = patients[round[i].second];
      links[i] = measure_way(*from, *to, limit);
      links[i].from = from->number;
      links[i].to = to->number;
    });
    site.links.insert(site.links.end(), links.begin(), links.end());
  }
}

void keep_best(Pace& best, const Pace& next) {
  best.round_trip = std::min(best.round_trip, next.round_trip);
  best.bytes_per_s = std::max(best.bytes_per_s, next.bytes_per_s);
}

/// Measures one way again, with nothing else under way.
void measure_again(Patient& from, Patient& to, std::chrono::milliseconds limit, LinkExam& link) {
  const auto again = from.host->measure(*to.host, limit);
  if (again.code != ErrorCode::none) return;
  Pace best{link.round_trip, link.bytes_per_s.value_or(0)};
  keep_best(best, {again.round_trip, again.bytes_per_s.value_or(0)});
  link.round_trip = best.round_trip;
  link.bytes_per_s = best.bytes_per_s;
}

/// What messages need within that host.
void measure_within(Patient& patient, std::chrono::milliseconds limit, SiteExam& site) {
  if (!patient.host->has_probe()) return;
  const auto pace = patient.host->measure_within(limit);
  auto& own = site.hosts[patient.number].own_pace;
  if (pace && own) keep_best(*own, *pace);
  if (pace && !own) own = pace;
}

/// A way looks slow also when a machine is busy: those that do are measured once more, and so is
/// what stays within their ends. Many of them take some time: then the first ones have to do.
void doubt_slow_links(std::vector<Patient>& patients, std::chrono::milliseconds limit,
                      SiteExam& site) {
  const auto end = std::chrono::steady_clock::now() + kDoubtTime;
  for (auto& link : site.links) {
    if (!looks_slow(site, link)) continue;
    if (std::chrono::steady_clock::now() >= end) return;
    // Number 0 is this machine, which has no probe.
    auto& to = patients[link.to - 1];
    measure_within(to, limit, site);
    if (link.from == 0) {
      to.host->read_clock(site.hosts[link.to], limit);
      link.round_trip = 2 * site.hosts[link.to].clock->error;
      continue;
    }
    auto& from = patients[link.from - 1];
    measure_within(from, limit, site);
    measure_again(from, to, limit, link);
  }
}

}  // namespace

SiteExam examine_site(const std::vector<ExamGroup>& groups, std::chrono::milliseconds limit,
                      bool looks_here) {
  SiteExam site;
  HostExam here{.host = kThisMachine, .node = machine_name(), .version = MESHBUS_VERSION};
  here.clock = ClockReading{};
  if (looks_here) here.facts = gather_facts(std::nullopt);
  const DescriptorScope descriptors;
  std::vector<Patient> patients;
  std::vector<HostAddr> addresses;
  for (const auto& group : groups) {
    for (const auto& address : group.hosts) {
      if (std::find(addresses.begin(), addresses.end(), address) != addresses.end()) continue;
      addresses.push_back(address);
      patients.push_back({&group, addresses.size(), std::make_unique<ExaminedHost>(address)});
    }
  }
  site.hosts.resize(1 + patients.size());
  for_each_at_once(patients.size(), [&](std::size_t i) {
    site.hosts[patients[i].number] = examine(patients[i], addresses[i], limit);
  });
  site.hosts.front() = std::move(here);
  add_own_links(site);
  for (const auto& group : groups) {
    std::vector<Patient*> examined;
    for (auto& patient : patients) {
      if (patient.group == &group && patient.host->has_probe()) examined.push_back(&patient);
    }
    measure_links(examined, limit, site);
  }
  doubt_slow_links(patients, limit, site);
  for_each_at_once(patients.size(), [&](std::size_t i) { patients[i].host.reset(); });
  site.time = std::chrono::duration_cast<std::chrono::seconds>(
                  std::chrono::system_clock::now().time_since_epoch())
                  .count();
  return site;
}

}  // namespace meshbus::cli::doctor
