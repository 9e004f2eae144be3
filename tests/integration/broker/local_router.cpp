// The broker's side of unix sockets, against libzmq's DEALER and against whatever else may connect
// there.
#include "broker/transport/stream_router.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <system_error>
#include <thread>

#include "tests/support/socket_monitor.h"
#include "tests/support/temp_dir.h"
#include "tests/world/loop.h"
#include "tests/world/strangers_zmtp.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

using Parts = std::vector<std::string>;

/// The router, and what it tells.
class Router {
 public:
  explicit Router(const std::string& path) {
    StreamRouter::Events events;
    events.on_message = [this](ConnectionId from, std::vector<MessagePart>& parts) {
      Parts message;
      for (const auto& part : parts) message.emplace_back(part.view());
      if (on_message) on_message(from, message);
      received[from].push_back(std::move(message));
    };
    events.on_accepted = [this](ConnectionId id, int descriptor) {
      accepted.push_back(id);
      descriptors[id] = descriptor;
    };
    events.on_ended = [this](ConnectionId id, const ZmtpStream& stream) {
      CHECK(stream.descriptor() == descriptors[id]);
      ended[id] = {stream.is_refused(), stream.was_open(), stream.why_ended(), received[id].size()};
    };
    events.on_writable = [this](ConnectionId id) { writable.push_back(id); };
    router =
        std::make_unique<StreamRouter>(loop.reactor, StreamRouter::Limits{}, std::move(events));
    router->listen(path);
  }
  StreamRouter::Sent send(ConnectionId to, const Parts& parts) {
    Frame frame;
    for (const auto& part : parts) frame.parts.emplace_back(part);
    return router->send(to, frame);
  }

  struct End {
    bool is_refused, was_open;
    std::string why;
    std::size_t after;
  };
  Loop loop;
  std::unique_ptr<StreamRouter> router;
  std::function<void(ConnectionId, const Parts&)> on_message;
  std::vector<ConnectionId> accepted, writable;
  std::map<ConnectionId, int> descriptors;
  std::map<ConnectionId, std::deque<Parts>> received;
  std::map<ConnectionId, End> ended;
};

const std::string plain_ready = zmtp_frame("\5READY", false, true);

}  // namespace

TEST_CASE(
    "local router: messages of every size and number of parts pass both ways between it and "
    "libzmq's DEALER") {
  TempDir dir;
  Router at(dir / "b");
  zmq::socket_t dealer(at.loop.context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::sndhwm, 0);
  dealer.set(zmq::sockopt::rcvhwm, 0);
  dealer.set(zmq::sockopt::routing_id, "a name of its own, which changes nothing");
  dealer.connect("ipc://" + (dir / "b"));

  std::mt19937 random(20261123);
  std::vector<Parts> sent;
  for (const std::size_t size : {0U, 1U, 254U, 255U, 256U, 8191U, 8192U, 8193U, 16384U, 16385U,
                                 65525U, 65536U, 70000U, 1U << 20U}) {
    sent.push_back({std::string(size, 'x')});
    sent.push_back({"head", std::string(size, 'y'), "", std::string(size / 2, 'z')});
  }
  for (int i = 0; i < 2000; ++i) {
    Parts& message = sent.emplace_back();
    for (std::size_t part = 0; part < 1 + random() % 4; ++part)
      message.emplace_back(random() % (random() % 50 == 0 ? 200'000 : 300),
                           static_cast<char>('a' + random() % 26));
  }
  sent.push_back(Parts(500, "many"));
  for (const Parts& message : sent) {
    for (std::size_t i = 0; i < message.size(); ++i)
      REQUIRE(dealer
                  .send(zmq::buffer(message[i]),
                        i + 1 < message.size() ? zmq::send_flags::sndmore : zmq::send_flags::none)
                  .has_value());
  }
  // Each goes back, when there is room.
  std::size_t back = 0;
  std::vector<Parts> got;
  const auto echo = [&] {
    if (at.accepted.empty()) return false;
    const ConnectionId id = at.accepted[0];
    while (back < at.received[id].size() &&
           at.send(id, at.received[id][back]) == StreamRouter::Sent::yes)
      ++back;
    zmq::message_t part;
    while (dealer.recv(part, zmq::recv_flags::dontwait)) {
      Parts& message = got.emplace_back(Parts{part.to_string()});
      while (part.more()) {
        REQUIRE(dealer.recv(part).has_value());
        message.push_back(part.to_string());
      }
    }
    return got.size() == sent.size();
  };
  REQUIRE(at.loop.until(echo));
  CHECK(at.accepted.size() == 1);
  CHECK(StreamRouter::is_local(at.accepted[0]));
  CHECK(std::ranges::equal(at.received[at.accepted[0]], sent));
  CHECK(got == sent);
  CHECK_FALSE(at.writable.empty());  // more than a socket takes
  const auto who = at.router->process_of(at.accepted[0]);
  REQUIRE(who.has_value());
  CHECK(who->uid == ::geteuid());
  CHECK(who->pid == ::getpid());

  dealer.close();
  REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }));
  CHECK(at.ended.begin()->second.why == "closed it");
  CHECK(at.send(at.accepted[0], {"late"}) == StreamRouter::Sent::gone);
  CHECK(at.router->descriptor_of(at.accepted[0]) == -1);
  CHECK_FALSE(at.router->process_of(at.accepted[0]).has_value());
}

