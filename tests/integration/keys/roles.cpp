// Connections over tcp with keys: which peers are admitted, in which role, and what strangers hear
// (spec 13.1, 13.3).
#include "tests/integration/keys/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/unique_fd.h"
#include "meshbus/key.h"
#include "tests/support/stopwatch.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "tests/world/session_options.h"
#include "tests/world/talker.h"
#include "tests/world/tcp_proxy.h"
#include "wire/bus_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

wire::WatchT watch(const std::string& proc) {
  wire::WatchT watch;
  watch.proc = proc;
  return watch;
}

/// What a session with these keys comes to: the error that ended it, or that it is up.
std::optional<Error> refusal_of(SafeHost& host, const std::function<Result<CurveKeys>()>& keys) {
  TestPeer peer(host.loop, host.endpoint(), launcher_hello(), keys);
  REQUIRE(host.loop.until([&] { return peer.refused || peer.bus->is_up(); }));
  return peer.refused;
}

}  // namespace

TEST_CASE("keys: the role of a launcher is that of its key") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(wire::Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1");
  const auto hello = proc_hello(host.address(), 1);
  TestPeer proc(loop, endpoint_of(*host.broker), hello);
  proc.up();
  CHECK(proc.role == Role::proc);
  for (const auto& [role, name] :
       {std::pair{Role::observe, "eve"}, {Role::proc, "carl"}, {Role::operate, "alice"}}) {
    INFO(name);
    auto peer = attach(host, keys.make(role, name));
    peer->up();
    CHECK(peer->role == role);
    CHECK(peer->ask(Destination::to_broker(), watch(hello.peer)).has_value());
    const auto answer = peer->call(proc.address(), "hello");
    if (role != Role::observe) {
      CHECK(answer == "re: hello");
      continue;
    }
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().code() == ErrorCode::unauthorised);
    REQUIRE(peer->bus->send(proc.address(), 1, "hello").has_value());
    REQUIRE(loop.until([&] { return peer->returned.size() == 1; }));
    CHECK(peer->returned[0].second.code() == ErrorCode::unauthorised);
    CHECK(host.counters().refused_messages == 2);
    CHECK(log.count("(observer eve) is refused") == 1);
  }
  // A peer with the key of a host may do what an operator may, and no more.
  auto other = attach(host, keys.of("127.0.0.1"));
  other->up();
  CHECK(other->role == Role::operate);
  CHECK(proc.received.size() == 2);
  check_conservation(loop, *host.broker);
}

TEST_CASE(
    "keys: procs of a host come in by its unix socket, in whatever order it was told where to "
    "listen") {
  Loop loop;
  KeyFolder keys;
  keys.make(wire::Role::host, "127.0.0.1");
  TempDir dir;
  BrokerOptions options;
  options.binds = {*HostAddr::parse("tcp:127.0.0.1:0"), *HostAddr::parse("unix:" + (dir / "b"))};
  options.tokens = tokens();
  options.keys = keys.directory;
  auto broker = Broker::start(loop.reactor, std::move(options));
  REQUIRE(broker.has_value());
  CHECK((*broker)->binds()[0].transport() == Transport::tcp);
  CHECK((*broker)->address() == (*broker)->binds()[0]);
  CHECK((*broker)->binds()[1] == *HostAddr::parse("unix:" + (dir / "b")));
  TestPeer proc(loop, endpoint_of(**broker, 1), proc_hello((*broker)->address(), 1));
  proc.up();
  CHECK(proc.role == Role::proc);
}

