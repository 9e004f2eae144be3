#include "broker/handshake.h"

#include <sys/socket.h>

#include <utility>

#include "broker/access/dial_policy.h"
#include "common/bus/cast.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kTimeoutsLook{250};

}  // namespace

Handshake::Handshake(Reactor& reactor, Listener& listener, ConnectionTable& connections,
                     Router& router, LinkTable& links, Counters& counters, KeyService* keys,
                     Monitor* monitor, AuditTrail* audit, Options options)
    : reactor_(reactor),
      listener_(listener),
      connections_(connections),
      router_(router),
      links_(links),
      counters_(counters),
      keys_(keys),
      monitor_(monitor),
      audit_(audit),
      admission_(options.admission, std::move(options.tokens)),
      timeouts_(options.limits) {
  if (keys_ != nullptr)
    joining_.emplace(*keys_, router_.own().address(), std::move(options.admission.protocol));
}

Handshake::~Handshake() {
  reactor_.cancel(timer_);
}

std::optional<Admitted> Handshake::on_frame(ConnectionId from, std::vector<MessagePart>& parts) {
  if (refused_.contains(from)) {
    ++counters_.ignored_frames;
    return std::nullopt;
  }
  auto reader = FrameReader::open(parts);
  if (!reader && reader.error().code() != ErrorCode::version_mismatch) {
    give_up_on(listener_.descriptor_of(from), counters_.malformed_frames);
    return std::nullopt;
  }
  const Listener::Origin origin = listener_.origin_of(from);
  PendingConnection connection{from, origin.descriptor, credentials_of(origin)};
  if (!reader) {
    ++counters_.malformed_frames;
    refuse(connection, reader.error());
    return std::nullopt;
  }
  const auto message = read_hello(connection, *reader);
  if (!message) return std::nullopt;
  const auto& hello = *message->body_as<wire::Hello>();
  if (const TokenRecord* token = token_of(connection.credentials)) {
    join(connection, *token, hello);
    return std::nullopt;
  }
  auto identity = identify(connection, hello);
  // The link is cut on purpose: an answer would come through.
  if (!identity && identity.error().code() == ErrorCode::link_lost) {
    give_up_on(connection.descriptor, counters_.ignored_frames);
    return std::nullopt;
  }
  if (!identity) {
    refuse(connection, identity.error());
    return std::nullopt;
  }
  // Connections of local processes come with every command; those over tcp are told.
  if (audit_ != nullptr && !connection.credentials.uid)
    audit_->note(AuditedPrincipal::of(*identity), "connect", {}, "ok");
  return Admitted{std::move(connection), std::move(*identity), std::move(*reader)};
}

std::optional<ControlMessage> Handshake::read_hello(PendingConnection& connection,
                                                    FrameReader& reader) {
  FrameReader::Message message;
  if (!reader.next(message) || message.envelope.kind() != wire::Kind::control) {
    give_up_on(connection.descriptor, counters_.ignored_frames);
    return std::nullopt;
  }
  auto control = ControlMessage::decode(message.body);
  if (!control) {
    give_up_on(connection.descriptor, counters_.malformed_frames);
    return std::nullopt;
  }
  if (control->body_as<wire::Hello>() == nullptr) {
    give_up_on(connection.descriptor, counters_.ignored_frames);
    limited_log_.info("a connection from " + connection.credentials.address +
                      " that has not registered sent " + control->body_name());
    return std::nullopt;
  }
  return std::move(*control);
}

void Handshake::give_up_on(int descriptor, std::uint64_t& counter) {
  ++counter;
  timeouts_.refused(descriptor, reactor_.now());
}

Result<Identity> Handshake::identify(const PendingConnection& connection,
                                     const wire::Hello& hello) {
  auto identity = admission_.admit(hello, connection.credentials);
  if (!identity) return identity;
  const auto may =
      identity->is_link() ? may_link(connection, *identity) : router_.routes().may_add(*identity);
  if (!may) return fail(may.error());
  return identity;
}

