#include "broker/broker_requests.h"

#include <functional>
#include <string>
#include <utility>

#include "broker/access/dial_policy.h"
#include "broker/transport/listener.h"
#include "common/base/clock_ns.h"
#include "wire/bus_generated.h"
#include "wire/chaos_generated.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

/// Links that all connections of one observer or client may have introduced at a time.
constexpr std::size_t kMostIntroduced = kMostLinks / 4;
/// Bytes of the audit trail in one answer.
constexpr std::size_t kAuditPage = 512 * 1024;

/// Procs and agents of this host, and operators, may introduce as many hosts as there is room for.
LinkTable::Introducer introducer_of(const Identity& identity) {
  const bool is_limited =
      identity.kind == wire::PeerKind::launcher && identity.role < Role::operate;
  return {identity.principal, is_limited ? kMostIntroduced : kMostLinks, is_limited};
}

}  // namespace

BrokerRequests::BrokerRequests(Router& router, LinkTable& links, PeerRegistry& registry,
                               Watchers& watchers, Counters& counters, AuditTrail* audit,
                               LinkChaos chaos, Tell tell)
    : router_(router),
      links_(links),
      registry_(registry),
      watchers_(watchers),
      counters_(counters),
      audit_(audit),
      chaos_(std::move(chaos)),
      tell_(std::move(tell)) {
  handlers_.on<wire::Hello>(Role::none, std::bind_front(&BrokerRequests::on_hello, this))
      .on<wire::Heartbeat>(Role::observe, [](Peer*, const Request&, const wire::Heartbeat&) {})
      .on<wire::Bye>(Role::observe, std::bind_front(&BrokerRequests::on_bye, this))
      .on<wire::Introduce>(Role::observe, std::bind_front(&BrokerRequests::on_introduce, this))
      .on<wire::Watch>(Role::observe, std::bind_front(&BrokerRequests::on_watch, this))
      .on<wire::DirectTraffic>(Role::observe,
                               std::bind_front(&BrokerRequests::on_direct_traffic, this))
      .on<wire::GetEvents>(Role::operate, std::bind_front(&BrokerRequests::on_get_events, this))
      .on<wire::StartChaos>(Role::operate, std::bind_front(&BrokerRequests::on_start_chaos, this))
      .on<wire::GetHost>(Role::observe, [this](Peer*, const Request& request,
                                               const wire::GetHost&) { answer(request, tell_()); });
}

void BrokerRequests::handle(Peer* via, const wire::Envelope& envelope, Bytes body) {
  ++counters_.handled;
  const auto control = ControlMessage::decode(body);
  if (!control) {
    limited_log_.warn("a message to this broker: " + control.error().detail());
    return;
  }
  if (control->head().is_answer) return;
  const Request request{envelope, control->head()};
  if (const auto done = handlers_.dispatch(via, request, *control); !done)
    refuse(request, done.error());
}

void BrokerRequests::answer(const Request& request, const ControlBody& body) {
  if (request.head.id == 0 || request.envelope.source_proc() == 0) return;
  const std::string answer = encode_control({.id = request.head.id, .is_answer = true}, body);
  if (audit_ != nullptr && audit_->is_waiting(request.envelope.source_proc())) {
    // The trail hears what passes this broker; this answer begins here.
    wire::Envelope envelope;
    envelope.mutate_destination_proc(request.envelope.source_proc());
    audit_->on_answer(envelope, answer);
  }
  router_.originate(request.envelope.source_proc(), request.envelope.source_host(), answer);
}

void BrokerRequests::refuse(const Request& request, const Error& error) {
  wire::RefusalT refusal;
  refusal.code = to_wire(error.code());
  refusal.detail = cut_text(error.detail());
  answer(request, std::move(refusal));
}

void BrokerRequests::on_hello(Peer*, const Request& request, const wire::Hello&) {
  refuse(request, Error(ErrorCode::unauthorised, "this connection is registered already"));
}

void BrokerRequests::on_bye(Peer* via, const Request& request, const wire::Bye& bye) {
  // It ends the connection that it came by: another incarnation of the same proc, or a newer link
  // of the same broker, may be there already. What procs of another host say does not end the link
  // that brought it.
  if (via == nullptr) return;
  if (via->identity.is_link() && request.envelope.role() != Role::broker) return;
  registry_.end(*via, "it said: " + cut_text(text_of(bye.reason())), /*is_last=*/true);
}