TEST_CASE(
    "keys: who has none, an unknown one, or a wrong one for the host is told so, counted, and "
    "logged once") {
  const LogLines log;
  Loop loop;
  KeyFolder keys, elsewhere;
  keys.make(wire::Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1");
  const auto stranger = elsewhere.make(wire::Role::operate, "mallory");
  const auto known_there = elsewhere.directory.public_path(wire::Role::host, "127.0.0.1");

  auto refused = refusal_of(host, keys_for(stranger, host.address()));
  REQUIRE(refused.has_value());
  INFO(refused->to_string());
  CHECK(refused->detail().find("the public key of host 127.0.0.1 is not known here: put it in " +
                               known_there) != std::string::npos);

  std::filesystem::copy_file(keys.directory.public_path(wire::Role::host, "127.0.0.1"),
                             known_there);
  for (int i = 0; i < 3; ++i) {
    refused = refusal_of(host, keys_for(stranger, host.address()));
    REQUIRE(refused.has_value());
    CHECK(refused->code() == ErrorCode::unauthorised);
    CHECK(refused->detail().find("does not take the key " + stranger.secret_path("mallory")) !=
          std::string::npos);
  }
  CHECK(host.counters().refused_keys == 3);
  CHECK(log.count("its key " + read_key_pair(stranger.secret_path("mallory"))->public_key +
                  " is not in") == 1);

  refused = refusal_of(host, {});
  REQUIRE(refused.has_value());
  CHECK(refused->code() == ErrorCode::unauthorised);
  CHECK(refused->detail().find("connections with keys only") != std::string::npos);
  // Both ends hear of it by themselves.
  REQUIRE(loop.until([&] { return host.counters().refused_handshakes > 0; }));
  loop.run_for(std::chrono::milliseconds(50));
  const auto without = host.counters().refused_handshakes;

  const auto other = elsewhere.make(wire::Role::host, "127.0.0.1");
  refused = refusal_of(host, keys_for(stranger, host.address()));
  REQUIRE(refused.has_value());
  INFO(refused->to_string());
  CHECK(refused->code() == ErrorCode::identity_mismatch);
  CHECK(loop.until([&] { return host.counters().refused_handshakes > without; }));
  CHECK(host.broker->peers() == 0);
}

TEST_CASE("keys: a broker without keys is not spoken to by one who has them") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(wire::Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1", std::nullopt, /*insecure=*/true);
  const auto refused =
      refusal_of(host, keys_for(keys.make(Role::operate, "alice"), host.address()));
  REQUIRE(refused.has_value());
  INFO(refused->to_string());
  CHECK((refused->code() == ErrorCode::unauthorised ||
         refused->code() == ErrorCode::identity_mismatch));
  TestPeer plain(loop, host.endpoint(), launcher_hello());
  plain.up();
  CHECK(plain.role == Role::operate);
}

TEST_CASE("keys: nobody claims more than its key is for") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  keys.make(Role::host, "127.0.0.2");
  const auto alice = keys.make(Role::operate, "alice");
  const auto carl = keys.make(Role::proc, "carl");
  SafeHost host(loop, keys, "127.0.0.1");
  const auto claim = [&](const KeyDirectory& by, wire::HelloT hello) {
    const auto used = by.for_connection(host.address(), std::nullopt);
    REQUIRE(used.has_value());
    RawPeer peer(loop, host.endpoint(), {}, &*used);
    peer.tell(std::move(hello), 0, /*link=*/false);
    const auto answer = peer.next_control();
    REQUIRE(answer.has_value());
    const auto* refusal = answer->body_as<wire::Refusal>();
    return refusal == nullptr ? answer->body_name()
                              : std::string(to_string(from_wire(refusal->code()))) + ": " +
                                    text_of(refusal->detail());
  };
  const auto starts_with = [](const std::string& text, const char* beginning) {
    INFO(text);
    CHECK(text.starts_with(beginning));
  };
  constexpr auto link = wire::PeerKind::link;
  // A link: of people, of another host, of that host.
  for (const auto& by : {alice, carl})
    starts_with(claim(by, hello_of(link, "tcp:127.0.0.2:7420")),
                "unauthorised: the link claims to come from");
  const auto other_host = keys.of("127.0.0.2");
  starts_with(claim(other_host, hello_of(link, "tcp:127.0.0.3:7420")),
              "unauthorised: the link claims to come from");
  starts_with(claim(other_host, hello_of(link, "unix:/run/b")),
              "unauthorised: the link claims to come from");
  starts_with(claim(other_host, hello_of(link, host.address().to_string())), "identity_mismatch");
  starts_with(claim(other_host, hello_of(link, "tcp:127.0.0.2:7420")), "Welcome");
  // A controller, with the key of a client.
  const auto controller = hello_of(wire::PeerKind::controller, "controller");
  starts_with(claim(carl, controller), "unauthorised: a controller needs the key of an operator");
  starts_with(claim(alice, controller), "Welcome");
  // A proc, and the agent, even with what proves them: these are on the host itself.
  auto proc = proc_hello(host.address(), 3);
  starts_with(claim(alice, proc), "unauthorised: agents and procs connect by the unix socket");
  proc.token.clear();
  starts_with(claim(alice, proc), "unauthorised");
  auto agent = hello_of(wire::PeerKind::agent, "service");
  agent.token = tokens().make(ProcId(host.address(), *ProcName::parse("service")).to_string(),
                              agent.incarnation);
  starts_with(claim(other_host, agent),
              "unauthorised: agents and procs connect by the unix socket");
  // Another launcher's name and incarnation, which every receiver of its messages knows: while that
  // launcher is connected, and after it has left.
  const auto victim = launcher_hello();
  auto peer = attach(host, alice, victim);
  peer->up();
  starts_with(claim(carl, victim), "identity_mismatch: the name");
  CHECK(peer->downs == 0);
  peer.reset();
  REQUIRE(loop.until([&] { return host.broker->peers() == 0; }));
  starts_with(claim(carl, victim), "identity_mismatch: the name");
  starts_with(claim(alice, victim), "Welcome");
  CHECK(host.counters().refused_hellos == 11);
}

