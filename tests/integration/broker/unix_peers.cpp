// Unix sockets of other users, and brokers that are made to connect to them (spec 13.4): a host
// that listens there is not believed, and nobody from elsewhere can have a broker look for one.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "common/base/unix_address.h"
#include "meshbus/key.h"
#include "tests/integration/keys/fixture.h"
#include "tests/integration/needs.h"
#include "tests/world/raw_peer.h"
#include "tests/world/strangers_zmtp.h"
#include "wire/lifecycle_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

constexpr uid_t kOther = 65534;
constexpr uid_t kThird = 65533;

/// Makes this thread another user for the kernel until the end of the scope. Other threads keep
/// theirs.
class AsUser {
 public:
  explicit AsUser(uid_t uid) {
    REQUIRE(::syscall(SYS_setresuid, -1L, static_cast<long>(uid), -1L) == 0);
  }
  ~AsUser() {
    ::syscall(SYS_setresuid, -1L, 0L, -1L);
    // A change of user forbids core files and tracing, which the search for leaks needs.
    ::prctl(PR_SET_DUMPABLE, 1);
  }
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
};

/// Listens at a path and says the same to everybody, at the level of bytes: what a broker would, or
/// would not.
class FakeBroker {
 public:
  /// The listener is of that user, when there is one given.
  FakeBroker(std::string path, std::string words, std::optional<uid_t> uid = std::nullopt)
      : words_(std::move(words)),
        listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const UnixAddress address(path);
    REQUIRE(::bind(listener_.get(), address.get(), address.size()) == 0);
    // The kernel notes the user that begins to listen.
    std::optional<AsUser> other;
    if (uid) other.emplace(*uid);
    REQUIRE(::listen(listener_.get(), 16) == 0);
  }
  /// Takes, says and hears what there is.
  void turn() {
    for (;;) {
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) break;
      ++accepted;
      ::send(fd.get(), words_.data(), words_.size(), MSG_NOSIGNAL);
      connections_.push_back(std::move(fd));
    }
    char buffer[4096];
    for (const UniqueFd& fd : connections_) {
      ssize_t got = 0;
      while ((got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0)
        heard.append(buffer, static_cast<std::size_t>(got));
    }
  }

  int accepted = 0;
  std::string heard;

 private:
  std::string words_;
  UniqueFd listener_;
  std::vector<UniqueFd> connections_;
};

std::string bytes_of_frame(const wire::Envelope& envelope, const std::string& body) {
  FrameWriter writer(wire::Lane::control, /*link=*/true);
  writer.add(envelope, body);
  Frame frame = writer.finish();
  return zmtp_frame(frame.parts.at(0).view(), /*has_more=*/false);
}

std::string welcome_of(const HostAddr& host) {
  wire::WelcomeT welcome;
  const Protocol protocol;
  welcome.version = protocol.newest;
  welcome.release = protocol.release;
  welcome.host = host.to_string();
  welcome.incarnation = 7;
  welcome.role = Role::operate;
  welcome.heartbeat_ms = 5000;
  wire::Envelope envelope;
  envelope.mutate_source_host(host.key());
  envelope.mutate_source_incarnation(7);
  envelope.mutate_kind(wire::Kind::control);
  envelope.mutate_lane(wire::Lane::control);
  envelope.mutate_role(Role::broker);
  return bytes_of_frame(envelope, encode_control({}, std::move(welcome)));
}

/// An operator of the host `from` orders the agent of `to` to end everything.
std::string order_of(const HostAddr& from, const HostAddr& to) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(host_service(to).key());
  envelope.mutate_destination_host(to.key());
  envelope.mutate_source_proc(key_of(from.to_string() + ",client-13Se1Maqzryj"));
  envelope.mutate_source_host(from.key());
  envelope.mutate_source_incarnation(9);
  envelope.mutate_sequence(1);
  envelope.mutate_kind(wire::Kind::control);
  envelope.mutate_lane(wire::Lane::control);
  envelope.mutate_role(Role::operate);
  return bytes_of_frame(envelope,
                        encode_control({.id = 7, .deadline_ms = 10000}, wire::ShutdownHostT()));
}

