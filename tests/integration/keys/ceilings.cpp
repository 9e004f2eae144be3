// What a host vouches for at other hosts, keys that end, and names that cannot be chosen (spec 2.6,
// 13.4): the attacks S5, S6 and S11 of an audit, and others of their kind.
#include "tests/integration/keys/fixture.h"

#include <ctime>

#include "meshbus/key.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

void change_grant(const KeyFolder& keys, Role role, const std::string& name,
                  const std::function<void(KeyGrant&)>& change) {
  const auto path = keys.directory.public_path(role, name);
  auto grants = read_key_grants(path);
  REQUIRE(grants.has_value());
  for (KeyGrant& one : *grants) change(one);
  REQUIRE(write_key_grants(path, *grants, name).has_value());
}

wire::IntroduceT introduction_of(const std::string& host) {
  wire::IntroduceT introduce;
  introduce.host = host;
  return introduce;
}

wire::Envelope message_for(const Destination& to) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(to.proc);
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_lane(wire::Lane::data);
  return envelope;
}

/// The role that an operator of one host has at another one, which opens the link if `is_asked`.
Role role_at(Loop& loop, SafeHost& from, SafeHost& to, bool is_asked) {
  TestPeer operator_here(loop, endpoint_of(*from.broker), launcher_hello());
  TestPeer receiver(loop, endpoint_of(*to.broker), launcher_hello());
  operator_here.up();
  receiver.up();
  CHECK(operator_here.role == Role::operate);
  if (is_asked) {
    const auto first = receiver.call(operator_here.address(), "first");
    // The link is open also when the ceiling of the receiver's host lets it only look.
    if (!first) CHECK(first.error().code() == ErrorCode::unauthorised);
  }
  const auto answer = operator_here.call(receiver.address(), "?");
  if (!answer) {
    // Observers look, and send nothing.
    CHECK(answer.error().code() == ErrorCode::unauthorised);
    return Role::observe;
  }
  return receiver.received.back().first.role();
}

/// What a connection with this Hello hears.
std::string heard(SafeHost& host, const KeyDirectory& by, wire::HelloT hello) {
  const auto used = by.for_connection(host.address(), std::nullopt);
  REQUIRE(used.has_value());
  RawPeer peer(host.loop, host.endpoint(), {}, &*used);
  peer.tell(std::move(hello), 0, /*link=*/false);
  const auto answer = peer.next_control();
  REQUIRE(answer.has_value());
  const auto* refusal = answer->body_as<wire::Refusal>();
  return refusal == nullptr ? answer->body_name() : text_of(refusal->detail());
}

}  // namespace

TEST_CASE("attacks S6: an operator of one host is at another what the ceiling of its host says") {
  for (const Role ceiling : {Role::operate, Role::proc, Role::observe}) {
    for (const bool is_asked : {false, true}) {
      const LogLines log;
      Loop loop;
      KeyFolder keys;
      keys.make(Role::host, "127.0.0.1");
      keys.make(Role::host, "127.0.0.2");
      change_grant(keys, Role::host, "127.0.0.1", [&](KeyGrant& one) { one.ceiling = ceiling; });
      SafeHost limited(loop, keys, "127.0.0.1"), other(loop, keys, "127.0.0.2");
      CAPTURE(is_asked);
      CHECK(role_at(loop, limited, other, is_asked) == ceiling);
      // The other host has no ceiling.
      CHECK(role_at(loop, other, limited, is_asked) == Role::operate);
    }
  }
}

TEST_CASE("attacks: a ceiling that is lowered ends what the link had, within a second or so") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  keys.make(Role::host, "127.0.0.2");
  SafeHost one(loop, keys, "127.0.0.1"), other(loop, keys, "127.0.0.2");
  TestPeer mallory(loop, endpoint_of(*one.broker), launcher_hello());
  TestPeer receiver(loop, endpoint_of(*other.broker), launcher_hello());
  mallory.up();
  receiver.up();
  REQUIRE(mallory.call(receiver.address(), "?").has_value());
  CHECK(receiver.received.back().first.role() == Role::operate);
  change_grant(keys, Role::host, "127.0.0.1", [](KeyGrant& key) { key.ceiling = Role::proc; });
  REQUIRE(loop.until([&] { return log.count("the ceiling of its key is another one now") > 0; }));
  REQUIRE(loop.until([&] {
    return mallory.call(receiver.address(), "?").has_value() &&
           receiver.received.back().first.role() == Role::proc;
  }));
}

TEST_CASE("attacks S6: a limited host's own key makes no operator either") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  const auto thief = keys.make(Role::host, "127.0.0.2");
  change_grant(keys, Role::host, "127.0.0.2", [](KeyGrant& one) { one.ceiling = Role::observe; });
  SafeHost host(loop, keys, "127.0.0.1");
  const auto peer = attach(host, thief);
  peer->up();
  CHECK(peer->role == Role::observe);
  CHECK(heard(host, thief, hello_of(wire::PeerKind::controller, "controller"))
            .find("a controller needs the key of an operator") == 0);
}