TEST_CASE("keys: what was recorded of a connection opens none") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  TcpProxy proxy(loop);
  proxy.record();
  const std::string name = "127.0.0.1:" + std::to_string(proxy.port());
  keys.make(Role::host, name);
  SafeHost host(loop, keys, "127.0.0.1", proxy.port());
  proxy.set_target(host.port());
  const auto hello = launcher_hello();
  {
    TestPeer peer(loop, "tcp://" + name, hello,
                  keys_for(keys.make(Role::operate, "alice"), host.address()));
    peer.up();
    REQUIRE(peer.ask(Destination::to_broker(), watch(host.address().to_string() + ",service"))
                .has_value());
  }
  REQUIRE(loop.until([&] { return host.broker->peers() == 0; }));
  const auto before = host.counters();
  // After a greeting of CURVE nothing is in clear: not the name of the peer in its Hello, either.
  CHECK(proxy.sent().substr(12, 20) == "CURVE" + std::string(15, '\0'));
  REQUIRE_FALSE(hello.peer.empty());
  for (const std::string& word : {hello.peer, std::string("MBC1"), std::string("DEALER")}) {
    CAPTURE(word);
    CHECK(proxy.sent().find(word) == std::string::npos);
  }

  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(host.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::send(fd.get(), proxy.sent().data(), proxy.sent().size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(proxy.sent().size()));
  REQUIRE(
      loop.until([&] { return host.counters().refused_handshakes > before.refused_handshakes; }));
  CHECK(host.broker->peers() == 0);
  CHECK(host.counters().received == before.received);
  CHECK(host.counters().handled == before.handled);
}