TEST_CASE("local router: libzmq's heartbeats are answered") {
  TempDir dir;
  Router at(dir / "b");
  zmq::socket_t dealer(at.loop.context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::heartbeat_ivl, 20);
  dealer.set(zmq::sockopt::heartbeat_timeout, 200);
  SocketMonitor monitor(at.loop.context, dealer, ZMQ_EVENT_DISCONNECTED);
  dealer.connect("ipc://" + (dir / "b"));
  at.loop.run_for(600ms);
  // Without an answer it would end the connection; by the bytes that one can be seen.
  RawConnection peer(dir / "b");
  REQUIRE(peer.write(zmtp_greeting() + plain_ready +
                     zmtp_frame(std::string("\4PING\0\0context", 14), false, true)));
  std::string heard;
  REQUIRE(at.loop.until([&] {
    heard += peer.read_some();
    return heard.find("\4PONGcontext") != std::string::npos;
  }));
  CHECK_FALSE(monitor.next().has_value());
  CHECK(at.ended.empty());
  CHECK(at.accepted.size() == 2);
}

TEST_CASE(
    "local router: bytes that come one by one are the same messages, and all that came is heard "
    "before the end") {
  TempDir dir;
  Router at(dir / "b");
  RawConnection peer(dir / "b");
  const std::string body(300, 'b');
  for (const char byte :
       zmtp_greeting() + plain_ready + zmtp_frame("a", true) + zmtp_frame(body, false)) {
    REQUIRE(peer.write(std::string(1, byte)));
    at.loop.reactor.turn(0ms);
  }
  REQUIRE(at.loop.until([&] { return at.received.size() == 1; }));
  const ConnectionId id = at.accepted.at(0);
  CHECK(at.received[id] == std::deque<Parts>{{"a", body}});
  std::string last;
  for (int i = 0; i < 1000; ++i) last += zmtp_frame(std::to_string(i), false);
  REQUIRE(peer.write(last + zmtp_frame("half a message", true)));
  peer.close();
  REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }));
  CHECK(at.ended[id].after == 1001);
  CHECK(at.received[id].back() == Parts{"999"});
  CHECK_FALSE(at.ended[id].is_refused);
}

