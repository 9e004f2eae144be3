#include "broker/access/admission.h"

#include <doctest/doctest.h>

#include "common/security/launcher_name.h"
#include "wire/bus_generated.h"

using namespace meshbus;

namespace {

const HostAddr kHost = *HostAddr::parse("unix:/run/m/broker");
const HostAddr kOther = *HostAddr::parse("unix:/run/n/broker");
const TokenMaker kTokens(std::string(TokenMaker::kSecretSize, 's'));
constexpr uid_t kUser = 1000;
const Credentials kOwnUser{.uid = kUser, .address = "uid 1000, pid 7"};
const Credentials kRoot{.uid = 0, .address = "uid 0, pid 7"};
const Credentials kStranger{.uid = 1001, .address = "uid 1001, pid 7"};
const Credentials kTcp{.uid = std::nullopt, .address = "10.0.0.2"};

wire::HelloT hello(wire::PeerKind kind, std::string peer) {
  wire::HelloT hello;
  hello.version = 1;
  hello.peer = std::move(peer);
  hello.kind = kind;
  hello.incarnation = 42;
  hello.pid = 4711;
  return hello;
}

wire::HelloT with_token(wire::HelloT hello) {
  hello.token = kTokens.make(hello.peer, hello.incarnation);
  return hello;
}

Result<Identity> admit(const wire::HelloT& native, const Credentials& credentials,
                       bool insecure = false) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::Hello::Pack(builder, &native));
  const Admission admission({.host = kHost, .uid = kUser, .insecure = insecure}, kTokens);
  return admission.admit(*flatbuffers::GetRoot<wire::Hello>(builder.GetBufferPointer()),
                         credentials);
}

ErrorCode refusal(const wire::HelloT& native, const Credentials& credentials,
                  bool insecure = false) {
  const auto admitted = admit(native, credentials, insecure);
  REQUIRE_FALSE(admitted.has_value());
  CHECK_FALSE(admitted.error().detail().empty());
  return admitted.error().code();
}

const std::string kClient = "client-13Se1Maqzryj";
const std::string kProc = kHost.to_string() + ",trainers_3-13Se1Maqzryj";
const std::string kAgent = kHost.to_string() + ",service";

}  // namespace

TEST_CASE("admission: a launcher of the same user, or root, may operate") {
  for (const Credentials& credentials : {kOwnUser, kRoot}) {
    const auto admitted = admit(hello(wire::PeerKind::launcher, kClient), credentials);
    REQUIRE(admitted.has_value());
    CHECK(admitted->text == kHost.to_string() + "," + kClient);
    CHECK(admitted->key == ProcId::parse(admitted->text)->key());
    CHECK(admitted->role == wire::Role::operate);
    CHECK(admitted->incarnation == 42);
    CHECK(admitted->pid == 4711);
    CHECK_FALSE(admitted->has_token());
  }
  CHECK(refusal(hello(wire::PeerKind::launcher, kClient), kStranger) == ErrorCode::unauthorised);
}

TEST_CASE("admission: over tcp only with --insecure") {
  for (const auto& [kind, peer] : {std::pair{wire::PeerKind::launcher, kClient},
                                   {wire::PeerKind::controller, std::string("controller")},
                                   {wire::PeerKind::link, std::string("tcp:10.0.0.2:7420")}}) {
    CHECK(refusal(hello(kind, peer), kTcp) == ErrorCode::unauthorised);
    CHECK(admit(hello(kind, peer), kTcp, /*insecure=*/true).has_value());
  }
}