TEST_CASE("attacks: a link speaks for no proc of the host that it talks to") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  const auto thief = keys.make(Role::host, "127.0.0.2");
  SafeHost host(loop, keys, "127.0.0.1");
  TestPeer boss(loop, endpoint_of(*host.broker), launcher_hello());
  TestPeer receiver(loop, endpoint_of(*host.broker), launcher_hello());
  boss.up();
  receiver.up();
  const auto used = thief.for_connection(host.address(), std::nullopt);
  REQUIRE(used.has_value());
  RawPeer link(loop, host.endpoint(), {}, &*used);
  const auto other = *HostAddr::parse("tcp:127.0.0.2:7420");
  link.tell(hello_of(wire::PeerKind::link, other.to_string(), 5), 0, /*link=*/true);
  REQUIRE(link.next_control()->body_name() == "Welcome");
  auto envelope = message_for(receiver.address());
  envelope.mutate_source_host(other.key());
  envelope.mutate_role(Role::operate);
  envelope.mutate_source_proc(boss.bus->self()->key());
  link.send_message(envelope, "as boss", true);
  envelope.mutate_source_proc(77);
  link.send_message(envelope, "as its own", true);
  REQUIRE(loop.until([&] { return !receiver.received.empty(); }));
  CHECK(receiver.received.size() == 1);
  CHECK(receiver.received.front().second == "as its own");
  CHECK(host.counters().dropped[static_cast<std::size_t>(Drop::false_source)] == 1);
}

TEST_CASE("attacks S5: observers and clients choose no name, so none with somebody else's key") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  const auto alice = keys.make(Role::operate, "alice");
  SafeHost host(loop, keys, "127.0.0.1");
  for (const Role role : {Role::observe, Role::proc}) {
    const auto eve = keys.make(role, "eve" + std::to_string(static_cast<int>(role)));
    // A uuid that fits what she wants, without what it was drawn from, or with that of another.
    auto chosen = hello_of(wire::PeerKind::launcher, "client-13Se1Maqzryj");
    CHECK(heard(host, eve, chosen).find("observers and clients may not choose their name") == 0);
    chosen.token = LauncherName::draw().proof;
    CHECK(heard(host, eve, chosen).find("observers and clients may not choose their name") == 0);
    CHECK(heard(host, eve, launcher_hello()) == "Welcome");
    // The name of another launcher, which is about to come to this host.
    auto victim = launcher_hello();
    auto squatter = victim;
    squatter.token = LauncherName::draw().proof;
    CHECK(heard(host, eve, squatter).find("observers and clients may not choose") == 0);
    CHECK(heard(host, alice, victim) == "Welcome");
  }
}

TEST_CASE(
    "attacks S5, S11: an observer introduces no host whose key is not known, and reads no path") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  keys.make(Role::host, "127.0.0.2");
  const auto eve = keys.make(Role::observe, "eve");
  SafeHost host(loop, keys, "127.0.0.1"), other(loop, keys, "127.0.0.2");
  const auto peer = attach(host, eve);
  peer->up();
  for (const std::string name :
       {"tcp:127.0.0.9:1", "tcp:nobody:7420", "tcp:..:1", "unix:/run/secret", "unix:@x"}) {
    const auto answer = peer->ask(Destination::to_broker(), introduction_of(name));
    CAPTURE(name);
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().detail().find(keys.directory.path()) == std::string::npos);
    CHECK(answer.error().detail().find("/authorised/host/..") == std::string::npos);
  }
  // Nor does a key that was taken away tell one, and nobody else is disturbed.
  keys.revoke(Role::host, "127.0.0.2");
  const auto answer =
      peer->ask(Destination::to_broker(), introduction_of(other.address().to_string()));
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().detail().find("has no valid key of host 127.0.0.2") != std::string::npos);
  CHECK(answer.error().detail().find(keys.directory.path()) == std::string::npos);
}

TEST_CASE("keys: one that expires is refused with a sentence, and cuts off who used it") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  const auto alice = keys.make(Role::operate, "alice");
  SafeHost host(loop, keys, "127.0.0.1");
  change_grant(keys, Role::operate, "alice",
               [](KeyGrant& one) { one.expires = std::time(nullptr) + 4; });
  auto peer = attach(host, alice);
  peer->up();
  CHECK(peer->role == Role::operate);
  REQUIRE(loop.until([&] { return peer->refused.has_value(); }, 30s));
  CHECK(peer->refused->code() == ErrorCode::unauthorised);
  CHECK(peer->refused->detail().find("the key of operator alice expired at 20") !=
        std::string::npos);
  CHECK(peer->refused->detail().find("meshbus keygen --rotate operator alice") !=
        std::string::npos);
  CHECK(log.count("is cut off: the key of operator alice expired") == 1);
  // A new date lets it in again.
  change_grant(keys, Role::operate, "alice", [](KeyGrant& one) { one.expires.reset(); });
  REQUIRE(loop.until([&] { return heard(host, alice, launcher_hello()) == "Welcome"; }));
}