void BrokerRequests::on_introduce(Peer* via, const Request& request,
                                  const wire::Introduce& introduce_request) {
  const auto other = HostAddr::parse(introduce_request.host()->string_view());
  if (!other) return refuse(request, other.error());
  if (*other != router_.own().address()) {
    if (auto introduced = introduce(via, request, *other); !introduced)
      return refuse(request, introduced.error());
  }
  answer(request, wire::AckT());
}

Result<void> BrokerRequests::introduce(Peer* via, const Request& request, const HostAddr& other) {
  if (request.envelope.source_host() != router_.own().key())
    return fail(ErrorCode::unroutable,
                "a broker passes nothing on for procs of other hosts; introduce " +
                    other.to_string() + " to your own broker");
  const bool is_local = via != nullptr && Listener::is_local(via->connection);
  if (auto may = may_dial(other, is_local); !may) {
    log_refusal(via, may.error());
    links_.refuse(other.key(), may.error());
    return may;
  }
  const auto by = via == nullptr ? LinkTable::Introducer() : introducer_of(via->identity);
  if (auto link = links_.introduce(other, /*is_dialled=*/true, &by); !link) {
    links_.refuse(other.key(), link.error());
    return fail(link.error());
  }
  return {};
}

void BrokerRequests::log_refusal(Peer* via, const Error& error) {
  ++counters_.refused_messages;
  if (via == nullptr || std::exchange(via->is_introduction_logged, true)) return;
  const Identity& asker = via->identity;
  if (audit_ != nullptr)
    audit_->note(AuditedPrincipal::of(asker), "introduce", {}, "refused: " + error.detail());
  log::warn(asker.text + (asker.user.empty() ? "" : " (" + asker.user + ")") +
            " is refused an introduction: " + error.detail());
}

void BrokerRequests::on_get_events(Peer*, const Request& request, const wire::GetEvents& get) {
  if (audit_ == nullptr)
    return refuse(request, Error(ErrorCode::not_exist, "this host keeps no audit trail"));
  answer(request, audit_->find(get.from(), kAuditPage));
}

void BrokerRequests::on_start_chaos(Peer*, const Request& request, const wire::StartChaos& start) {
  auto done = chaos_.start(start);
  if (!done) return refuse(request, done.error());
  wire::ChaosStartedT started;
  started.detail = std::move(*done);
  started.time_ns = clock_ns(CLOCK_REALTIME);
  answer(request, std::move(started));
}

void BrokerRequests::on_direct_traffic(Peer* via, const Request&,
                                       const wire::DirectTraffic& traffic) {
  if (via == nullptr || via->identity.is_link()) return;
  DirectCount& known = via->direct;
  // Totals: what a peer says can only grow, and nothing is counted twice.
  if (traffic.messages() < known.messages || traffic.bytes() < known.bytes) return;
  counters_.direct += traffic.messages() - known.messages;
  counters_.direct_bytes += traffic.bytes() - known.bytes;
  known = {traffic.messages(), traffic.bytes()};
}

void BrokerRequests::on_watch(Peer*, const Request& request, const wire::Watch& watch) {
  if (watch.key() != 0 && watch.proc()->size() == 0) return this->watch(request, watch.key(), "");
  const auto proc = ProcId::parse(watch.proc()->string_view());
  if (!proc) return refuse(request, proc.error());
  if (proc->host() != router_.own().address())
    return refuse(request,
                  Error(ErrorCode::unroutable, proc->to_string() + " is not of this host, " +
                                                   router_.own().address().to_string() +
                                                   "; ask the broker of its host"));
  this->watch(request, proc->key(), proc->to_string());
}

void BrokerRequests::watch(const Request& request, std::uint64_t key, const std::string& text) {
  if (request.head.id == 0) return;
  const auto incarnation = watchers_.add(key, request.envelope, request.head.id);
  if (!incarnation) return refuse(request, incarnation.error());
  answer(request, wire::AckT());
  if (*incarnation == 0) watchers_.tell_gone(text, request.envelope, request.head.id);
}

}  // namespace meshbus
