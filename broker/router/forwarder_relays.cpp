// Large casts to many hosts: the body goes by a tree of them, what it belongs to by the link to
// each (relay.fbs).
#include <optional>
#include <utility>
#include <vector>

#include "broker/access/dial_policy.h"
#include "broker/router/forwarder.h"
#include "common/bus/cast.h"
#include "common/security/token.h"
#include "wire/frame_generated.h"
#include "wire/relay_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kRelayLook{250};
/// Hosts that one message may name to be passed on to.
constexpr std::size_t kMostPassedOn = 4096;

template <typename Table>
std::string encode(const typename Table::NativeTableType& native) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, &native));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

/// Nothing when it is not well-formed.
template <typename Table>
std::optional<typename Table::NativeTableType> decode(Bytes body) {
  // Bytes of a frame may stand at any address.
  const std::vector<std::uint8_t> bytes(body.begin(), body.end());
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), 8, 2 * kMostPassedOn);
  if (!verifier.VerifyBuffer<Table>(nullptr)) return std::nullopt;
  typename Table::NativeTableType native;
  flatbuffers::GetRoot<Table>(bytes.data())->UnPackTo(&native);
  return native;
}

/// Hosts that the broker of that link may have us send to. Nothing when there is one that is none
/// of these.
std::optional<std::vector<HostAddr>> parse_hosts(const std::vector<std::string>& texts,
                                                 const Link& link) {
  const HostAddr& from = link.host();
  // Its processes are of this machine, and of a user that both ends have checked.
  const bool is_local = from.transport() == Transport::unix_socket && link.is_dialled();
  if (texts.size() > kMostPassedOn) return std::nullopt;
  std::vector<HostAddr> hosts;
  for (const std::string& text : texts) {
    auto host = HostAddr::parse(text);
    if (!host) return std::nullopt;
    // Sockets of this machine are no business of another one.
    if (from.is_reachable_from_elsewhere() && !host->is_reachable_from_elsewhere())
      return std::nullopt;
    if (!may_dial(*host, is_local)) return std::nullopt;
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

}  // namespace

std::uint64_t Forwarder::relay(const std::vector<std::uint64_t>& hosts, zmq::message_t& body) {
  if (hosts.size() <= options_.cast_width || !relays_.has_room(body.size())) return 0;
  std::vector<std::uint64_t> able;
  std::vector<HostAddr> addresses;
  for (const std::uint64_t host : hosts) {
    const Link* link = find_link(host);
    if (link == nullptr || !link->may_relay() || !relays_.is_reached(host, reactor_.now()))
      continue;
    able.push_back(host);
    addresses.push_back(link->host());
  }
  if (able.size() <= options_.cast_width || able.size() > kMostPassedOn) return 0;
  const std::uint64_t number = random_u64();
  zmq::message_t kept, sent;
  kept.copy(body);
  sent.copy(body);
  relays_.add(number, std::move(kept), std::move(able), reactor_.now());
  pass_on(number, addresses, sent);
  arm_relays();
  return number;
}

std::string Forwarder::elsewhere(std::uint64_t number, Bytes body) {
  const std::string digest = digest_of(body);
  wire::CastElsewhereT table;
  table.number = number;
  table.digest.assign(digest.begin(), digest.end());
  return encode<wire::CastElsewhere>(table);
}

void Forwarder::pass_on(std::uint64_t number, const std::vector<HostAddr>& hosts,
                        zmq::message_t& body) {
  for (const CastBranch& branch : cast_branches(hosts.size(), options_.cast_width)) {
    // Whom we do not reach gets it from the sender's broker.
    const auto link = introduce(hosts[branch.first]);
    if (!link) continue;
    if (branch.count > 1) {
      wire::PassOnT rest;
      for (std::size_t i = branch.first + 1; i < branch.first + branch.count; ++i)
        rest.hosts.push_back(hosts[i].to_string());
      say_relay(**link, wire::RelayPort::pass_on, number, encode<wire::PassOn>(rest), nullptr);
    }
    zmq::message_t part;
    part.copy(body);
    say_relay(**link, wire::RelayPort::body, number, bytes_of(body.data(), body.size()), &part);
  }
}

bool Forwarder::say_relay(Link& link, wire::RelayPort what, std::uint64_t number, Bytes body,
                          zmq::message_t* apart) {
  ++counters_.originated;
  wire::Envelope envelope = own_envelope();
  envelope.mutate_destination_host(link.key());
  envelope.mutate_kind(wire::Kind::message);
  if (what != wire::RelayPort::here) envelope.mutate_lane(wire::Lane::data);
  envelope.mutate_flags(kFlagRelay | kFlagNoReturn);
  envelope.mutate_port(static_cast<std::uint32_t>(what));
  envelope.mutate_sequence(number);
  if (link.push(envelope, body, apart)) return true;
  drop(envelope, Drop::not_needed);
  return false;
}

void Forwarder::on_relay(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart) {
  if (envelope.source_proc() != 0 || envelope.source_host() == own_key_ ||
      envelope.kind() != wire::Kind::message)
    return give_back(envelope, Error(ErrorCode::malformed_message, "only brokers pass casts on"));
  ++counters_.handled;
  const std::uint64_t number = envelope.sequence();
  switch (static_cast<wire::RelayPort>(envelope.port())) {
    case wire::RelayPort::here:
      relays_.here(number, envelope.source_host(), reactor_.now());
      return;
    case wire::RelayPort::pass_on: {
      const auto table = decode<wire::PassOn>(body);
      const Link* from = find_link(envelope.source_host());
      auto hosts = table && from != nullptr ? parse_hosts(table->hosts, *from) : std::nullopt;
      if (hosts) to_pass_on_.add(envelope.source_host(), {number, std::move(*hosts)});
      return;
    }
    case wire::RelayPort::body: break;
    default: return;
  }
  zmq::message_t bytes =
      apart != nullptr ? std::move(*apart) : zmq::message_t(body.data(), body.size());
  if (const ToPassOn* next = to_pass_on_.find(envelope.source_host()); next != nullptr) {
    const ToPassOn to = *next;
    to_pass_on_.add(envelope.source_host(), {});
    if (to.number == number) pass_on(number, to.hosts, bytes);
  }
  arrivals_.add_body(number, std::move(bytes), reactor_.now());
  take_arrivals(arrivals_.take_ready());
  arm_relays();
}

bool Forwarder::hold(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart) {
  const bool is_cast = (envelope.flags() & kFlagElsewhere) != 0;
  if (!is_cast && !arrivals_.is_held(envelope)) return false;
  CastArrivals::Message message;
  message.envelope = envelope;
  if (is_cast) {
    auto table = decode<wire::CastElsewhere>(body);
    const bool is_here =
        envelope.destination_proc() == 0 &&
        (envelope.destination_host() == 0 || envelope.destination_host() == own_key_);
    if (!table || table->number == 0 || (envelope.flags() & kFlagCast) == 0 || !is_here) {
      give_back(envelope, Error(ErrorCode::malformed_message,
                                "a cast whose body is said to be elsewhere, but not which it is"));
      return true;
    }
    message.number = table->number;
    message.digest.assign(table->digest.begin(), table->digest.end());
  } else {
    message.body = apart != nullptr ? std::move(*apart) : zmq::message_t(body.data(), body.size());
  }
  if (!arrivals_.add(std::move(message), reactor_.now())) {
    give_back(envelope,
              Error(ErrorCode::queue_full,
                    "too much waits at " + options_.host.to_string() + " for bodies of casts"));
    return true;
  }
  if (is_cast) take_arrivals(arrivals_.take_ready());
  arm_relays();
  return true;
}

void Forwarder::take_arrivals(std::vector<CastArrivals::Message> messages) {
  for (auto& message : messages) {
    wire::Envelope& envelope = message.envelope;
    if (message.is_late) {
      give_back(envelope,
                Error(ErrorCode::link_lost,
                      "the body of this cast, which was to come by other hosts, did not reach " +
                          options_.host.to_string() + " in time"));
      continue;
    }
    if (message.number != 0) {
      envelope.mutate_flags(envelope.flags() & ~kFlagElsewhere);
      if (Link* link = find_link(envelope.source_host()))
        say_relay(*link, wire::RelayPort::here, message.number, {}, nullptr);
    }
    const Bytes body = bytes_of(message.body.data(), message.body.size());
    deliver(envelope, body, body.size() > kInlineLimit ? &message.body : nullptr, Debts::kNobody);
  }
}

void Forwarder::arm_relays() {
  if (relay_timer_ != 0 || (relays_.empty() && arrivals_.empty())) return;
  relay_timer_ = reactor_.after(kRelayLook, [this] {
    relay_timer_ = 0;
    relays_.look(reactor_.now(),
                 [this](std::uint64_t host, std::uint64_t number, zmq::message_t& body) {
                   Link* link = find_link(host);
                   if (link == nullptr) return true;
                   zmq::message_t part;
                   part.copy(body);
                   return say_relay(*link, wire::RelayPort::body, number,
                                    bytes_of(body.data(), body.size()), &part);
                 });
    take_arrivals(arrivals_.expire(reactor_.now()));
    arm_relays();
  });
}

}  // namespace meshbus