TEST_CASE(
    "local router: what is not ZMTP as we speak it ends its connection, says why, and hurts no "
    "other") {
  TempDir dir;
  Router at(dir / "b");
  RawConnection good(dir / "b");
  REQUIRE(good.write(zmtp_greeting() + zmtp_ready("DEALER") + zmtp_frame("first", false)));
  std::string curve = zmtp_greeting();
  curve.replace(12, 5, "CURVE");
  std::string old = zmtp_greeting();
  old[10] = 1;
  const std::string opened = zmtp_greeting() + zmtp_ready("REQ");
  std::string many;
  for (std::size_t i = 0; i <= kMostParts; ++i) many += zmtp_frame("p", true);
  const std::string large = zmtp_long_header(kPartLimit, 1) + std::string(kPartLimit, 'l');
  struct Case {
    std::string bytes, why;
    bool was_open;
  };
  const Case cases[] = {
      {std::string(64, 'x'), "does not speak ZMTP 3", false},
      {"GET / HTTP/1.1\r\n\r\n" + std::string(64, ' '), "does not speak ZMTP 3", false},
      {curve, "asks for another security mechanism", false},
      {old, "does not speak ZMTP 3", false},
      {zmtp_greeting() + zmtp_frame("no command", false), "refused the handshake", false},
      {zmtp_greeting() + zmtp_frame("\5ERROR\6refuse", false, true), "refused the handshake",
       false},
      {zmtp_greeting() + zmtp_ready("PUB"), "is no DEALER, ROUTER or REQ", false},
      {zmtp_greeting() + zmtp_frame("\5READY\13Socket", false, true), "is no DEALER, ROUTER or REQ",
       false},
      {opened + "\xff\xff\xff", "sent what is no frame of ZMTP", true},
      {opened + zmtp_long_header(kPartLimit + 1, 0),
       "sent a part of " + std::to_string(kPartLimit + 1) + " bytes", true},
      {opened + zmtp_long_header(~std::uint64_t{0}, 1), "sent a part of 18446744073709551615 bytes",
       true},
      {opened + many, "sent a message of more than 1024 parts", true},
      {opened + large + large,
       "sent a part of " + std::to_string(kPartLimit) + " bytes, too many for one message", true},
  };
  for (const auto& [bytes, why, was_open] : cases) {
    INFO(why);
    const std::size_t before = at.ended.size();
    RawConnection bad(dir / "b");
    std::string_view rest = bytes;
    REQUIRE(at.loop.until([&] {
      rest.remove_prefix(bad.write_some(rest));
      return at.ended.size() == before + 1;
    }));
    const auto& end = at.ended.rbegin()->second;
    CHECK(end.is_refused);
    CHECK(end.was_open == was_open);
    CHECK(end.why == why);
    CHECK(end.after == 0);
    CHECK(at.loop.until([&] { return bad.is_ended(); }));
  }
  // Half of anything is no end, until it ends.
  for (std::size_t size = 0; size < opened.size(); size += 7) {
    const std::size_t before = at.ended.size();
    RawConnection half(dir / "b");
    REQUIRE(half.write(opened.substr(0, size)));
    at.loop.run_for(1ms);
    CHECK(at.ended.size() == before);
    half.close();
    REQUIRE(at.loop.until([&] { return at.ended.size() == before + 1; }));
    CHECK_FALSE(at.ended.rbegin()->second.is_refused);
  }
  REQUIRE(good.write(zmtp_frame("second", false)));
  REQUIRE(at.loop.until([&] { return at.received[at.accepted[0]].size() == 2; }));
}