wire::HelloT agent_hello(const HostAddr& host) {
  auto hello = hello_of(wire::PeerKind::agent, host_service(host).to_string());
  hello.token = tokens().make(hello.peer, hello.incarnation);
  return hello;
}

wire::IntroduceT introduction(const HostAddr& host) {
  wire::IntroduceT introduce;
  introduce.host = host.to_string();
  return introduce;
}

/// A broker on an abstract socket, which a process of any user can reach.
struct OpenBroker {
  std::string name = "@meshbus-test-" + Name::make("open")->to_string();
  Loop loop;
  std::unique_ptr<Broker> broker = start_broker(loop, "unix:" + name);
};

}  // namespace

TEST_CASE("unix peers: a broker of another user is not believed, whoever introduces it" *
          doctest::test_suite(need::root)) {
  const LogLines log;
  Loop loop;
  TempDir dir;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1");
  RawPeer agent(loop, endpoint_of(*host.broker));
  REQUIRE(agent.greet(agent_hello(host.address())) == "Welcome");

  const auto evil = *HostAddr::parse("unix:" + (dir / "s"));
  FakeBroker fake(
      dir / "s",
      zmtp_greeting() + zmtp_ready("ROUTER") + welcome_of(evil) + order_of(evil, host.address()),
      kOther);
  auto eve = attach(host, keys.make(Role::observe, "eve"));
  eve->up();
  const auto introduced = eve->ask(Destination::to_broker(), introduction(evil));
  auto asked = eve->ask(Destination::to_agent(evil), wire::GetHostT());
  for (int i = 0; i < 40; ++i) {
    loop.run_for(5ms);
    fake.turn();
  }
  // The order of that host's "operator" does not arrive.
  CHECK_FALSE(agent.next(200ms).has_value());
  CHECK(fake.accepted == 0);
  REQUIRE_FALSE(introduced.has_value());
  CHECK(introduced.error().code() == ErrorCode::unauthorised);
  REQUIRE_FALSE(asked.has_value());
  CHECK(asked.error().code() == ErrorCode::unauthorised);

  // A process of this user may have its broker connect, and hears which user listens there.
  TestPeer launcher(loop, endpoint_of(*host.broker), launcher_hello());
  launcher.up();
  CHECK(launcher.ask(Destination::to_broker(), introduction(evil)).has_value());
  asked = launcher.ask(Destination::to_agent(evil), wire::GetHostT());
  REQUIRE_FALSE(asked.has_value());
  INFO(asked.error().to_string());
  CHECK(asked.error().code() == ErrorCode::unauthorised);
  CHECK(asked.error().detail().find("user 65534 listens there") != std::string::npos);
  fake.turn();
  CHECK(fake.accepted >= 1);
  loop.run_for(100ms);
  fake.turn();
  CHECK(fake.heard.empty());
  CHECK_FALSE(agent.next(200ms).has_value());
}

