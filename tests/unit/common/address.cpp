#include "meshbus/address.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <unordered_set>
#include <vector>

#include "meshbus/key.h"
#include "tests/unit/mesh/random.h"

using namespace meshbus;

namespace {

std::string pick(test::Random& random, std::string_view letters, std::size_t shortest,
                 std::size_t longest) {
  std::string out(shortest + random() % (longest - shortest + 1), 'x');
  for (char& c : out) c = letters[random() % letters.size()];
  return out;
}

HostAddr random_host(test::Random& random) {
  constexpr std::string_view letters = "abcXYZ019";
  constexpr std::string_view path_letters = "ab/@:=-. +%\\'[]{}*\xC3\xA9";
  const auto port = static_cast<std::uint16_t>(random() % 3 == 0 ? 0 : random());
  switch (random() % 7) {
    case 0: return HostAddr::local(random() % 5 == 0 ? 0 : random() >> random() % 64);
    case 1:
    case 2: {
      for (;;) {  // a two-byte character may be cut in half: draw again
        const std::string path = random() % 5 == 0 ? ""
                                                   : (random() % 2 == 0 ? "/" : "@") +
                                                         pick(random, path_letters, 1, 100);
        if (const Result<HostAddr> host = HostAddr::unix_socket(path)) return *host;
      }
    }
    case 3: {
      std::string host = "[";
      for (int i = 0; i < 8; ++i)
        host += (i == 0 ? "" : ":") +
                (random() % 2 == 0 ? std::string("0") : pick(random, "0123456789abcdef", 1, 4));
      return HostAddr::tcp(host + (random() % 4 == 0 ? "%eth0]" : "]"), port).value();
    }
    case 4: {
      std::string host;
      for (int i = 0; i < 4; ++i) host += (i == 0 ? "" : ".") + std::to_string(random() % 256);
      return HostAddr::tcp(host, port).value();
    }
    case 5: return HostAddr::tcp("*", port).value();
    default:
      return HostAddr::tcp(pick(random, letters, 1, 30) + "." + pick(random, "abc_", 1, 20), port)
          .value();
  }
}

ProcName random_proc_name(test::Random& random) {
  const Name name = Name::make(pick(random, "abcXYZ_", 1, 63), random()).value();
  return random() % 2 == 0 ? ProcName(name) : proc_name(name, random() >> random() % 64);
}

}  // namespace

