// What a host tells Prometheus.
#include <doctest/doctest.h>

#include <string>

#include "agent/metrics/host_metrics.h"
#include "agent/metrics/role_report.h"
#include "wire/lifecycle_generated.h"
#include "wire/monitor_generated.h"
#include "wire/ranks_generated.h"

using namespace meshbus;
using namespace meshbus::metrics;
using namespace std::chrono_literals;

namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("role_report: what the warden tells") {
  const auto report = RoleReport::parse("1 0 1 12 3");
  REQUIRE(report);
  CHECK(report->keeper);
  CHECK_FALSE(report->broker);
  CHECK(report->agent);
  CHECK(report->broker_restarts == 12);
  CHECK(report->agent_restarts == 3);
  for (const char* wrong : {"", "1", "1 1 1 1", "1 1 1 1 1 1", "1 1 1 1 x", "1  1 1 1",
                            "-1 1 1 1 1", "1 1 1 1 99999999999999999999"})
    CHECK_FALSE(RoleReport::parse(wrong));
}

TEST_CASE("host_metrics: counters of a broker that was restarted go on") {
  HostMetrics metrics({.queue_bytes = 1000, .queue_count = 10});
  wire::BrokerCountersT counters;
  counters.received = 100;
  counters.dropped_no_return = 3;
  counters.links = 2;
  metrics.on_counters(1, counters);
  counters.received = 7;
  counters.dropped_no_return = 0;
  metrics.on_counters(2, counters);
  auto queue = std::make_unique<wire::QueueStateT>();
  queue->bytes = 900;
  queue->messages = 9;
  queue->waits_ms = 1500;
  counters.queues.push_back(std::move(queue));
  metrics.on_counters(2, counters);
  const auto text = metrics.render(2s);
  CHECK(has_line(text, "meshbus_broker_messages_received_total 107"));
  CHECK(has_line(text, "meshbus_broker_messages_dropped_total{reason=\"no_return\"} 3"));
  CHECK(has_line(text, "meshbus_broker_links 2"));
  CHECK(has_line(text, "meshbus_broker_longest_queue_bytes 900"));
  CHECK(has_line(text, "meshbus_broker_slow_peers 1"));
  CHECK(has_line(text, "meshbus_broker_queue_limit_bytes 1000"));
  CHECK(has_line(text, "meshbus_broker_counters_age_seconds 2"));
}

TEST_CASE("host_metrics: ranks by state, failures by cause, roles") {
  HostMetrics metrics({});
  wire::HostStateT host;
  host.incarnation = 5;
  host.counters = std::make_unique<wire::HostCountersT>();
  host.counters->states = {0, 1, 2, 3};  // an older agent has fewer
  host.counters->spawned = 10;
  host.counters->restarted = 2;
  host.counters->causes = {0, 4, 1};
  host.counters->failures = {0, 3, 1};
  host.counters->troubles = {6, 1, 2};
  metrics.on_host(host, 3ms);
  metrics.on_roles({.keeper = true, .broker = false, .agent = true, .broker_restarts = 4});
  auto text = metrics.render(0s);
  CHECK(has_line(text, "meshbus_host_drained 0"));
  CHECK(has_line(text, "meshbus_host_ranks{state=\"ready\"} 3"));
  CHECK(has_line(text, "meshbus_host_ranks{state=\"failed\"} 0"));
  CHECK(has_line(text, "meshbus_host_ranks_started_total 10"));
  CHECK(has_line(text, "meshbus_host_ranks_restarted_total 2"));
  CHECK(has_line(text, "meshbus_host_rank_ends_total{cause=\"exited\"} 4"));
  CHECK(has_line(text, "meshbus_host_rank_failures_total{cause=\"exited\"} 3"));
  CHECK(has_line(text, "meshbus_host_rank_failures_total{cause=\"out_of_memory\"} 0"));
  CHECK(has_line(text, "meshbus_host_troubled_ranks{trouble=\"frozen\"} 2"));
  CHECK(has_line(text, "meshbus_host_role_up{role=\"broker\"} 0"));
  CHECK(has_line(text, "meshbus_host_role_up{role=\"agent\"} 1"));
  CHECK(has_line(text, "meshbus_host_role_restarts_total{role=\"broker\"} 4"));
  CHECK(has_line(text, "meshbus_host_agent_answer_seconds 0.003"));
  // A drain of one mesh only leaves the host open for others.
  host.drains.emplace_back(std::make_unique<wire::DrainT>())->mesh = "train-13Se1Maqzryj";
  metrics.on_host(host, 3ms);
  CHECK(has_line(metrics.render(0s), "meshbus_host_drained 0"));
  host.drains.emplace_back(std::make_unique<wire::DrainT>())->hold = true;
  metrics.on_host(host, 3ms);
  text = metrics.render(0s);
  CHECK(has_line(text, "meshbus_host_drained 1"));
}