TEST_CASE("unix peers: over tcp nobody finds out which unix paths there are") {
  LogLines log;
  log::set_least(log::Level::warn);
  Loop loop;
  TempDir dir;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1");
  const auto neighbour = start_broker(loop, "unix:" + (dir / "b"));
  std::ofstream(dir / "file") << "no socket";
  std::vector<std::string> paths = {dir / "none", dir / "file", dir / "b",
                                    "@nobody",    "/root/x",    "/no/such/folder/s"};
  std::optional<FakeBroker> fake;
  if (is_met(need::root)) {
    fake.emplace(dir / "s", zmtp_greeting(), kOther);
    paths.push_back(dir / "s");
  } else {
    MESSAGE("not root: no socket of another user is tried");
  }
  // One of them the broker knows by a process of its own.
  TestPeer local(loop, endpoint_of(*host.broker), launcher_hello());
  local.up();
  REQUIRE(local.ask(Destination::to_broker(), introduction(neighbour->address())).has_value());
  const auto known = *ProcId::parse(neighbour->address().to_string() + ",service");
  RawPeer there(loop, endpoint_of(*neighbour));
  REQUIRE(there.greet(agent_hello(neighbour->address())) == "Welcome");
  REQUIRE(local.bus->send(Destination::to(known), 1, "by a local peer").has_value());
  REQUIRE(there.next().has_value());

  for (const auto& [role, name] :
       {std::pair{Role::observe, "eve"}, {Role::proc, "carl"}, {Role::operate, "alice"}}) {
    INFO(name);
    auto peer = attach(host, keys.make(role, name));
    peer->up();
    std::string told;
    for (const std::string& path : paths) {
      INFO(path);
      const auto address = *HostAddr::parse("unix:" + path);
      for (const auto& answer :
           {peer->ask(Destination::to_broker(), introduction(address)).map([](const auto&) {
              return 0;
            }),
            peer->ask(Destination::to_agent(address), wire::GetHostT()).map([](const auto&) {
              return 0;
            })}) {
        REQUIRE_FALSE(answer.has_value());
        CHECK(answer.error().code() == ErrorCode::unauthorised);
        std::string detail = answer.error().detail();
        const auto at = detail.find(address.to_string());
        REQUIRE(at != std::string::npos);
        detail.erase(at, address.to_string().size());
        if (told.empty()) told = detail;
        CHECK(detail == told);
      }
    }
    CHECK(told.find("--hosts unix:PATH") != std::string::npos);
    CHECK(log.count(std::string(name) + ") is refused an introduction") == 1);
  }
  if (fake) {
    fake->turn();
    CHECK(fake->accepted == 0);
  }
  // What was refused to them is not refused to this one.
  REQUIRE(local.bus->send(Destination::to(known), 1, "still there").has_value());
  CHECK(there.next().has_value());
  check_conservation(loop, *host.broker);
}

TEST_CASE("unix peers: a launcher does not speak to a broker of another user" *
          doctest::test_suite(need::root)) {
  Loop loop;
  TempDir dir;
  const auto evil = *HostAddr::parse("unix:" + (dir / "s"));
  FakeBroker fake(dir / "s", zmtp_greeting() + zmtp_ready("ROUTER") + welcome_of(evil), kOther);
  TestPeer launcher(loop, evil.zmq_endpoint(), launcher_hello());
  REQUIRE(loop.until([&] {
    fake.turn();
    return launcher.refused || launcher.ups > 0;
  }));
  CHECK(launcher.ups == 0);
  REQUIRE(launcher.refused.has_value());
  CHECK(launcher.refused->code() == ErrorCode::unauthorised);
  CHECK(launcher.refused->detail().find("user 65534 listens there") != std::string::npos);
  fake.turn();
  CHECK(fake.heard.empty());
}

TEST_CASE(
    "unix peers: procs of another user reach the broker of root by their token; launchers and "
    "brokers do not" *
    doctest::test_suite(need::root)) {
  const LogLines log;
  OpenBroker host;
  const auto connect = [&](wire::HelloT hello) {
    const AsUser other(kOther);
    return std::make_unique<TestPeer>(host.loop, endpoint_of(*host.broker), std::move(hello));
  };
  auto proc = connect(proc_hello(host.broker->address(), 1));
  proc->up();
  CHECK(proc->role == Role::proc);
  for (const auto& hello : {launcher_hello(), hello_of(wire::PeerKind::link, "unix:/other/host")}) {
    auto peer = connect(hello);
    REQUIRE(host.loop.until([&] { return peer->refused || peer->ups > 0; }));
    REQUIRE(peer->refused.has_value());
    CHECK(peer->refused->code() == ErrorCode::unauthorised);
    CHECK(peer->refused->detail().find("a process of user 65534 connects to a host of user 0") !=
          std::string::npos);
  }
}

