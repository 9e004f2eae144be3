// What is said to the broker itself (bus.fbs).
#include <utility>

#include "broker/access/dial_policy.h"
#include "broker/broker_impl.h"

#include "wire/bus_generated.h"

namespace meshbus {

template <typename NativeBody>
void Broker::Impl::answer(const Request& request, NativeBody body) {
  if (request.head.id == 0 || request.envelope.source_proc() == 0) return;
  forwarder_->originate(
      request.envelope.source_proc(), request.envelope.source_host(),
      encode_control({.id = request.head.id, .is_answer = true}, std::move(body)));
}

void Broker::Impl::refuse(const Request& request, const Error& error) {
  wire::RefusalT refusal;
  refusal.code = to_wire(error.code());
  refusal.detail = cut_text(error.detail());
  answer(request, std::move(refusal));
}

void Broker::Impl::on_hello(const Request& request, const wire::Hello& hello) {
  if (stranger_ == nullptr) {
    refuse(request, Error(ErrorCode::unauthorised, "this connection is registered already"));
    return;
  }
  if (const TokenRecord* token = token_of(stranger_->credentials)) {
    on_joining(*token, hello);
    return;
  }
  auto identity = admission_->admit(hello, stranger_->credentials);
  // Whose place it would take may have ended just now, and its descriptor may be this one's.
  listener->drain_monitor();
  if (identity && !identity->is_link()) {
    if (auto allowed = routes_.may_add(*identity); !allowed) identity = fail(allowed.error());
  }
  if (identity && identity->is_link()) {
    if (const auto other = HostAddr::parse(identity->text)) {
      // A link that came over tcp does not make us connect to a socket of this machine, whatever
      // address it claims.
      auto link = forwarder_->introduce(
          *other, may_dial(*other, stranger_->credentials.uid.has_value()).has_value());
      const auto may = link ? (*link)->may_attach(identity->incarnation) : fail(link.error());
      if (!may) identity = fail(may.error());
    }
  }
  if (!identity) {
    refuse_stranger(*stranger_, identity.error());
    return;
  }
  register_peer(std::move(*identity));
}

void Broker::Impl::on_bye(const Request& request, const wire::Bye& bye) {
  // It ends the connection that it came by: another life of the same proc, or a newer link of the
  // same broker, may be there already. What procs of another host say does not end the link that
  // brought it.
  if (speaker_ == nullptr ||
      (speaker_->identity.is_link() && request.envelope.role() != Role::broker))
    return;
  end_peer(*speaker_, "it said: " + cut_text(text_of(bye.reason())), /*is_last=*/true);
}

void Broker::Impl::on_introduce(const Request& request, const wire::Introduce& introduce) {
  auto other = HostAddr::parse(introduce.host()->string_view());
  if (!other) {
    refuse(request, other.error());
    return;
  }
  if (*other != *host) {
    if (request.envelope.source_host() != forwarder_->own_key()) {
      refuse(request, Error(ErrorCode::unroutable,
                            "a broker passes nothing on for procs of other hosts; introduce " +
                                other->to_string() + " to your own broker"));
      return;
    }
    const bool is_local = speaker_ != nullptr && Listener::is_local(speaker_->connection);
    if (const auto may = may_dial(*other, is_local); !may) {
      refuse_introduction(request, *other, may.error());
      return;
    }
    if (auto link = forwarder_->introduce(*other); !link) {
      forwarder_->refuse_host(other->key(), link.error());
      refuse(request, link.error());
      return;
    }
  }
  answer(request, wire::AckT());
}

void Broker::Impl::refuse_introduction(const Request& request, const HostAddr& other,
                                       const Error& error) {
  ++forwarder_->counters().refused_messages;
  if (speaker_ != nullptr && !std::exchange(speaker_->is_introduction_told, true)) {
    const Identity& asker = speaker_->identity;
    log::warn(asker.text + (asker.user.empty() ? "" : " (" + asker.user + ")") +
              " is refused an introduction: " + error.detail());
  }
  forwarder_->refuse_host(other.key(), error);
  refuse(request, error);
}

void Broker::Impl::on_watch(const Request& request, const wire::Watch& watch) {
  const auto proc = ProcId::parse(watch.proc()->string_view());
  if (!proc) {
    refuse(request, proc.error());
    return;
  }
  if (proc->host() != *host) {
    refuse(request,
           Error(ErrorCode::unroutable, proc->to_string() + " is not of this host, " +
                                            host->to_string() + "; ask the broker of its host"));
    return;
  }
  if (request.head.id == 0) return;
  const wire::Envelope& from = request.envelope;
  const Peer* peer = routes_.find(proc->key());
  const std::uint64_t life = peer == nullptr ? 0 : peer->identity.incarnation;
  const WatchList::Watcher watcher{from.source_proc(), from.source_host(),
                                   from.source_incarnation(), request.head.id, life};
  if (peer != nullptr && !watches_.add(proc->key(), watcher)) {
    refuse(request, Error(ErrorCode::queue_full,
                          "too many watches: this broker has " + std::to_string(watches_.size()) +
                              " of all its watchers already, or too many of this one"));
    return;
  }
  answer(request, wire::AckT());
  if (peer == nullptr) tell_gone(watcher, proc->to_string(), 0, "it is not registered");
}

}  // namespace meshbus
