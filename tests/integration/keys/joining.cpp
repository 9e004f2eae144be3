// `meshbus host --join TOKEN@ADDRESS`: a new host becomes one of the others by a one-time token
// (spec 13.2).
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/security/join_token.h"
#include "tests/integration/keys/fixture.h"
#include "tests/world/command_line.h"
#include "tests/world/raw_peer.h"
#include "wire/bus_generated.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

namespace fs = std::filesystem;

bool is_in(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::size_t count_in(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

ProcessOptions with_keys(const std::string& directory) {
  return {.environment = {{"MESHBUS_KEYS_DIRECTORY", directory}}};
}

/// A first host, on 127.0.0.1, with an operator alice.
struct Site {
  Site() : host(make_keys()) {}
  Words make_keys() {
    for (const Words& who : {Words{"host", "127.0.0.1"}, {"operator", "alice"}}) {
      const auto made = run_cli({"keygen", "--dir", keys.path().string(), who[0], who[1]});
      INFO(made.err);
      REQUIRE(made.status == ExitStatus::exited(0));
    }
    return {"--bind", "tcp:127.0.0.1:0", "--set", "keys.directory=" + keys.path().string()};
  }
  /// TOKEN@ADDRESS
  std::string token(const std::string& name, const std::string& valid_for = "10m") {
    const auto made = run_cli({"keygen", "--dir", keys.path().string(), "--token", "--at",
                               host.address(), "--for", valid_for, "host", name});
    INFO(made.err);
    REQUIRE(made.status == ExitStatus::exited(0));
    const auto lines = lines_of(made.out);
    REQUIRE(lines.size() == 1);
    REQUIRE(lines[0].ends_with("@" + host.address()));
    CHECK_FALSE(is_in(made.err, lines[0]));
    return lines[0];
  }
  Finished run_on(const std::string& hosts) {
    ProcessOptions alice = with_keys(keys.path().string());
    alice.environment.emplace_back("MESHBUS_KEYS_OWN", keys / "alice.key");
    return run_cli({"run", "--hosts", hosts, "-n", "4", "--", "sh", "-c", "echo $MESHBUS_ADDR"},
                   alice);
  }
  TempDir keys;
  StandingHost host;
};

/// A host that does not get as far as to be one.
Finished fail_to_join(const std::string& token, const std::string& directory,
                      Words more = {"--bind", "tcp:127.0.0.2:0"}) {
  Words words = {"host", "--join", token};
  words.insert(words.end(), more.begin(), more.end());
  return run_cli(words, with_keys(directory));
}

/// The same with another digit there.
std::string with_other_digit(std::string token, std::size_t at) {
  token[at] = token[at] == '0' ? '1' : '0';
  return token;
}

}  // namespace

TEST_CASE("joining: a new host joins by one command, and a job runs over both") {
  Site site;
  const TempDir dir;
  const std::string there = dir / "new/keys", token = site.token("127.0.0.2");
  const std::string digits = token.substr(token.find('-') + 1, 128);
  {
    StandingHost two({"--join", token, "--bind", "tcp:127.0.0.2:0"}, with_keys(there));
    CHECK(two.address().starts_with("tcp:127.0.0.2:"));
    CHECK(
        is_in(two.process().err(), "is known to " + site.host.address() +
                                       " now, and knows keys: 1 of role operator, 2 of role host"));
    const auto done = site.run_on(site.host.address() + "," + two.address());
    INFO(done.err);
    CHECK(done.status == ExitStatus::exited(0));
    CHECK(count_in(done.out, site.host.address()) == 2);
    CHECK(count_in(done.out, two.address()) == 2);

    // It has made its own key, which nobody else has seen, and knows whom the first one knows.
    struct stat status{};
    REQUIRE(::stat((there + "/127.0.0.2.key").c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    CHECK_FALSE(fs::exists(site.keys / "127.0.0.2.key"));
    for (const char* one : {"operator/alice.pub", "host/127.0.0.1.pub", "host/127.0.0.2.pub"})
      CHECK(read_public_keys(there + "/authorised/" + one) ==
            read_public_keys(site.keys / ("authorised/" + std::string(one))).value());
    // The token is a secret until it is used: nobody may read it in passing.
    for (const auto& process : all_processes()) {
      const auto folder = "/proc/" + std::to_string(process.pid);
      CHECK_FALSE(is_in(read_file(folder + "/cmdline") + read_file(folder + "/environ"), digits));
    }
    for (const auto& entry : fs::recursive_directory_iterator(site.keys.path())) {
      if (entry.is_regular_file()) CHECK_FALSE(is_in(read_file(entry.path()), digits.substr(64)));
    }
    CHECK_FALSE(is_in(site.host.process().err() + two.process().err(), digits));
    REQUIRE(time_until(
        [&] {
          return is_in(site.host.process().err(),
                       "host 127.0.0.2 has joined, from 127.0.0.1, with the key ");
        },
        in_time));
  }
  {
    // As if the answer had been lost: the same host with the same key may ask again.
    fs::remove_all(there + "/authorised");
    StandingHost again({"--join", token, "--bind", "tcp:127.0.0.2:0"}, with_keys(there));
    CHECK(is_in(again.process().err(), "is known to "));
  }
  CHECK(count_in(site.host.process().err(), "has joined") == 1);
  // It need not ask any more, neither with the token nor without.
  for (const bool has_token : {true, false}) {
    Words words = {"--bind", "tcp:127.0.0.2:0"};
    if (has_token) words.insert(words.end(), {"--join", token});
    StandingHost known(words, with_keys(there));
    CHECK_FALSE(is_in(known.process().err(), "is known to "));
    CHECK(site.run_on(site.host.address() + "," + known.address()).status == ExitStatus::exited(0));
  }
}

TEST_CASE(
    "joining: a token that is used, expired, changed, or meant for another host is refused, with "
    "why") {
  Site site;
  const TempDir dir, elsewhere;
  const auto refused = [&](const std::string& token, std::string_view why) {
    const auto done = fail_to_join(token, dir / "keys");
    INFO(done.err);
    CHECK(done.status == ExitStatus::exited(69));
    CHECK(is_in(done.err, "meshbus: this host cannot join: "));
    CHECK(is_in(done.err, why));
    // Nothing is left of it that could be taken for a key.
    CHECK_FALSE(fs::exists(dir / "keys/127.0.0.2.key"));
    CHECK_FALSE(fs::exists(dir / "keys/authorised/operator/alice.pub"));
  };
  const auto told = [&](std::string_view text, std::size_t times) {
    INFO(site.host.process().err());
    CHECK(time_until([&] { return count_in(site.host.process().err(), text) >= times; }, in_time));
    CHECK(count_in(site.host.process().err(), text) == times);
  };

  const auto token = site.token("127.0.0.2");
  const auto changed = with_other_digit(token, token.find('@') - 10);
  for (int i = 0; i < 2; ++i) refused(changed, "unauthorised: the broker at tcp://127.0.0.1:");
  refused(changed, "does not take the key of this token");
  told("is refused: its key", 1);
  // A host with another key did not make this token; it does not get to see the token.
  refused(with_other_digit(token, token.find('-') + 10), "identity_mismatch: ");

  {
    StandingHost two({"--join", token, "--bind", "tcp:127.0.0.2:0"}, with_keys(elsewhere / "keys"));
  }
  for (std::size_t times = 1; times <= 2; ++times) {
    refused(token, "unauthorised: the broker at tcp://127.0.0.1:");
    told("the token for host 127.0.0.2, from 127.0.0.1: it has been used, at 20", times);
  }

  const auto short_lived = site.token("127.0.0.3", "1s");
  const auto until = std::chrono::system_clock::now() + 2s;
  REQUIRE(time_until([&] { return std::chrono::system_clock::now() > until; }, in_time));
  const auto late = fail_to_join(short_lived, dir / "keys", {"--bind", "tcp:127.0.0.3:0"});
  CHECK(late.status == ExitStatus::exited(69));
  CHECK(is_in(late.err, "unauthorised: "));
  CHECK(is_in(late.err, "it expired at 20"));
  told("it expired at 20", 1);

  // A later token for the same host is in place of an earlier one.
  const auto early = site.token("127.0.0.4");
  site.token("127.0.0.4");
  CHECK(is_in(fail_to_join(early, dir / "keys", {"--bind", "tcp:127.0.0.4:0"}).err,
              "unauthorised: "));
}

TEST_CASE("joining: what cannot work is said before anybody is asked") {
  Site site;
  const TempDir dir;
  const auto token = site.token("127.0.0.2");
  const auto digits = token.substr(token.find('-') + 1, 128);
  for (const std::string& wrong : {std::string("x"), "127.0.0.2-" + digits,
                                   token.substr(0, 60) + token.substr(token.find('@')),
                                   token.substr(0, token.find('@')) + "@unix:/run/b"}) {
    const auto done = fail_to_join(wrong, dir / "keys");
    INFO(done.err);
    CHECK(done.status == ExitStatus::exited(2));
    CHECK_FALSE(is_in(done.err, digits.substr(0, 32)));
  }
  auto done = fail_to_join(token, dir / "keys", {"--bind", "tcp:127.0.0.9:0"});
  CHECK(done.status == ExitStatus::exited(2));
  CHECK(is_in(done.err,
              "the token is for host 127.0.0.2, and this one would be known as tcp:127.0.0.9:0"));
  done = fail_to_join(token, dir / "keys", {"--insecure"});
  CHECK(done.status == ExitStatus::exited(2));
  done = fail_to_join(token, "/dev/null");
  CHECK(done.status == ExitStatus::exited(2));
  CHECK(is_in(done.err, "keys.directory"));
  CHECK_FALSE(fs::exists(dir / "keys"));

  const auto keygen = [&](const Words& words) {
    Words all = {"keygen", "--dir", site.keys.path().string(), "--token"};
    all.insert(all.end(), words.begin(), words.end());
    return run_cli(all);
  };
  const auto at = site.host.address();
  for (const Words& wrong : {Words{"operator", "bob", "--at", at},
                             {"host", "h2", "h3", "--at", at},
                             {"host", "h2", "--for", "25h", "--at", at},
                             {"host", "h2", "--rotate", "--at", at}})
    CHECK(keygen(wrong).status == ExitStatus::exited(2));
  CHECK(is_in(keygen({"host", "127.0.0.1", "--at", at}).err, "has a key here already"));
  CHECK(is_in(keygen({"host", "h2", "--at", "tcp:h1:7420"}).err,
              "the public key of host h1 is not known here"));
  // The only host of this user on this machine, from stdin, and with nothing but the token.
  const auto made = keygen({"--json", "host", "127.0.0.2"});
  INFO(made.err);
  REQUIRE(made.status == ExitStatus::exited(0));
  const auto json = parse_json(made.out);
  CHECK(json.at("at") == at);
  ProcessOptions options = with_keys(dir / "keys");
  options.input = json.at("join").get<std::string>() + "\n";
  StandingHost two({"--join", "-", "--bind", "tcp:*:0"}, options);
  CHECK(two.address().starts_with("tcp:127.0.0.2:"));
}

TEST_CASE("joining: a token is good for nothing else, and of two who come with it one gets in") {
  LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1");
  const auto server = read_key_pair(keys.directory.secret_path("127.0.0.1"))->public_key;
  const auto token = *JoinToken::make("127.0.0.2", server);
  const TokenFolder folder(keys.directory);
  REQUIRE(
      folder
          .add(
              {.name = token.name, .key = token.keys.public_key, .until = unix_seconds_now() + 600})
          .has_value());
  const CurveKeys by_token{token.keys.public_key, token.keys.secret_key, {server}, "of a token"};
  const auto joining = [](const std::string& address, const std::string& key) {
    auto hello = hello_of(wire::PeerKind::link, address);
    hello.token = to_vector(key);
    return hello;
  };
  const auto say = [&](wire::HelloT hello) {
    RawPeer peer(loop, host.endpoint(), {}, &by_token);
    peer.tell(std::move(hello));
    const auto answer = peer.next();
    REQUIRE(answer.has_value());
    if (answer->first.kind() == wire::Kind::message) return answer->second;
    const auto control = ControlMessage::decode(answer->second);
    REQUIRE(control.has_value());
    const auto* refusal = control->body_as<wire::Refusal>();
    REQUIRE(refusal != nullptr);
    return std::string(to_string(from_wire(refusal->code()))) + ": " + text_of(refusal->detail());
  };
  const auto starts_so = [](const std::string& text, const char* beginning) {
    INFO(text);
    CHECK(text.starts_with(beginning));
  };
  const auto one = KeyPair::make()->public_key, two = KeyPair::make()->public_key;
  starts_so(say(launcher_hello()), "identity_mismatch: the token for host 127.0.0.2");
  starts_so(say(hello_of(wire::PeerKind::controller, "controller")), "identity_mismatch");
  starts_so(say(joining("tcp:127.0.0.3:7420", one)), "identity_mismatch");
  starts_so(say(joining("tcp:127.0.0.2:7420", "")), "malformed_message");
  starts_so(say(joining("tcp:127.0.0.2:7420", std::string(40, '~'))), "malformed_message");
  starts_so(say(joining("tcp:127.0.0.2:7420", std::string(3000, 'a'))), "malformed_message");
  CHECK(host.counters().refused_hellos == 6);
  CHECK_FALSE(folder.read().at(0).is_used);

  const auto known = parse_known_keys(say(joining("tcp:127.0.0.2:7420", one)));
  CHECK(known == read_known_keys(keys.directory));
  CHECK(read_public_keys(keys.directory.public_path(Role::host, "127.0.0.2")) == std::vector{one});
  CHECK(folder.read().at(0).is_used);
  starts_so(say(joining("tcp:127.0.0.2:7420", two)),
            "unauthorised: the token for host 127.0.0.2, from 127.0.0.1: it has been used");
  // A host that was revoked does not come back by its old token.
  keys.revoke(Role::host, "127.0.0.2");
  starts_so(say(joining("tcp:127.0.0.2:7420", one)), "unauthorised");
  CHECK(host.counters().refused_hellos == 8);
  CHECK(host.counters().refused_keys == 0);
  CHECK(host.broker->peers() == 0);
  CHECK(log.count("host 127.0.0.2 has joined") == 1);
  check_conservation(loop, *host.broker);

  // On a host that knows its name by another key already, the token stays what it was.
  keys.make(Role::host, "127.0.0.2");
  REQUIRE(
      folder
          .add(
              {.name = token.name, .key = token.keys.public_key, .until = unix_seconds_now() + 600})
          .has_value());
  // It looks once a second.
  std::string answer;
  const auto until = std::chrono::steady_clock::now() + 30s;
  do {
    loop.run_for(100ms);
    answer = say(joining("tcp:127.0.0.2:7420", two));
  } while (answer.starts_with("unauthorised") && std::chrono::steady_clock::now() < until);
  starts_so(answer, "configuration_error: the token for host 127.0.0.2");
  CHECK_FALSE(folder.read().at(0).is_used);
}