TEST_CASE("unix peers: a broker of one user says nothing to another" *
          doctest::test_suite(need::root)) {
  const LogLines log;
  // Its user is the one that it began to listen as.
  std::optional<OpenBroker> host;
  {
    const AsUser third(kThird);
    host.emplace();
  }
  const auto connect = [&](uid_t uid) {
    const AsUser other(uid);
    return RawConnection(host->name);
  };
  for (const uid_t uid : {kOther, kThird, uid_t{0}}) {
    RawConnection stranger = connect(uid);
    REQUIRE(stranger.is_open());
    host->loop.run_for(50ms);
    const std::string heard = stranger.read_some();
    CHECK(heard.empty() == (uid == kOther));
    if (uid == kOther) CHECK(stranger.is_ended());
  }
  CHECK(log.count("a connection to a unix socket is refused: it comes from user 65534") == 1);
}

TEST_CASE("unix peers: nothing that the other broker says before its Welcome is believed") {
  const LogLines log;
  LocalBroker host;
  TempDir dir;
  RawPeer agent(host.loop, host.endpoint());
  REQUIRE(agent.greet(agent_hello(host.broker->address())) == "Welcome");
  const auto other = *HostAddr::parse("unix:" + (dir / "s"));
  FakeBroker early(
      dir / "s", zmtp_greeting() + zmtp_ready("ROUTER") + order_of(other, host.broker->address()));
  TestPeer launcher(host.loop, host.endpoint(), launcher_hello());
  launcher.up();
  std::optional<Result<ControlMessage>> answer;
  launcher.bus->request(Destination::to_agent(other), wire::GetHostT(), 20s,
                        [&](Result<ControlMessage> result) { answer = std::move(result); });
  REQUIRE(host.loop.until([&] {
    early.turn();
    return answer.has_value();
  }));
  REQUIRE_FALSE(answer->has_value());
  CHECK(answer->error().code() == ErrorCode::malformed_message);
  CHECK_FALSE(agent.next(100ms).has_value());

  // After it, it is: the same host, of the same user.
  const auto honest = *HostAddr::parse("unix:" + (dir / "t"));
  FakeBroker late(dir / "t", zmtp_greeting() + zmtp_ready("ROUTER") + welcome_of(honest) +
                                 order_of(honest, host.broker->address()));
  launcher.bus->request(Destination::to_agent(honest), wire::GetHostT(), 20s,
                        [](const Result<ControlMessage>&) {});
  REQUIRE(host.loop.until([&] {
    late.turn();
    return late.accepted == 1;
  }));
  const auto order = agent.next();
  REQUIRE(order.has_value());
  CHECK(order->first.role() == Role::operate);
}

TEST_CASE(
    "unix peers: a link that came over tcp as a unix host is not looked for there when it is "
    "gone") {
  const LogLines log;
  Loop loop;
  TempDir dir;
  const auto broker = start_broker(loop, "unix:" + (dir / "b"), {}, [](BrokerOptions& options) {
    options.binds.push_back(*HostAddr::parse("tcp:127.0.0.1:0"));
    options.insecure = true;
  });
  const auto claimed = *HostAddr::parse("unix:" + (dir / "s"));
  FakeBroker fake(dir / "s", zmtp_greeting());
  TestPeer launcher(loop, endpoint_of(*broker), launcher_hello());
  launcher.up();
  auto link = std::make_unique<RawPeer>(loop, endpoint_of(*broker, 1));
  link->tell(hello_of(wire::PeerKind::link, claimed.to_string(), 5), 0, /*link=*/true);
  REQUIRE(link->next_control()->body_name() == "Welcome");
  link.reset();
  REQUIRE(loop.until([&] { return broker->peers() == 1; }));
  // No text: it is not introduced.
  const auto lost = launcher.call(
      Destination{.proc = host_service(claimed).key(), .host = claimed.key(), .host_text = {}},
      "x");
  REQUIRE_FALSE(lost.has_value());
  CHECK(lost.error().code() == ErrorCode::host_unreachable);
  fake.turn();
  CHECK(fake.accepted == 0);
}
