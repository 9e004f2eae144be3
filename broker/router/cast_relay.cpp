#include "broker/router/cast_relay.h"

#include <optional>
#include <utility>

#include "broker/access/dial_policy.h"
#include "broker/router/relay_tables.h"
#include "common/bus/cast.h"
#include "common/security/token.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kRelayLook{250};
/// Bodies of casts that go by other hosts and have not reached all; beyond that each host is sent
/// its own.
constexpr std::size_t kRelayBytes = 32 * 1024 * 1024;

/// Hosts that the broker of that link may have us send to. Nothing when one of them is not.
std::optional<std::vector<HostAddr>> parse_hosts(const std::vector<std::string>& texts,
                                                 const Link& link) {
  const HostAddr& from = link.host();
  // Its processes are on this machine, and belong to a user that both ends have checked.
  const bool is_local = from.transport() == Transport::unix_socket && link.is_dialled();
  if (texts.size() > kMostPassedOn) return std::nullopt;
  std::vector<HostAddr> hosts;
  for (const std::string& text : texts) {
    auto host = HostAddr::parse(text);
    if (!host) return std::nullopt;
    // Another machine has no business with sockets of this one.
    if (from.is_reachable_from_elsewhere() && !host->is_reachable_from_elsewhere())
      return std::nullopt;
    if (!may_dial(*host, is_local)) return std::nullopt;
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

}  // namespace

CastRelay::CastRelay(Reactor& reactor, Router& router, LinkTable& links, Counters& counters,
                     Options options)
    : reactor_(reactor),
      router_(router),
      links_(links),
      counters_(counters),
      options_(options),
      casts_({.bytes = kRelayBytes, .limit = options.delivery_limit}) {}

CastRelay::~CastRelay() {
  reactor_.cancel(timer_);
}

std::uint64_t CastRelay::send(const std::vector<std::uint64_t>& hosts, MessagePart& body) {
  if (hosts.size() <= options_.width || !casts_.has_room(body.size())) return 0;
  std::vector<std::uint64_t> able;
  std::vector<HostAddr> addresses;
  for (const std::uint64_t host : hosts) {
    const Link* link = links_.find(host);
    if (link == nullptr || !link->may_relay() || !casts_.is_reached(host, reactor_.now())) continue;
    able.push_back(host);
    addresses.push_back(link->host());
  }
  if (able.size() <= options_.width || able.size() > kMostPassedOn) return 0;
  const std::uint64_t number = random_u64();
  MessagePart kept, sent;
  kept.share(body);
  sent.share(body);
  casts_.add(number, std::move(kept), std::move(able), reactor_.now());
  spread(number, addresses, sent);
  arm_timer();
  return number;
}

void CastRelay::done(std::uint64_t number, std::uint64_t host) {
  casts_.here(number, host, reactor_.now());
}

void CastRelay::expect(std::uint64_t number, std::uint64_t from, Bytes pass_on) {
  const auto table = decode_table<wire::PassOn>(pass_on);
  const Link* link = links_.find(from);
  auto hosts = table && link != nullptr ? parse_hosts(table->hosts, *link) : std::nullopt;
  if (hosts) expected_.add(from, {number, std::move(*hosts)});
}

void CastRelay::pass_on(std::uint64_t number, std::uint64_t from, MessagePart& body) {
  const Expected* found = expected_.find(from);
  if (found == nullptr) return;
  const Expected expected = *found;
  expected_.add(from, {});
  if (expected.number == number) spread(number, expected.hosts, body);
}

void CastRelay::spread(std::uint64_t number, const std::vector<HostAddr>& hosts,
                       MessagePart& body) {
  for (const CastBranch& branch : cast_branches(hosts.size(), options_.width)) {
    // A host that we do not reach gets the body from the sender's broker.
    const auto link = links_.introduce(hosts[branch.first]);
    if (!link) continue;
    if (branch.count > 1) {
      wire::PassOnT rest;
      for (std::size_t i = branch.first + 1; i < branch.first + branch.count; ++i)
        rest.hosts.push_back(hosts[i].to_string());
      tell(**link, wire::RelayPort::pass_on, number, encode_table<wire::PassOn>(rest), nullptr);
    }
    send_body(**link, number, body);
  }
}

bool CastRelay::send_body(Link& link, std::uint64_t number, MessagePart& body) {
  MessagePart part;
  part.share(body);
  return tell(link, wire::RelayPort::body, number, bytes_of(body.data(), body.size()), &part);
}

void CastRelay::confirm(std::uint64_t number, std::uint64_t host) {
  if (Link* link = links_.find(host)) tell(*link, wire::RelayPort::here, number, {}, nullptr);
}

bool CastRelay::tell(Link& link, wire::RelayPort what, std::uint64_t number, Bytes body,
                     MessagePart* detached) {
  ++counters_.originated;
  wire::Envelope envelope = router_.own_envelope();
  envelope.mutate_destination_host(link.key());
  envelope.mutate_kind(wire::Kind::message);
  if (what != wire::RelayPort::here) envelope.mutate_lane(wire::Lane::data);
  envelope.mutate_flags(kFlagRelay | kFlagNoReturn);
  envelope.mutate_port(static_cast<std::uint32_t>(what));
  envelope.mutate_sequence(number);
  if (link.push(envelope, body, detached)) return true;
  router_.drop(envelope, Drop::not_needed);
  return false;
}

void CastRelay::arm_timer() {
  if (timer_ != 0 || casts_.empty()) return;
  timer_ = reactor_.after(kRelayLook, [this] {
    timer_ = 0;
    casts_.look(reactor_.now(),
                [this](std::uint64_t host, std::uint64_t number, MessagePart& body) {
                  Link* link = links_.find(host);
                  return link == nullptr || send_body(*link, number, body);
                });
    arm_timer();
  });
}

}  // namespace meshbus