Result<void> Handshake::may_link(const PendingConnection& connection, const Identity& identity) {
  const auto other = HostAddr::parse(identity.text);
  if (!other) return {};
  // A link that came over tcp does not make us connect to a socket of this machine, whatever
  // address it claims.
  const bool is_dialled = may_dial(*other, connection.credentials.uid.has_value()).has_value() &&
                          links_.may_dial(*other).has_value();
  auto link = links_.introduce(*other, is_dialled);
  return link ? (*link)->may_attach(identity.incarnation) : fail(link.error());
}

const TokenRecord* Handshake::token_of(const Credentials& credentials) const {
  if (keys_ == nullptr || credentials.key.empty() || credentials.holder) return nullptr;
  return keys_->find_token(credentials.key);
}

void Handshake::join(const PendingConnection& connection, TokenRecord token,
                     const wire::Hello& hello) {
  const std::string& address = connection.credentials.address;
  const auto answer = joining_->take(token, hello, address);
  if (!answer)
    return refuse(connection,
                  answer.error().within("the token for host " + token.name + ", from " + address));
  audit(connection.credentials, "join", "host " + token.name, "ok");
  wire::Envelope envelope = router_.own().session_envelope();
  envelope.mutate_kind(wire::Kind::message);
  FrameWriter writer(wire::Lane::control);
  writer.add(envelope, *answer);
  Frame frame = writer.finish();
  listener_.send(connection.id, frame);
  // It is no peer, and has nothing more to say.
  refused_.insert(connection.id);
}

void Handshake::refuse(const PendingConnection& connection, const Error& error) {
  ++counters_.refused_hellos;
  audit(connection.credentials, "connect", {}, "refused: " + error.detail());
  limited_log_.warn("a peer is refused: " + cut_text(error.to_string()));
  if (monitor_ != nullptr) monitor_->peer_refused(error);
  refused_.insert(connection.id);
  timeouts_.refused(connection.descriptor, reactor_.now());
  wire::RefusalT refusal;
  refusal.code = to_wire(error.code());
  refusal.detail = cut_text(error.detail());
  FrameWriter writer(wire::Lane::control);
  writer.add(router_.own().session_envelope(), encode_control({}, std::move(refusal)));
  Frame frame = writer.finish();
  listener_.send_behind(connection.id, frame);
}

void Handshake::audit(const Credentials& credentials, const std::string& verb,
                      const std::string& what, const std::string& outcome) {
  if (audit_ == nullptr) return;
  AuditedPrincipal principal{.by = credentials.principal(wire::Role::none),
                             .address = credentials.address};
  if (credentials.holder) principal.by = credentials.holder->to_string();
  audit_->note(principal, verb, what, outcome);
}

Credentials Handshake::credentials_of(const Listener::Origin& origin) const {
  if (origin.process) return Credentials::of_process(origin.process->uid, origin.process->pid);
  auto credentials = Credentials::of_address(origin.address);
  if (keys_ == nullptr) return credentials;
  // All connections over tcp have keys then.
  credentials.key = origin.user;
  if (const KeyHolder* holder = keys_->find(credentials.key)) credentials.holder = *holder;
  return credentials;
}

void Handshake::on_opened(int descriptor) {
  timeouts_.opened(descriptor, reactor_.now());
  arm_timer();
}

void Handshake::arm_timer() {
  if (timer_ == 0) timer_ = reactor_.after(kTimeoutsLook, [this] { on_timer(); });
}

void Handshake::on_timer() {
  timer_ = 0;
  for (const int descriptor : timeouts_.take_overdue(reactor_.now())) {
    if (connections_.find_descriptor(descriptor) == nullptr) ::shutdown(descriptor, SHUT_RDWR);
  }
  if (!timeouts_.empty()) arm_timer();
}

}  // namespace meshbus
