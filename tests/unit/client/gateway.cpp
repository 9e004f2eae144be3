// What a launcher's connection decides about hosts and leases, in given times.
#include <doctest/doctest.h>

#include "client/src/gateway/host_monitor.h"
#include "client/src/monitors/lease_renewer.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

const HostAddr kHostA = *HostAddr::parse("unix:/a");
const HostAddr kHostB = *HostAddr::parse("unix:/b");
const HostAddr kHostC = *HostAddr::parse("unix:/c");
constexpr HostMonitor::Time kGatewayBegin{1000s};
constexpr std::chrono::milliseconds kLimit = 30s;

Result<std::uint64_t> silence() {
  return fail(ErrorCode::timeout, "no answer within 3000 ms");
}

HostMonitor monitor_of(const std::vector<HostAddr>& hosts) {
  HostMonitor monitor;
  monitor.add(hosts);
  return monitor;
}

bool always(const HostAddr&) {
  return true;
}

bool never(const HostAddr&) {
  return false;
}

std::vector<std::string> names(const std::vector<LeaseRenewer::Lease>& leases) {
  std::vector<std::string> list;
  for (const auto& lease : leases) list.push_back(lease.name);
  return list;
}

}  // namespace

TEST_CASE(
    "host_monitor: a host that is silent for the limit is lost, and calls to it fail at once") {
  auto monitor = monitor_of({kHostA});
  CHECK(monitor.to_ask(always) == std::vector{kHostA});
  CHECK(monitor.to_ask(always).empty());  // it is asked already
  const auto first = monitor.on_answer(kHostA, silence(), true, kGatewayBegin, kLimit);
  CHECK(first.has_fallen_silent);
  CHECK_FALSE(first.loss);
  CHECK_FALSE(monitor.loss_of(kHostA));
  const auto later = monitor.on_answer(kHostA, silence(), true, kGatewayBegin + kLimit, kLimit);
  CHECK_FALSE(later.has_fallen_silent);
  REQUIRE(later.loss);
  CHECK(later.loss->find("no answer for 30s") == 0);
  REQUIRE(monitor.loss_of(kHostA));
  CHECK(monitor.loss_of(kHostA)->code() == ErrorCode::host_unreachable);
  CHECK_FALSE(monitor.on_answer(kHostA, silence(), true, kGatewayBegin + 2 * kLimit, kLimit).loss);
}

TEST_CASE("host_monitor: a host lost by silence is asked on, and an answer brings it back") {
  auto monitor = monitor_of({kHostA});
  monitor.to_ask(always);
  monitor.on_answer(kHostA, 7, true, kGatewayBegin, kLimit);
  monitor.on_answer(kHostA, silence(), true, kGatewayBegin, kLimit);
  monitor.on_answer(kHostA, silence(), true, kGatewayBegin + kLimit, kLimit);
  CHECK(monitor.to_ask(never) == std::vector{kHostA});
  const auto back = monitor.on_answer(kHostA, 7, true, kGatewayBegin + 2 * kLimit, kLimit);
  CHECK(back.answers_again);
  CHECK_FALSE(back.is_replaced);
  CHECK_FALSE(monitor.loss_of(kHostA));
  CHECK(monitor.to_ask(never).empty());
}

TEST_CASE(
    "host_monitor: without a gateway, silence means nothing; after a stop of this process, a fresh "
    "grace begins") {
  auto monitor = monitor_of({kHostA});
  CHECK_FALSE(monitor.on_answer(kHostA, silence(), false, kGatewayBegin, kLimit).has_fallen_silent);
  monitor.on_answer(kHostA, silence(), true, kGatewayBegin, kLimit);
  monitor.extend(kGatewayBegin + 10min);
  CHECK_FALSE(monitor.on_answer(kHostA, silence(), true, kGatewayBegin + 10min, kLimit).loss);
  CHECK(monitor.on_answer(kHostA, silence(), true, kGatewayBegin + 10min + kLimit, kLimit).loss);
}

TEST_CASE("host_monitor: another incarnation of an agent is noticed") {
  auto monitor = monitor_of({kHostA});
  CHECK(monitor.should_identify(kHostA));
  CHECK_FALSE(monitor.should_identify(kHostA));
  CHECK_FALSE(monitor.on_answer(kHostA, 7, true, kGatewayBegin, kLimit).is_replaced);
  CHECK_FALSE(monitor.should_identify(kHostA));
  CHECK(monitor.on_answer(kHostA, 8, true, kGatewayBegin, kLimit).is_replaced);
  CHECK(monitor.incarnation_of(kHostA) == 8);
}

TEST_CASE("host_monitor: a host that has ended is final, and no gateway any more") {
  auto monitor = monitor_of({kHostA, kHostB, kHostC});
  CHECK(monitor.next_after(kHostC) == kHostA);
  CHECK(monitor.on_ended(kHostA, "exit 70"));
  CHECK_FALSE(monitor.on_ended(*HostAddr::parse("unix:/z"), "exit 70"));
  CHECK(monitor.next_after(kHostC) == kHostB);
  CHECK(monitor.loss_of(kHostA)->detail() == "host unix:/a is lost: exit 70");
  CHECK_FALSE(monitor.on_answer(kHostA, 7, true, kGatewayBegin, kLimit).answers_again);
  CHECK(monitor.loss_of(kHostA));
  CHECK(monitor.to_ask(always) == std::vector{kHostB, kHostC});
  monitor.on_ended(kHostB, "exit 70");
  CHECK_FALSE(monitor.next_after(kHostC));
}

TEST_CASE("host_monitor: an agent is known by both of its keys") {
  const auto monitor = monitor_of({kHostA});
  const auto* const found = monitor.agent_behind(host_service(kHostA).key(), kHostA.key());
  REQUIRE(found != nullptr);
  CHECK(*found == kHostA);
  CHECK(monitor.agent_behind(host_service(kHostA).key(), kHostB.key()) == nullptr);
  CHECK(monitor.agent_behind(host_service(kHostB).key(), kHostB.key()) == nullptr);
}

TEST_CASE(
    "lease_renewer: a lease is due at once, then when a third of the shortest length has passed") {
  LeaseRenewer renewer;
  const std::vector<LeaseRenewer::Lease> all{
      {"long", 60s, 60s}, {"none", 0s, 0s}, {"given", 0s, 3s}};
  CHECK(names(renewer.due(all, kGatewayBegin)) == std::vector<std::string>{"long", "given"});
  CHECK(renewer.due(all, kGatewayBegin).empty());
  CHECK(names(renewer.due(all, kGatewayBegin + 1s)) == std::vector<std::string>{"given"});
  CHECK(names(renewer.due(all, kGatewayBegin + 20s)) == std::vector<std::string>{"long", "given"});
  renewer.hurry("long");
  CHECK(names(renewer.due(all, kGatewayBegin + 20s)) == std::vector<std::string>{"long"});
}

TEST_CASE("lease_renewer: a lease that comes back is due at once") {
  LeaseRenewer renewer;
  const std::vector<LeaseRenewer::Lease> all{{"mesh", 60s, 60s}};
  CHECK(renewer.due(all, kGatewayBegin).size() == 1);
  CHECK(renewer.due({}, kGatewayBegin + 1s).empty());
  CHECK(renewer.due(all, kGatewayBegin + 2s).size() == 1);
}