TEST_CASE("host address: every form parses and prints") {
  struct Row {
    std::string_view text;
    std::string_view canonical;
    std::string_view zmq;
  };
  const std::vector<Row> rows = {
      {"tcp:h1:7420", "tcp:h1:7420", "tcp://h1:7420"},
      {"tcp:H1.Example.org:80", "tcp:h1.example.org:80", "tcp://h1.example.org:80"},
      {"tcp:10.0.0.1:0", "tcp:10.0.0.1:0", "tcp://10.0.0.1:*"},
      {"tcp:[::1]:7420", "tcp:[::1]:7420", "tcp://[::1]:7420"},
      {"tcp:[2001:DB8:0:0::0:1]:7420", "tcp:[2001:db8::1]:7420", "tcp://[2001:db8::1]:7420"},
      {"tcp:[fe80::1%eth0]:7420", "tcp:[fe80::1%eth0]:7420", "tcp://[fe80::1%eth0]:7420"},
      {"tcp:*:7420", "tcp:*:7420", "tcp://*:7420"},
      {"tcp:my_host-2:007", "tcp:my_host-2:7", "tcp://my_host-2:7"},
      {"tcp://h1:7420", "tcp:h1:7420", "tcp://h1:7420"},
      {"tcp://*:*", "tcp:*:0", "tcp://*:*"},
      {"unix:/run/meshbus/broker", "unix:/run/meshbus/broker", "ipc:///run/meshbus/broker"},
      {"unix:/run/a b@c=d:e", "unix:/run/a b@c=d:e", "ipc:///run/a b@c=d:e"},
      {"unix:@abstract", "unix:@abstract", "ipc://@abstract"},
      {"unix:@a@b", "unix:@a@b", "ipc://@a@b"},
      {"unix:", "unix:", "ipc://*"},
      {"ipc:///run/meshbus/broker", "unix:/run/meshbus/broker", "ipc:///run/meshbus/broker"},
      {"ipc://@abstract", "unix:@abstract", "ipc://@abstract"},
      {"ipc://*", "unix:", "ipc://*"},
      {"local:1", "local:1", "inproc://1"},
      {"local:0", "local:0", "inproc://0"},
      {"local:18446744073709551615", "local:18446744073709551615", "inproc://18446744073709551615"},
      {"inproc://3", "local:3", "inproc://3"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const Result<HostAddr> host = HostAddr::parse(row.text);
    REQUIRE_MESSAGE(host, host.error().detail());
    CHECK(host->to_string() == row.canonical);
    CHECK(host->zmq_endpoint() == row.zmq);
    CHECK(HostAddr::parse(row.zmq) == host.value());
  }
}

TEST_CASE("host address: says which addresses mean any, all interfaces, this machine") {
  struct Row {
    std::string_view text;
    std::string_view kinds;  // any, wildcard, loopback, link-local, elsewhere
  };
  for (const Row& row : std::vector<Row>{{"tcp:h1:7420", "e"},
                                         {"tcp:h1:0", "a"},
                                         {"tcp:*:7420", "w"},
                                         {"tcp:0.0.0.0:0", "aw"},
                                         {"tcp:[::]:1", "w"},
                                         {"tcp:[::ffff:0.0.0.0]:1", "w"},
                                         {"tcp:127.3.4.5:1", "o"},
                                         {"tcp:[::1]:1", "o"},
                                         {"tcp:[::ffff:127.0.0.1]:1", "o"},
                                         {"tcp:localhost:1", "o"},
                                         {"tcp:LOCALHOST.:1", "o"},
                                         {"tcp:a.localhost:1", "o"},
                                         {"tcp:169.254.1.1:1", "l"},
                                         {"tcp:[fe80::1%e0]:1", "l"},
                                         {"tcp:[febf::1]:1", "l"},
                                         {"tcp:[fec0::1]:1", "e"},
                                         {"tcp:10.0.0.1:1", "e"},
                                         {"tcp:[2001:db8::1]:1", "e"},
                                         {"tcp:notlocalhost:1", "e"},
                                         {"unix:", "a"},
                                         {"unix:/s", ""},
                                         {"unix:@s", ""},
                                         {"local:0", "a"},
                                         {"local:4", ""}}) {
    CAPTURE(row.text);
    const HostAddr host = HostAddr::parse(row.text).value();
    std::string kinds;
    if (host.is_any()) kinds += 'a';
    if (host.is_wildcard()) kinds += 'w';
    if (host.is_loopback()) kinds += 'o';
    if (host.is_link_local()) kinds += 'l';
    if (host.is_reachable_from_elsewhere()) kinds += 'e';
    CHECK(kinds == row.kinds);
  }
  CHECK(HostAddr::tcp("::1", 5).value().host() == "::1");
  CHECK(HostAddr::tcp("::1", 5).value().is_ipv6());
  CHECK(HostAddr::tcp("h", 5).value().port() == 5);
  CHECK(HostAddr::unix_socket("@x").value().path() == "@x");
}

TEST_CASE("ids: the spec's examples") {
  const HostAddr host = HostAddr::parse("tcp:h1:7420").value();
  const ProcId proc(host, proc_name(Name::parse("trainers-13Se1Maqzryj").value(), 3));
  CHECK(proc.to_string() == "tcp:h1:7420,trainers_3-13Se1Maqzryj");
  CHECK(proc.agent().to_string() == "tcp:h1:7420,trainers_3-13Se1Maqzryj,agent[0]");
  CHECK(host_agent(host).to_string() == "tcp:h1:7420,service,agent[0]");
  CHECK(host_agent(host).port(9).to_string() == "tcp:h1:7420,service,agent[0][9]");
  CHECK(ActorId::parse("tcp:h1:7420,service,agent") == host_agent(host));
  CHECK(proc.key() == key_of("tcp:h1:7420,trainers_3-13Se1Maqzryj"));
  CHECK(host.key() == key_of("tcp:h1:7420"));
}

TEST_CASE(
    "ids: a key is no identity: two hosts may share one, and with them all their procs, and still "
    "differ") {
  // Found by search; a table by key must compare the texts, too (broker/router/route_table.cpp).
  const HostAddr first = HostAddr::parse("unix:@qy4hvzqfxllgg").value();
  const HostAddr second = HostAddr::parse("unix:@khh6t7a424m6c").value();
  CHECK(first != second);
  CHECK(first.key() == second.key());
  CHECK(host_service(first) != host_service(second));
  CHECK(host_service(first).key() == host_service(second).key());
  CHECK(std::unordered_set<HostAddr>{first, second}.size() == 2);
}

TEST_CASE("ids: what was printed parses to the same value, equal values hash alike") {
  std::map<HostAddr, std::string> ordered;
  std::unordered_set<PortId> hashed;
  std::size_t cases = 0;
  test::for_cases(5'000, [&](test::Random& random) {
    ++cases;
    const HostAddr host = random_host(random);
    CAPTURE(host);
    REQUIRE(HostAddr::parse(host.to_string()) == host);
    REQUIRE(HostAddr::parse(host.zmq_endpoint()) == host);
    REQUIRE(HostAddr::parse(host.to_string())->key() == host.key());
    REQUIRE(host.key() != 0);
    REQUIRE(ordered.try_emplace(host, host.to_string()).first->second == host.to_string());
    const ProcId proc(host, random_proc_name(random));
    REQUIRE(ProcId::parse(proc.to_string()) == proc);
    const ActorId actor =
        proc.actor(Name::make("actor", random()).value(), random() >> random() % 64);
    REQUIRE(ActorId::parse(actor.to_string()) == actor);
    const PortId port = actor.port(static_cast<std::uint32_t>(random()));
    REQUIRE(PortId::parse(port.to_string()) == port);
    hashed.insert(port);
    hashed.insert(PortId::parse(port.to_string()).value());
  });
  CHECK(hashed.size() == cases);
}

