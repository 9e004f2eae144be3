#include "agent/metrics/host_metrics.h"

#include <algorithm>
#include <vector>

#include "wire/codes_generated.h"
#include "wire/lifecycle_generated.h"
#include "wire/monitor_generated.h"
#include "wire/ranks_generated.h"

namespace meshbus::metrics {
namespace {

using Counters = wire::BrokerCountersT;
using Labels = http::MetricSet::Labels;
using Metric = http::MetricSet::Metric;

/// A peer is slow when it has taken nothing for so long of what waits for it.
constexpr std::uint64_t kSlowMs = 1000;
/// The warden of a host never starts again under the same exporter.
constexpr std::uint64_t kOneLife = 1;

constexpr Metric kDropped{"meshbus_broker_messages_dropped_total",
                          "Messages dropped without a notice, by reason."};
constexpr Metric kFramesRefused{"meshbus_broker_frames_refused_total",
                                "Frames that are malformed, or came before a Hello."};
constexpr Metric kRefusals{"meshbus_broker_refusals_total",
                           "Refused peers (by their Hello, key or handshake) and refused messages "
                           "(by the role of their sender)."};
constexpr Metric kRepeated{"meshbus_broker_link_frames_repeated_total",
                           "Frames of links sent again after a connection broke, and frames that "
                           "came twice and were dropped."};

struct BrokerRow {
  Metric metric;
  std::uint64_t Counters::* field;
  Labels labels = {};
};

/// Counters of the broker, which only grow.
const std::vector<BrokerRow>& broker_rows() {
  static const std::vector<BrokerRow> rows{
      {{"meshbus_broker_messages_received_total", "Messages that came from peers and links."},
       &Counters::received},
      {{"meshbus_broker_received_bytes_total",
        "Bytes of the messages that came from peers and links, envelopes included."},
       &Counters::received_bytes},
      {{"meshbus_broker_messages_direct_total",
        "Messages that went past the broker, between procs of this host that talk much."},
       &Counters::direct},
      {{"meshbus_broker_direct_bytes_total",
        "Bytes of the messages that went past the broker, envelopes included."},
       &Counters::direct_bytes},
      {{"meshbus_broker_messages_originated_total", "Messages that the broker itself made."},
       &Counters::originated},
      {{"meshbus_broker_messages_delivered_total",
        "Messages handed to their receiver, or to the broker of its host."},
       &Counters::delivered},
      {{"meshbus_broker_messages_handled_total", "Messages for the broker itself."},
       &Counters::handled},
      {{"meshbus_broker_messages_returned_total",
        "Messages that could not be delivered and were returned to their sender."},
       &Counters::returned},
      {{"meshbus_broker_messages_fate_unknown_total",
        "Messages sent to a peer that has ended and may have taken them; their senders were "
        "notified."},
       &Counters::fate_unknown},
      {kDropped, &Counters::dropped_no_return, {{"reason", "no_return"}}},
      {kDropped, &Counters::dropped_not_needed, {{"reason", "not_needed"}}},
      {kDropped, &Counters::dropped_false_source, {{"reason", "false_source"}}},
      {kDropped, &Counters::dropped_old_incarnation, {{"reason", "old_incarnation"}}},
      {kFramesRefused, &Counters::malformed_frames, {{"reason", "malformed"}}},
      {kFramesRefused, &Counters::ignored_frames, {{"reason", "not_registered"}}},
      {kRefusals, &Counters::refused_hellos, {{"what", "hello"}}},
      {kRefusals, &Counters::refused_keys, {{"what", "key"}}},
      {kRefusals, &Counters::refused_handshakes, {{"what", "handshake"}}},
      {kRefusals, &Counters::refused_messages, {{"what", "message"}}},
      {kRepeated, &Counters::replayed_frames, {{"direction", "sent"}}},
      {kRepeated, &Counters::duplicate_frames, {{"direction", "received"}}},
  };
  return rows;
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::uint64_t value_at(const std::vector<std::uint64_t>& values, std::size_t index) {
  return index < values.size() ? values[index] : 0;
}

}  // namespace

HostMetrics::HostMetrics(Limits limits) {
  metrics_.set({"meshbus_build_info", "Always 1; the label has the version of meshbus."}, 1,
               {{"version", MESHBUS_VERSION}});
  metrics_.set({"meshbus_broker_queue_limit_bytes",
                "Bytes that the broker holds for one peer before it returns further messages."},
               static_cast<double>(limits.queue_bytes));
  metrics_.set({"meshbus_broker_queue_limit_messages",
                "Messages that the broker holds for one peer before it returns further ones."},
               static_cast<double>(limits.queue_count));
}

void HostMetrics::on_counters(std::uint64_t incarnation, const Counters& counters) {
  for (const BrokerRow& row : broker_rows())
    metrics_.follow(row.metric, incarnation, counters.*row.field, row.labels);
  metrics_.set({"meshbus_broker_messages_held", "Messages in the queues of the broker now."},
               static_cast<double>(counters.held));
  metrics_.set({"meshbus_broker_peers", "Peers registered at the broker now."},
               static_cast<double>(counters.peers));
  metrics_.set({"meshbus_broker_links", "Other hosts to which there is a connection now."},
               static_cast<double>(counters.links));
  on_queues(counters);
}

void HostMetrics::on_queues(const Counters& counters) {
  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;
  std::uint64_t waits_ms = 0;
  std::uint64_t slow = 0;
  for (const auto& queue : counters.queues) {
    bytes = std::max(bytes, queue->bytes);
    messages = std::max(messages, queue->messages);
    waits_ms = std::max(waits_ms, queue->waits_ms);
    if (queue->waits_ms >= kSlowMs) ++slow;
  }
  metrics_.set({"meshbus_broker_longest_queue_bytes",
                "Bytes in the longest queue of a peer that does not keep up; 0: all keep up."},
               static_cast<double>(bytes));
  metrics_.set({"meshbus_broker_longest_queue_messages",
                "Messages in the longest queue of a peer that does not keep up."},
               static_cast<double>(messages));
  metrics_.set({"meshbus_broker_longest_wait_seconds",
                "How long a peer that does not keep up has taken nothing, at most."},
               static_cast<double>(waits_ms) / 1000);
  metrics_.set({"meshbus_broker_slow_peers",
                "Peers that have taken nothing for a second while messages wait; at most 16."},
               static_cast<double>(slow));
}

void HostMetrics::on_host(const wire::HostStateT& host, std::chrono::nanoseconds took) {
  metrics_.set(
      {"meshbus_host_agent_answer_seconds", "How long the host agent took for its last answer."},
      seconds(took));
  metrics_.follow({"meshbus_host_requests_refused_total",
                   "Requests to the host agent whose sender's role was too low."},
                  host.incarnation, host.refused);
  const bool is_drained =
      std::any_of(host.drains.begin(), host.drains.end(),
                  [](const auto& drain) { return drain->mesh.empty() && drain->owner.empty(); });
  metrics_.set({"meshbus_host_drained",
                "1: the host is drained of all meshes, or is being drained, and starts nothing."},
               is_drained ? 1 : 0);
  if (host.counters == nullptr) return;
  const wire::HostCountersT& counters = *host.counters;
  metrics_.set({"meshbus_host_meshes", "Meshes that the host remembers, the ended ones included."},
               static_cast<double>(counters.meshes));
  for (const auto state : wire::EnumValuesProcState()) {
    if (state == wire::ProcState::none) continue;
    metrics_.set({"meshbus_host_ranks", "Ranks that the host remembers, by state."},
                 static_cast<double>(value_at(counters.states, static_cast<std::size_t>(state))),
                 {{"state", wire::EnumNameProcState(state)}});
  }
  for (const auto trouble : wire::EnumValuesTrouble()) {
    if (trouble == wire::Trouble::none) continue;
    metrics_.set(
        {"meshbus_host_troubled_ranks", "Live ranks whose heartbeats are late, by trouble."},
        static_cast<double>(value_at(counters.troubles, static_cast<std::size_t>(trouble))),
        {{"trouble", wire::EnumNameTrouble(trouble)}});
  }
  metrics_.follow({"meshbus_host_ranks_started_total", "Ranks started for the first time."},
                  host.incarnation, counters.spawned);
  metrics_.follow({"meshbus_host_ranks_restarted_total", "Ranks started again."}, host.incarnation,
                  counters.restarted);
  for (const auto cause : wire::EnumValuesCause()) {
    if (cause == wire::Cause::none || cause == wire::Cause::host_lost) continue;
    const Labels labels{{"cause", wire::EnumNameCause(cause)}};
    const auto index = static_cast<std::size_t>(cause);
    metrics_.follow({"meshbus_host_rank_ends_total", "Ranks that have ended, by cause."},
                    host.incarnation, value_at(counters.causes, index), labels);
    metrics_.follow({"meshbus_host_rank_failures_total", "Ranks that have failed, by cause."},
                    host.incarnation, value_at(counters.failures, index), labels);
  }
  metrics_.follow({"meshbus_host_agent_long_turns_total",
                   "Turns of the host agent's loop that took more than 50 ms."},
                  host.incarnation, counters.long_turns);
}

void HostMetrics::on_roles(const RoleReport& roles) {
  const auto set = [this](const char* role, bool is_up) {
    metrics_.set({"meshbus_host_role_up", "Whether that process of the host runs and is ready."},
                 is_up ? 1 : 0, {{"role", role}});
  };
  set("keeper", roles.keeper);
  set("broker", roles.broker);
  set("agent", roles.agent);
  const auto follow = [this](const char* role, std::uint64_t restarts) {
    metrics_.follow({"meshbus_host_role_restarts_total",
                     "How often the warden started that process of the host again."},
                    kOneLife, restarts, {{"role", role}});
  };
  follow("broker", roles.broker_restarts);
  follow("agent", roles.agent_restarts);
}

std::string HostMetrics::render(std::chrono::nanoseconds counters_age) {
  metrics_.set({"meshbus_broker_counters_age_seconds",
                "Time since the broker published its counters, once a second."},
               seconds(counters_age));
  return metrics_.render();
}

}  // namespace meshbus::metrics