TEST_CASE("admission: by key, as much as the key is for") {
  using enum wire::PeerKind;
  const auto by = [](wire::Role role, std::vector<std::string> names) {
    Credentials credentials{.uid = std::nullopt, .address = "10.0.0.2", .key = "K"};
    credentials.holder = KeyHolder{role, std::move(names)};
    return credentials;
  };
  for (const auto role : {wire::Role::observe, wire::Role::proc, wire::Role::operate}) {
    auto named = hello(launcher, kClient);
    LauncherName::draw().introduce(named);
    const auto admitted = admit(named, by(role, {"alice"}));
    REQUIRE(admitted.has_value());
    CHECK(admitted->role == role);
    CHECK(admitted->key_text == "K");
    CHECK(refusal(hello(link, "tcp:10.0.0.2:7420"), by(role, {"10.0.0.2"})) ==
          ErrorCode::unauthorised);
  }
  const auto host = by(wire::Role::host, {"10.0.0.2", "10.0.0.3:7420", "h4"});
  CHECK(admit(hello(launcher, kClient), host)->role == wire::Role::operate);
  CHECK(admit(hello(launcher, kClient), host)->user == "host 10.0.0.2, 10.0.0.3:7420, h4");
  for (const std::string own :
       {"tcp:10.0.0.2:7420", "tcp:10.0.0.2:1", "tcp:10.0.0.3:7420", "tcp:h4:1"})
    CHECK(admit(hello(link, own), host).has_value());
  for (const std::string other :
       {"tcp:10.0.0.3:7421", "tcp:10.0.0.4:7420", "unix:/run/h4", "local:1"})
    CHECK(refusal(hello(link, other), host) == ErrorCode::unauthorised);
  CHECK(refusal(hello(controller, "controller"), by(wire::Role::proc, {"carl"})) ==
        ErrorCode::unauthorised);
  // Observers and clients do not choose their names (spec 2.6).
  for (const auto role : {wire::Role::observe, wire::Role::proc}) {
    CHECK(refusal(hello(launcher, kClient), by(role, {"alice"})) == ErrorCode::unauthorised);
    auto other = hello(launcher, kClient);
    other.token = LauncherName::draw().proof;
    CHECK(refusal(other, by(role, {"alice"})) == ErrorCode::unauthorised);
  }
  // What ZAP let in and was revoked before the Hello.
  Credentials revoked{.uid = std::nullopt, .address = "10.0.0.2", .key = "K"};
  CHECK(refusal(hello(launcher, kClient), revoked) == ErrorCode::unauthorised);
  // Tokens are for those on this machine.
  CHECK(refusal(with_token(hello(proc, kProc)), host) == ErrorCode::unauthorised);
  CHECK(refusal(with_token(hello(agent, kAgent)), host) == ErrorCode::unauthorised);
}

TEST_CASE("admission: a key that has expired opens nothing, and its holder reads why") {
  for (const auto role : {wire::Role::observe, wire::Role::operate, wire::Role::host}) {
    Credentials credentials{.uid = std::nullopt, .address = "10.0.0.2", .key = "K"};
    credentials.holder =
        KeyHolder{.role = role, .names = {"h1"}, .expires = 1'000'000'000, .is_expired = true};
    auto named = hello(wire::PeerKind::launcher, kClient);
    LauncherName::draw().introduce(named);
    const auto refused = admit(named, credentials);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == ErrorCode::unauthorised);
    CHECK(refused.error().detail().find(" h1 expired at 2001-09-09T01:46:40Z; make a new one") !=
          std::string::npos);
    CHECK(refusal(hello(wire::PeerKind::link, "tcp:h1:1"), credentials) == ErrorCode::unauthorised);
  }
}

TEST_CASE("admission: a host's key opens no more than that host may vouch for") {
  Credentials credentials{.uid = std::nullopt, .address = "10.0.0.2", .key = "K"};
  credentials.holder =
      KeyHolder{.role = wire::Role::host, .names = {"h1"}, .ceiling = wire::Role::proc};
  auto named = hello(wire::PeerKind::launcher, kClient);
  LauncherName::draw().introduce(named);
  CHECK(admit(named, credentials)->role == wire::Role::proc);
  CHECK(admit(hello(wire::PeerKind::link, "tcp:h1:1"), credentials)->ceiling == wire::Role::proc);
  CHECK(refusal(hello(wire::PeerKind::controller, "controller"), credentials) ==
        ErrorCode::unauthorised);
}

TEST_CASE("admission: names belong to kinds of peers") {
  using enum wire::PeerKind;
  CHECK(admit(hello(launcher, kHost.to_string() + "," + kClient), kOwnUser).has_value());
  for (const std::string name :
       {"client", "controller", "service", "trainers-13Se1Maqzryj", "client_3-13Se1Maqzryj"})
    CHECK(refusal(hello(launcher, name), kOwnUser) == ErrorCode::unauthorised);
  CHECK(admit(hello(controller, "controller"), kOwnUser)->role == wire::Role::operate);
  CHECK(refusal(hello(controller, kClient), kOwnUser) == ErrorCode::unauthorised);
  CHECK(refusal(with_token(hello(agent, kProc)), kOwnUser) == ErrorCode::unauthorised);
  for (const std::string name : {"service", "controller", "agent", "local", kClient.c_str()})
    CHECK(refusal(with_token(hello(proc, kHost.to_string() + "," + name)), kOwnUser) ==
          ErrorCode::unauthorised);
  CHECK(refusal(hello(launcher, ""), kOwnUser) == ErrorCode::unauthorised);
  CHECK(refusal(hello(launcher, "\xff,\n"), kOwnUser) == ErrorCode::unauthorised);
  CHECK(refusal(hello(static_cast<wire::PeerKind>(99), kClient), kOwnUser) ==
        ErrorCode::unauthorised);
}