TEST_CASE("local router: who does not read is full, and hears everything in order once it does") {
  TempDir dir;
  Router at(dir / "b");
  RawConnection peer(dir / "b");
  REQUIRE(peer.write(zmtp_greeting() + zmtp_ready("DEALER")));
  REQUIRE(at.loop.until([&] { return at.accepted.size() == 1; }));
  const ConnectionId id = at.accepted[0];
  std::string expected;
  std::size_t sent = 0;
  const auto send_all = [&] {
    for (;; ++sent) {
      const std::string body(50'000, static_cast<char>('a' + sent % 26));
      if (at.send(id, {body}) == StreamRouter::Sent::full) break;
      expected += zmtp_frame(body, false);
      REQUIRE(sent < 1000);
    }
  };
  send_all();
  const std::size_t at_first = sent;
  CHECK(at_first < 10);  // of libzmq it would have been a thousand
  // Heartbeats that it does not want to hear answered cost nothing.
  std::string pings;
  for (int i = 0; i < 10'000; ++i) pings += zmtp_frame(std::string("\4PING\0\0", 7), false, true);
  std::string_view rest = pings;
  REQUIRE(at.loop.until([&] {
    rest.remove_prefix(peer.write_some(rest));
    return rest.empty();
  }));
  at.loop.run_for(5ms);
  CHECK(at.writable.empty());
  CHECK(at.send(id, {"x"}) == StreamRouter::Sent::full);
  std::string heard;
  const std::string pong = zmtp_frame("\4PONG", false, true);
  REQUIRE(at.loop.until([&] {
    heard += peer.read_some();
    if (!at.writable.empty() && sent < at_first + 20) send_all();
    return sent >= at_first + 20 && heard.size() >= expected.size() &&
           heard.find(pong) != std::string::npos;
  }));
  heard.erase(0, heard.find("ROUTER") + 6);
  std::size_t pongs = 0;
  for (std::size_t found = heard.find(pong); found != std::string::npos; found = heard.find(pong)) {
    heard.erase(found, pong.size());
    ++pongs;
  }
  CHECK(pongs == 1);
  REQUIRE(at.loop.until([&] {
    heard += peer.read_some();
    return heard.size() >= expected.size();
  }));
  CHECK(heard == expected);
}

TEST_CASE("local router: one that sends without end does not keep the others from being heard") {
  TempDir dir;
  Router at(dir / "b");
  std::deque<RawConnection> floods;
  const std::string flood = zmtp_long_header(60'000, 0) + std::string(60'000, 'f');
  for (int i = 0; i < 20; ++i)
    REQUIRE(floods.emplace_back(dir / "b").write(zmtp_greeting() + plain_ready));
  RawConnection quiet(dir / "b");
  REQUIRE(quiet.write(zmtp_greeting() + plain_ready));
  REQUIRE(at.loop.until([&] { return at.accepted.size() == 21; }));
  const ConnectionId id = at.accepted.back();
  std::vector<std::string_view> rest(floods.size(), flood);
  const auto fill_up = [&] {
    for (std::size_t i = 0; i < floods.size(); ++i) {
      for (std::size_t written = 1; written > 0;) {
        written = floods[i].write_some(rest[i]);
        rest[i].remove_prefix(written);
        if (rest[i].empty()) rest[i] = flood;
      }
    }
  };
  for (std::size_t round = 1; round <= 50; ++round) {
    fill_up();
    REQUIRE(quiet.write(zmtp_frame("hello", false)));
    at.loop.reactor.turn(0ms);
    CHECK(at.received[id].size() == round);
  }
  floods.clear();
  REQUIRE(at.loop.until([&] { return at.ended.size() == 20; }));
}

TEST_CASE("local router: when there is no descriptor for who comes, he waits until there is") {
  TempDir dir;
  Router at(dir / "b");
  // UBSan opens a pipe when it sees a type for the first time. Let it see all that it will see.
  const RawConnection first(dir / "b");
  REQUIRE(at.loop.until([&] { return at.accepted.size() == 1; }));
  std::deque<RawConnection> crowd;
  for (int i = 0; i < 10; ++i) crowd.emplace_back(dir / "b");
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &old) == 0);
  const UniqueFd next(::fcntl(0, F_DUPFD_CLOEXEC, 0));
  const rlimit few{static_cast<rlim_t>(next.get()) + 4, old.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  int turns = 0;
  at.loop.until(
      [&] {
        ++turns;
        return false;
      },
      50ms);
  const std::size_t let_in = at.accepted.size() - 1;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &old) == 0);
  CHECK(turns < 200);  // it does not ask again and again
  CHECK(let_in >= 1);
  CHECK(let_in < 10);
  REQUIRE(at.loop.until([&] { return at.accepted.size() == 11; }));
}

