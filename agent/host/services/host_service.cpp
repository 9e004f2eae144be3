#include "agent/host/services/host_service.h"

#include <utility>
#include <vector>

#include "agent/host/updates/host_counters.h"
#include "agent/host/updates/mesh_report.h"
#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

/// The last answer gets so long to reach the broker before this host ends.
constexpr auto kHostFarewellLimit = 1s;
constexpr std::uint16_t kMostInFlight = 256;

/// The order of a ShutdownHost or a DrainHost.
template <typename Message>
StopOrder make_order(const Message& message, const char* reason, const std::string& host,
                     wire::Cause cause = wire::Cause::stopped) {
  StopOrder order{.reason = short_text(message.reason()),
                  .requester = short_text(message.requester()),
                  .grace = std::chrono::milliseconds(message.grace_ms()),
                  .cause = cause};
  if (order.reason.empty()) order.reason = reason;
  if (order.requester.empty()) order.requester = "host " + host;
  return order;
}

wire::ShutdownSummaryT to_summary(const DrainOutcome& outcome) {
  wire::ShutdownSummaryT summary;
  summary.attempted = outcome.attempted;
  summary.failed = outcome.failed;
  summary.ok = outcome.attempted - outcome.failed;
  summary.detail = outcome.detail;
  return summary;
}

}  // namespace

void HostService::add_rows(Dispatcher& handlers, const std::unique_ptr<HostService>& service) {
  using Self = HostService;
  handlers.on<wire::ShutdownHost>(Role::operate, row(service, &Self::on_shutdown_host))
      .on<wire::DrainHost>(Role::operate, row(service, &Self::on_drain_host))
      .on<wire::ResumeHost>(Role::operate, row(service, &Self::on_resume_host))
      .on<wire::GetHost>(Role::observe, row(service, &Self::on_get_host))
      .on<wire::GetEvents>(Role::observe, row(service, &Self::on_get_events));
}

std::optional<std::size_t> HostService::find_in_flight(const Request& request,
                                                       std::uint16_t in_flight) {
  if (in_flight > 0 && in_flight <= kMostInFlight) return in_flight;
  if (in_flight == 0) return options_.in_flight;
  checks_.refuse(request,
                 Error(ErrorCode::out_of_range, "in_flight: " + std::to_string(in_flight) +
                                                    "; 1 to 256, or 0 for the host's own setting"));
  return std::nullopt;
}

void HostService::on_shutdown_host(const Request& request, const wire::ShutdownHost& message) {
  if (!checks_.may_order(request, message.term())) return;
  const auto in_flight = find_in_flight(request, message.in_flight());
  if (!in_flight) return;
  const auto order = make_order(message, "host shut down", checks_.host(), wire::Cause::host_ended);
  procs_.shut_down(order, *in_flight, [this, request](const DrainOutcome& outcome) {
    updates_.publish();  // first the ends, then that all have ended
    bus_.answer(request, to_summary(outcome));
    // Whatever the broker answers to this, it has seen the summary before.
    wire::IntroduceT last;
    last.host = checks_.host();
    bus_.request(Destination::to_broker(), std::move(last), kHostFarewellLimit,
                 [this, ok = outcome.failed == 0](const Result<ControlMessage>&) {
                   options_.on_shutdown(ok);
                 });
  });
}

void HostService::end(const std::string& why) {
  const StopOrder order{.reason = why,
                        .requester = "host agent of " + checks_.host(),
                        .grace = options_.grace,
                        .cause = wire::Cause::host_ended};
  procs_.shut_down(order, options_.in_flight, [this](const DrainOutcome& outcome) {
    updates_.publish();
    options_.on_shutdown(outcome.failed == 0);
  });
}

std::optional<DrainScope> HostService::find_scope(const Request& request,
                                                  const flatbuffers::String* owner,
                                                  const flatbuffers::String* mesh) {
  DrainScope scope{.owner = text_of(owner), .mesh = text_of(mesh)};
  Result<void> fine;
  if (!scope.owner.empty()) {
    const auto parsed = ProcId::parse(scope.owner);
    if (parsed) scope.owner = parsed->to_string();
    if (!parsed) fine = fail(parsed.error().within("owner"));
  }
  if (!scope.mesh.empty()) {
    if (const auto parsed = Name::parse(scope.mesh); !parsed)
      fine = fail(parsed.error().within("mesh"));
  }
  if (fine) return scope;
  checks_.refuse(request, fine.error());
  return std::nullopt;
}

void HostService::on_drain_host(const Request& request, const wire::DrainHost& message) {
  const auto scope = find_scope(request, message.owner(), message.mesh());
  if (!scope) return;
  const auto in_flight = find_in_flight(request, message.in_flight());
  if (!in_flight) return;
  const auto order = make_order(message, "host drained", checks_.host());
  const auto done = [this, request](const DrainOutcome& outcome) {
    updates_.publish();  // first the ends
    bus_.answer(request, to_summary(outcome));
  };
  const auto started = procs_.drains().start(
      {.scope = *scope, .stop = order, .in_flight = *in_flight, .hold = message.hold()}, done);
  if (!started) return checks_.refuse(request, started.error());
  for (const auto& [name, mesh] : procs_.table().meshes()) {
    if (!scope->covers(*mesh)) continue;
    std::vector<std::uint64_t> ranks;
    for (const auto& [rank, proc] : mesh->procs) ranks.push_back(rank);
    procs_.owners().stop_ranks(*mesh, ranks);
  }
  wire::EventT event;
  event.kind = wire::EventKind::stop_asked;
  event.mesh = scope->mesh;
  event.by = order.requester;
  event.text = "a drain of " + scope->words() + ": " + order.reason;
  procs_.events().add_limited(std::move(event));
}

void HostService::on_resume_host(const Request& request, const wire::ResumeHost& message) {
  const auto scope = find_scope(request, message.owner(), message.mesh());
  if (!scope) return;
  procs_.drains().resume(*scope);
  checks_.ack(request);
}

void HostService::on_broker(std::uint64_t incarnation) {
  const auto before = std::exchange(broker_incarnation_, incarnation);
  if (before == 0 || before == incarnation) return;
  ++broker_restarts_;
  broker_restarted_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  log::error("the broker of this host had to be restarted, " + std::to_string(broker_restarts_) +
             (broker_restarts_ == 1 ? " time" : " times") +
             " since this agent started; the procs live on");
}

void HostService::on_get_host(const Request& request, const wire::GetHost&) {
  auto state = facts_.make();
  state.broker_restarts = broker_restarts_;
  state.broker_restarted_ns = broker_restarted_ns_;
  state.owner = owner_.to_wire();
  state.counters = std::make_unique<wire::HostCountersT>(
      make_host_counters(procs_.table(), bus_.reactor().long_turns()));
  bus_.answer(request, std::move(state));
}

void HostService::on_get_events(const Request& request, const wire::GetEvents& message) {
  auto list = procs_.events().find(short_text(message.mesh()), message.from(), kReportBytes);
  list.host = checks_.host();
  bus_.answer(request, std::move(list));
}

}  // namespace meshbus::host