TEST_CASE("admission: agents and procs need the token of that proc and life") {
  using enum wire::PeerKind;
  const auto agent_in = admit(with_token(hello(agent, kAgent)), kOwnUser);
  REQUIRE(agent_in.has_value());
  CHECK(agent_in->role == wire::Role::host);
  // It may have been started as another user.
  const auto proc_in = admit(with_token(hello(proc, kProc)), kStranger);
  REQUIRE(proc_in.has_value());
  CHECK(proc_in->role == wire::Role::proc);
  CHECK(proc_in->has_token());
  CHECK(refusal(with_token(hello(proc, kProc)), kTcp) == ErrorCode::unauthorised);

  CHECK(refusal(hello(agent, kAgent), kOwnUser) == ErrorCode::unauthorised);
  CHECK(refusal(hello(proc, kProc), kOwnUser) == ErrorCode::unauthorised);
  auto wrong = with_token(hello(proc, kProc));
  wrong.incarnation = 43;
  CHECK(refusal(wrong, kOwnUser) == ErrorCode::unauthorised);
  wrong = with_token(hello(proc, kProc));
  wrong.token.back() ^= 1;
  CHECK(refusal(wrong, kOwnUser) == ErrorCode::unauthorised);
  wrong = with_token(hello(proc, kProc));
  wrong.peer = kHost.to_string() + ",trainers_4-13Se1Maqzryj";
  CHECK(refusal(wrong, kOwnUser) == ErrorCode::unauthorised);
  // The token of an agent is no proc's.
  CHECK(refusal(with_token(hello(agent, kAgent)), kStranger) == ErrorCode::unauthorised);
}

TEST_CASE("admission: only procs of this host") {
  CHECK(refusal(with_token(
                    hello(wire::PeerKind::proc, kOther.to_string() + ",trainers_3-13Se1Maqzryj")),
                kOwnUser) == ErrorCode::identity_mismatch);
  CHECK(refusal(with_token(hello(wire::PeerKind::agent, kOther.to_string() + ",service")),
                kOwnUser) == ErrorCode::identity_mismatch);
  CHECK(refusal(hello(wire::PeerKind::launcher, kOther.to_string() + "," + kClient), kOwnUser) ==
        ErrorCode::identity_mismatch);
}

TEST_CASE("admission: a link is another host's broker") {
  const auto admitted = admit(hello(wire::PeerKind::link, kOther.to_string()), kOwnUser);
  REQUIRE(admitted.has_value());
  CHECK(admitted->text == kOther.to_string());
  CHECK(admitted->key == kOther.key());
  CHECK(admitted->role == wire::Role::broker);
  CHECK(refusal(hello(wire::PeerKind::link, kHost.to_string()), kOwnUser) ==
        ErrorCode::identity_mismatch);
  CHECK(refusal(hello(wire::PeerKind::link, "tcp:*:7420"), kOwnUser) == ErrorCode::unauthorised);
  CHECK(refusal(hello(wire::PeerKind::link, "nonsense"), kOwnUser) == ErrorCode::unauthorised);
  CHECK(refusal(hello(wire::PeerKind::link, kOther.to_string()), kStranger) ==
        ErrorCode::unauthorised);
}

TEST_CASE("admission: version and incarnation") {
  auto other = hello(wire::PeerKind::launcher, kClient);
  other.version = 2;
  CHECK(refusal(other, kOwnUser) == ErrorCode::version_mismatch);
  other.oldest = 1;
  const auto admitted = admit(other, kOwnUser);
  REQUIRE(admitted.has_value());
  CHECK(admitted->version == 1);
  other = hello(wire::PeerKind::launcher, kClient);
  other.incarnation = 0;
  CHECK(refusal(other, kOwnUser) == ErrorCode::unauthorised);
}