TEST_CASE("local router: what it took leaves while it lingers, and no longer") {
  TempDir dir;
  for (const bool is_read : {true, false}) {
    CAPTURE(is_read);
    Router at(dir / (is_read ? "read" : "not"));
    RawConnection peer(dir / (is_read ? "read" : "not"));
    REQUIRE(peer.write(zmtp_greeting() + plain_ready));
    REQUIRE(at.loop.until([&] { return at.accepted.size() == 1; }));
    const std::string body(900'000, 'l');
    REQUIRE(at.send(at.accepted[0], {body}) == StreamRouter::Sent::yes);
    std::string heard;
    std::thread reader;
    if (is_read) {
      reader =
          std::thread([&] { heard = peer.read_to_end(std::chrono::steady_clock::now() + 20s); });
    }
    at.router->set_linger(is_read ? 20s : 100ms);
    const auto start = std::chrono::steady_clock::now();
    at.router.reset();
    const auto took = std::chrono::steady_clock::now() - start;
    if (reader.joinable()) reader.join();
    CHECK(took < 10s);
    if (!is_read) CHECK(took >= 100ms);
    if (is_read) CHECK(heard.ends_with(body));
  }
}

TEST_CASE("local router: one who does not read costs the others nothing while it lingers") {
  TempDir dir;
  Router at(dir / "b");
  std::deque<RawConnection> peers;
  for (int i = 0; i < 9; ++i)
    REQUIRE(peers.emplace_back(dir / "b").write(zmtp_greeting() + plain_ready));
  REQUIRE(at.loop.until([&] { return at.accepted.size() == 9; }));
  const std::string body(1'000'000, 'l');
  at.router->set_linger(20s);
  std::vector<std::size_t> heard(peers.size());
  std::thread reader([&] {
    const auto end = std::chrono::steady_clock::now() + 20s;
    const auto read_all = [&](std::size_t first, std::size_t last) {
      for (bool is_whole = false; !is_whole && std::chrono::steady_clock::now() < end;) {
        is_whole = true;
        for (std::size_t i = first; i < last; ++i) {
          heard[i] += peers[i].read_some().size();
          is_whole = is_whole && heard[i] > 2 * body.size();
        }
      }
    };
    read_all(1, peers.size());
    read_all(0, 1);
  });
  for (const ConnectionId id : at.accepted) {
    CHECK(at.send(id, {body}) == StreamRouter::Sent::yes);
    CHECK(at.send(id, {body}) == StreamRouter::Sent::yes);  // behind the other
  }
  at.router.reset();
  reader.join();
  for (const std::size_t size : heard) CHECK(size > 2 * body.size());
}

TEST_CASE("local router: messages without bytes are taken a share at a time") {
  TempDir dir;
  Router at(dir / "b");
  RawConnection peer(dir / "b");
  REQUIRE(peer.write(zmtp_greeting() + plain_ready));
  REQUIRE(at.loop.until([&] { return at.accepted.size() == 1; }));
  std::string empty;
  for (int i = 0; i < 50'000; ++i) empty += std::string(2, '\0');
  REQUIRE(peer.write_some(empty) == empty.size());
  auto& received = at.received[at.accepted[0]];
  for (std::size_t before = 0; received.size() < 50'000; before = received.size()) {
    at.loop.reactor.turn(1s);
    REQUIRE(received.size() - before <= sizeof(ZmtpStream::Buffer) / 2);
    REQUIRE(received.size() > before);
  }
}

TEST_CASE("local router: who has closed his ears is gone") {
  TempDir dir;
  Router at(dir / "b");
  RawConnection peer(dir / "b");
  REQUIRE(peer.write(zmtp_greeting() + plain_ready + zmtp_frame("last words", false)));
  REQUIRE(at.loop.until([&] { return at.received.size() == 1; }));
  peer.stop_reading();
  CHECK(at.send(at.accepted[0], {"anything"}) == StreamRouter::Sent::yes);
  REQUIRE(at.loop.until([&] { return at.ended.size() == 1; }));
  CHECK(at.send(at.accepted[0], {"anything"}) == StreamRouter::Sent::gone);
}

TEST_CASE("local router: a place that is taken, missing or too long is told") {
  TempDir dir;
  Router at(dir / "b");
  CHECK_THROWS_WITH_AS(at.router->listen(dir / "b"), "Address already in use", std::system_error);
  CHECK_THROWS_WITH_AS(at.router->listen(dir / "none/b"), "No such file or directory",
                       std::system_error);
  CHECK_THROWS_AS(at.router->listen(std::string(200, 'x')), std::system_error);
  CHECK_NOTHROW(at.router->listen("@meshbus-test-" + std::to_string(::getpid())));
}