TEST_CASE(
    "keys: a revoked key's connections end, a new key works at once, a moved one gets its new "
    "role") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1");
  const auto alice = keys.make(Role::operate, "alice");
  auto peer = attach(host, alice);
  auto other = attach(host, keys.make(Role::operate, "bob"));
  peer->up();
  other->up();

  keys.revoke(Role::operate, "alice");
  REQUIRE(loop.until([&] { return peer->refused.has_value(); }));
  CHECK(peer->refused->code() == ErrorCode::unauthorised);
  CHECK(peer->refused->detail().find("or not any more") != std::string::npos);
  CHECK(host.broker->peers() == 1);
  CHECK(log.count("is cut off: its key is no longer authorised") == 1);
  CHECK(refusal_of(host, keys_for(alice, host.address())).has_value());

  const Stopwatch since;
  auto new_one = attach(host, keys.make(Role::operate, "zoe"));
  new_one->up();
  CHECK(since.elapsed() <
        900ms);  // not at the next look at the folder, a second after the last one

  std::filesystem::rename(keys.directory.public_path(Role::operate, "bob"),
                          keys.directory.public_path(Role::observe, "bob"));
  REQUIRE(loop.until([&] { return other->role == Role::observe; }));
  CHECK(other->downs == 1);
  CHECK(new_one->downs == 0);
}

TEST_CASE("keys: what cannot be trusted lets nobody in, and cuts nobody off") {
  LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1");
  auto peer = attach(host, keys.make(Role::operate, "alice"));
  peer->up();
  const auto folder =
      std::filesystem::path(keys.directory.public_path(Role::operate, "x")).parent_path();
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  const auto mallory = keys.make(Role::operate, "mallory");
  CHECK(refusal_of(host, keys_for(mallory, host.address())).has_value());
  REQUIRE(loop.until([&] { return log.count("new keys let nobody in") == 1; }));
  CHECK(log.count("chmod go-w " + folder.string()) == 1);
  CHECK(peer->downs == 0);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  attach(host, mallory)->up();
  CHECK(peer->downs == 0);

  // A file with a secret in it is no public key.
  std::filesystem::copy_file(keys.directory.secret_path("mallory"),
                             keys.directory.public_path(Role::host, "127.0.0.9"));
  REQUIRE(loop.until([&] { return log.count("127.0.0.9.pub has a secret key in it") == 1; }));
  for (const auto& line : log.lines)
    CHECK(line.find(read_key_pair(mallory.secret_path("mallory"))->secret_key) ==
          std::string::npos);
}

TEST_CASE(
    "keys: between two brokers neither bodies nor names nor tokens are on the wire; without keys "
    "they are") {
  const LogLines log;
  const std::string secret = "a body that nobody else is to read";
  for (const bool insecure : {true, false}) {
    INFO("insecure " << insecure);
    Loop loop;
    KeyFolder keys;
    std::vector<std::unique_ptr<TcpProxy>> proxies;
    std::vector<std::unique_ptr<SafeHost>> hosts;
    for (std::size_t i = 0; i < 2; ++i) {
      proxies.push_back(std::make_unique<TcpProxy>(loop));
      proxies[i]->record();
      keys.make(Role::host, "127.0.0.1:" + std::to_string(proxies[i]->port()));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      hosts.push_back(
          std::make_unique<SafeHost>(loop, keys, "127.0.0.1", proxies[i]->port(), insecure));
      proxies[i]->set_target(hosts[i]->port());
    }
    const auto hello = launcher_hello();
    const auto there = proc_hello(hosts[1]->address(), 5);
    TestPeer launcher(loop, endpoint_of(*hosts[0]->broker), hello);
    TestPeer proc(loop, endpoint_of(*hosts[1]->broker), there);
    launcher.up();
    proc.up();
    REQUIRE(launcher.call(proc.address(), secret) == "re: " + secret);
    REQUIRE(
        launcher.ask(Destination::to_broker(hosts[1]->address()), watch(there.peer)).has_value());
    // Tokens stay on their host in any case; here one goes as a body.
    const std::string token(there.token.begin(), there.token.end());
    REQUIRE(launcher.call(proc.address(), token) == "re: " + token);
    std::string wire;
    for (const auto& proxy : proxies) wire += proxy->sent() + proxy->answered();
    REQUIRE(wire.size() > 1000);
    const auto is_on_wire = [&](const std::string& text) {
      return wire.find(text) != std::string::npos;
    };
    for (const std::string& text : {secret, hello.peer, there.peer, std::string("trainers"),
                                    hosts[0]->address().to_string(), token}) {
      if (insecure && text == hello.peer) continue;  // a launcher's name does not leave its host
      INFO(text);
      CHECK(is_on_wire(text) == insecure);
    }
    CHECK(is_on_wire("CURVE") == !insecure);
  }
}