TEST_CASE("ids: no text crashes a parser, and what was accepted round-trips") {
  const std::vector<std::string> tokens = {"tcp:",    "tcp://",
                                           "ipc://",  "unix:",
                                           "local:",  "inproc://",
                                           "h1",      ":",
                                           "7420",    "[",
                                           "]",       "::1",
                                           "%e",      "*",
                                           "/p",      "@a",
                                           ",",       "a-13Se1Maqzryj",
                                           "service", "[0]",
                                           "-",       ".",
                                           "0",       "\xC3",
                                           "\xA9",    "\"",
                                           " ",       std::string(1, '\0')};
  const auto check = [](const auto& parsed) {
    using Value = typename std::decay_t<decltype(parsed)>::value_type;
    if (parsed) REQUIRE(Value::parse(parsed->to_string()) == parsed.value());
  };
  test::for_cases(5'000, [&](test::Random& random) {
    std::string text = tokens[random() % 6];
    for (std::uint64_t n = random() % 8; n > 0; --n) text += tokens[random() % tokens.size()];
    CAPTURE(text);
    check(HostAddr::parse(text));
    check(ProcId::parse(text));
    check(ActorId::parse(text));
    check(PortId::parse(text));
  });
}

TEST_CASE("ids: bad texts are refused with position") {
  struct Row {
    char kind;  // Host, Proc, Actor, pOrt
    std::string text;
    std::string_view detail;
  };
  const std::string long_path = "unix:/" + std::string(107, 'a');
  const std::vector<Row> rows = {
      {'h', "",
       "host address: at 0: expected tcp:HOST:PORT, unix:/PATH, unix:@NAME or local:N, found the "
       "end"},
      {'h', "udp:h:1", "host address: at 0: expected tcp:HOST:PORT"},
      {'h', " tcp:h:1", "host address: at 0: expected tcp:HOST:PORT"},
      {'h', "tcp:h1", "host address: at 6: expected ':' and a port, found the end"},
      {'h', "tcp:h1:", "host address: at 7: expected a port, found the end"},
      {'h', "tcp:h1:x", "host address: at 7: expected a port, found 'x'"},
      {'h', "tcp:h1:-1", "host address: at 7: expected a port, found '-'"},
      {'h', "tcp:h1:65536", "host address: at 7: expected a port of at most 65535, found 65536"},
      {'h', "tcp:h1:99999999999999999999999",
       "host address: at 7: expected a port of at most 65535, found 99999999999999999999999"},
      {'h', "tcp:h1:1 ", "host address: at 8: expected the end of the port, found ' '"},
      {'h', "tcp:h1:*", "host address: at 7: expected a port, found '*'"},
      {'h', "tcp::1", "host address: at 4: expected a host name, found ':'"},
      {'h', "tcp:::1:1",
       "host address: at 4: expected a host name (an IPv6 address stands in brackets), found ':'"},
      {'h', "tcp:[::1]", "host address: at 9: expected ':' and a port"},
      {'h', "tcp:[::1:1", "host address: at 8: expected ']', found ':'"},
      {'h', "tcp:[::g]:1", "host address: at 5: expected an IPv6 address, found \"::g\""},
      {'h', "tcp:[]:1", "host address: at 5: expected an IPv6 address"},
      {'h', "tcp:[fe80::1%]:1", "host address: at 13: expected the name of an interface"},
      {'h', "tcp:[fe80::1%a b]:1",
       "host address: at 14: expected a letter, a digit or one of _ - ., found ' '"},
      {'h', "tcp:1.2.3:1", "host address: at 4: expected four numbers up to 255"},
      {'h', "tcp:1.2.3.256:1", "host address: at 4: expected four numbers up to 255"},
      {'h', "tcp:0x7f000001:1", "host address: at 4: expected four numbers up to 255"},
      {'h', "tcp:a..b:1", "host address: at 6: expected a host name, found '.'"},
      {'h', "tcp:.:1", "host address: at 4: expected a host name, found '.'"},
      {'h', "tcp:-a:1", "host address: at 4: expected a host name"},
      {'h', "tcp:a-:1",
       "host address: at 5: expected a letter or a digit at the end of a part of a host name, "
       "found '-'"},
      {'h', "tcp:a/b:1",
       "host address: at 5: expected a host name (letters, digits, '-', '_', '.'), found '/'"},
      {'h', "tcp:" + std::string(64, 'a') + ":1",
       "host address: at 4: expected a part of a host name of at most 63 characters, found 64"},
      {'h', "tcp:" + std::string(254, 'a') + ":1",
       "host address: at 4: expected a host name of at most 253 characters, found 254"},
      {'h', "unix:run/x",
       "host address: at 5: expected '/' or '@' (an absolute path or an abstract name), found 'r'"},
      {'h', "unix:/", "host address: at 6: expected the path of a socket, found the end"},
      {'h', "unix:@", "host address: at 6: expected an abstract name, found the end"},
      {'h', "unix:*", "host address: at 5: expected '/' or '@'"},
      {'h', "unix:/a,b",
       "host address: at 7: expected a path without commas, double quotes and control characters, "
       "found ','"},
      {'h', "unix:/a\"b", "host address: at 7: expected a path without commas"},
      {'h', "unix:/a\nb",
       "host address: at 7: expected a path without commas, double quotes and control characters, "
       "found '\\n'"},
      {'h', "unix:/ab\xFF", "host address: at 8: expected UTF-8, found byte 0xff"},
      {'h', long_path,
       "host address: at 112: expected a socket path of at most 107 bytes (sockaddr_un), found "
       "108"},
      {'h', "local:", "host address: at 6: expected a number, found the end"},
      {'h', "local:18446744073709551616",
       "host address: at 6: expected a number of at most 18446744073709551615, found "
       "18446744073709551616"},
      {'h', "inproc://x", "host address: at 9: expected a number, found 'x'"},
      {'p', "tcp:h1:1", "proc id: at 8: expected ',' and the name of a proc, found the end"},
      {'p', "tcp:h1:1,", "name: at 9: MissingName"},
      {'p', "tcp:h1:x,a", "host address: at 7: expected a port, found 'x'"},
      {'p', "tcp:h1:1,a-", "name: at 11: MissingUuid"},
      {'p', "tcp:h1:1,a,b", "host address: at 8: expected the end of the port, found ','"},
      {'a', "tcp:h1:1,a", "proc id: at 8: expected ',' and the name of a proc, found ','"},
      {'a', "tcp:h1:1", "actor id: at 8: expected ',' and the name of an actor"},
      {'a', "tcp:h1:1,a,b[", "actor id: at 13: expected a pid, found the end"},
      {'a', "tcp:h1:1,a,b[0", "actor id: at 14: expected ']', found the end"},
      {'a', "tcp:h1:1,a,b[0][1]", "actor id: at 15: expected the end of the actor id, found '['"},
      {'a', "tcp:h1:1,a,[0]", "name: at 11: MissingName"},
      {'o', "tcp:h1:1,a,b[0]", "port id: at 15: expected '[', found the end"},
      {'o', "tcp:h1:1,a,b", "port id: at 12: expected '[', found the end"},
      {'o', "tcp:h1:1,a,b[0][4294967296]",
       "port id: at 16: expected a port number of at most 4294967295, found 4294967296"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto check = [&](const auto& parsed) {
      REQUIRE_FALSE(parsed);
      CHECK(parsed.error().code() == ErrorCode::parse_error);
      CHECK(parsed.error().detail().substr(0, row.detail.size()) == row.detail);
    };
    if (row.kind == 'h') check(HostAddr::parse(row.text));
    if (row.kind == 'p') check(ProcId::parse(row.text));
    if (row.kind == 'a') check(ActorId::parse(row.text));
    if (row.kind == 'o') check(PortId::parse(row.text));
  }
}
