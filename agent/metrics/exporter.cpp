#include "agent/metrics/exporter.h"

#include <unistd.h>

#include <utility>

#include "common/base/log.h"
#include "common/http/machine_names.h"
#include "common/security/token.h"
#include "wire/bus_generated.h"
#include "wire/control_generated.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::metrics {
namespace {

using namespace std::chrono_literals;

/// The agent is asked at least so often.
constexpr auto kPeriod = 5s;
/// An answer is good for so long.
constexpr auto kFresh = 500ms;
constexpr auto kAnswerLimit = 2s;
/// The broker publishes its counters once a second.
constexpr auto kBrokerLimit = 5s;
/// Requests that wait for one answer of the agent.
constexpr std::size_t kMostWaiting = 64;
constexpr http::HttpServer::Limits kServerLimits{
    .connections = 32, .connection = {.request = {.head = 8 * 1024, .body = 0}}};

Session::Options session_options(const HostAddr& broker) {
  Session::Options options;
  options.endpoint = broker.zmq_endpoint();
  options.hello.peer = Name::make("client")->to_string();
  options.hello.kind = wire::PeerKind::launcher;
  options.hello.incarnation = random_u64();
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  return options;
}

Bus::Events bus_events() {
  Bus::Events events;
  events.on_refused = [](const Error& error) {
    log::warn("the broker refuses the metrics: " + error.to_string());
  };
  return events;
}

}  // namespace

Exporter::Exporter(Reactor& reactor, zmq::context_t& context, http::HttpSocket socket,
                   Options options)
    : reactor_(reactor),
      options_(std::move(options)),
      access_(socket.address, {}, http::machine_names()),
      metrics_(options_.limits),
      heard_broker_(reactor.now()),
      bus_(reactor, session_options(options_.broker), Dispatcher(), bus_events()),
      listener_(reactor, context, options_.monitor,
                [this](std::uint64_t incarnation, const wire::BrokerCountersT& counters) {
                  heard_broker_ = reactor_.now();
                  metrics_.on_counters(incarnation, counters);
                }),
      server_(reactor, std::move(socket), kServerLimits,
              [this](const http::HttpRequest& request, const http::HttpServer::Reply& reply) {
                on_request(request, reply);
              }) {
  tick();
}

Exporter::~Exporter() {
  reactor_.cancel(timer_);
}

void Exporter::on_roles(const RoleReport& roles) {
  roles_ = roles;
  metrics_.on_roles(roles);
}

void Exporter::on_request(const http::HttpRequest& request, const http::HttpServer::Reply& reply) {
  if (!access_.is_host_known(request.host)) return reply.send(http::unknown_host());
  if (request.method == "POST")
    return reply.send(http::text_response(405, "only GET and HEAD are served"));
  if (request.path == "/metrics") {
    return refresh([this, reply] {
      reply.send({.status = 200, .type = http::MetricSet::kType, .body = render()});
    });
  }
  if (request.path == "/healthz") return refresh([this, reply] { reply.send(health()); });
  reply.send(http::text_response(404, "there is /metrics and /healthz"));
}

void Exporter::refresh(std::function<void()> then) {
  const bool is_fresh = heard_agent_ && reactor_.now() - *heard_agent_ < kFresh;
  const bool is_useless = !roles_.agent || !roles_.broker || waiting_.size() >= kMostWaiting;
  if (is_useless || (is_fresh && has_answered_)) return then();
  waiting_.push_back(std::move(then));
  ask();
}

void Exporter::ask() {
  if (std::exchange(is_asking_, true)) return;
  bus_.request(Destination::to_agent(options_.host), wire::GetHostT{}, kAnswerLimit,
               [this, asked = reactor_.now()](const Result<ControlMessage>& answer) {
                 on_answer(asked, answer);
               });
}

void Exporter::on_answer(Reactor::Time asked, const Result<ControlMessage>& answer) {
  is_asking_ = false;
  const auto now = reactor_.now();
  const auto* const host = answer ? (*answer)->body_as_HostState() : nullptr;
  has_answered_ = host != nullptr;
  if (has_answered_) {
    heard_agent_ = now;
    wire::HostStateT state;
    host->UnPackTo(&state);
    metrics_.on_host(state, now - asked);
  }
  for (const auto& then : std::exchange(waiting_, {})) then();
}

void Exporter::tick() {
  if (!heard_agent_ || reactor_.now() - *heard_agent_ >= kPeriod) ask();
  timer_ = reactor_.after(kPeriod, [this] { tick(); });
}

http::HttpResponse Exporter::health() const {
  const auto ill = [](const char* why) { return http::text_response(503, why); };
  if (!roles_.keeper) return ill("the keeper does not run");
  if (!roles_.broker) return ill("the broker does not run");
  if (!roles_.agent) return ill("the agent does not run");
  if (reactor_.now() - heard_broker_ >= kBrokerLimit) return ill("the broker is silent");
  if (!has_answered_) return ill("the agent does not answer");
  return http::text_response(200, "ok");
}

std::string Exporter::render() {
  return metrics_.render(reactor_.now() - heard_broker_);
}

}  // namespace meshbus::metrics