TEST_CASE("keys: a host's key is replaced under load, and nothing is lost") {
  LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  keys.make(Role::host, "127.0.0.2");
  SafeHost one(loop, keys, "127.0.0.1"), two(loop, keys, "127.0.0.2");
  Talker a(loop, *one.broker), b(loop, *two.broker);
  REQUIRE(loop.until([&] { return a.bus->is_up() && b.bus->is_up(); }));
  const auto talk = [&](const std::function<bool()>& until) {
    REQUIRE(loop.until(
        [&] {
          for (int n = 0; n < 20 && a.sent - b.received < 300; ++n) a.say(b, 200);
          for (int n = 0; n < 20 && b.sent - a.received < 300; ++n) b.say(a, 200);
          return until();
        },
        60s));
  };
  const auto talk_on = [&] {
    const auto received = std::pair(a.received, b.received);
    talk([&] { return a.received > received.first + 1000 && b.received > received.second + 1000; });
  };
  talk_on();
  for (const auto* host : {&one, &two}) {
    const std::string name(host->address().host());
    const auto old = read_key_pair(keys.directory.secret_path(name))->public_key;
    const auto pair = *KeyPair::make();
    REQUIRE(write_public_keys(keys.directory.public_path(Role::host, name), {pair.public_key, old},
                              name)
                .has_value());
    REQUIRE(write_key_pair(keys.directory.secret_path(name), pair, name).has_value());
    talk([&] { return log.count("this host has a new key, " + pair.public_key) == 1; });
    talk_on();
    // A peer that connects now meets the new key.
    auto peer = attach(*host, keys.make(Role::operate, "alice"));
    peer->up();
    REQUIRE(write_public_keys(keys.directory.public_path(Role::host, name), {pair.public_key}, name)
                .has_value());
    talk([&, until = std::chrono::steady_clock::now() + 1500ms] {
      return std::chrono::steady_clock::now() > until;
    });
    talk_on();
    CHECK(peer->downs == 0);
  }
  REQUIRE(loop.until(
      [&] { return a.bus->traffic().outstanding == 0 && b.bus->traffic().outstanding == 0; }, 60s));
  CHECK(a.silently_lost(b).empty());
  CHECK(b.silently_lost(a).empty());
  CHECK(a.told_numbers.empty());
  CHECK(b.told_numbers.empty());
  CHECK(a.problems.empty());
  CHECK(b.problems.empty());
  CHECK(a.sent == b.received);
  CHECK(b.sent == a.received);
  MESSAGE((a.sent + b.sent) << " messages; "
                            << (one.counters().replayed_frames + two.counters().replayed_frames)
                            << " frames sent again");
}

TEST_CASE("keys: a host that is thrown out is not linked to any more, either way") {
  LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  keys.make(Role::host, "127.0.0.2");
  SafeHost one(loop, keys, "127.0.0.1"), two(loop, keys, "127.0.0.2");
  TestPeer a(loop, endpoint_of(*one.broker), launcher_hello()),
      b(loop, endpoint_of(*two.broker), launcher_hello());
  a.up();
  b.up();
  REQUIRE(a.call(b.address(), "there?") == "re: there?");
  keys.revoke(Role::host, "127.0.0.2");
  REQUIRE(loop.until([&] { return log.count("not known here") > 0; }));
  const auto answer = a.call(b.address(), "still there?");
  REQUIRE_FALSE(answer.has_value());
  INFO(answer.error().to_string());
  CHECK((answer.error().code() == ErrorCode::unroutable ||
         answer.error().code() == ErrorCode::configuration_error));
  CHECK(answer.error().detail().find("127.0.0.2.pub") != std::string::npos);
  REQUIRE(loop.until([&] { return one.broker->peers() == 1; }));
}
