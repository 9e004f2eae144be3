// What a session does when its connection ends, with a broker that is not ours and ends when the
// test says so.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>

#include "common/bus/session.h"
#include "tests/integration/broker/fixture.h"
#include "tests/support/wait.h"
#include "wire/bus_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

/// Whether this process has an open connection over tcp to that port.
bool is_connected_to(std::uint16_t port) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    sockaddr_in6 peer{};  // of IPv4, too: the port is in the same place
    socklen_t size = sizeof peer;
    if (::getpeername(std::stoi(entry.path().filename()), reinterpret_cast<sockaddr*>(&peer),
                      &size) != 0)
      continue;
    if ((peer.sin6_family == AF_INET || peer.sin6_family == AF_INET6) &&
        peer.sin6_port == htons(port))
      return true;
  }
  return false;
}

void send_frame(zmq::socket_t& router, zmq::message_t& to, Frame frame) {
  zmq::message_t id;
  id.copy(to);
  REQUIRE(router.send(id, zmq::send_flags::sndmore).has_value());
  for (std::size_t i = 0; i < frame.parts.size(); ++i)
    REQUIRE(router
                .send(frame.parts[i],
                      i + 1 < frame.parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none)
                .has_value());
}

Frame welcome_frame() {
  wire::WelcomeT welcome;
  welcome.version = 1;
  welcome.host = "unix:/elsewhere";
  welcome.heartbeat_ms = 60000;
  wire::Envelope envelope;
  envelope.mutate_role(Role::broker);
  FrameWriter writer(wire::Lane::control);
  writer.add(envelope, encode_control({}, std::move(welcome)));
  return writer.finish();
}

}  // namespace

TEST_CASE(
    "session: whatever came before its connection ended is heard, in order, though it was read "
    "later") {
  // Over tcp: on a thread of its own libzmq reads ahead. More than it reads before it looks at the
  // end of the connection, and in two parts each: the end must not come between those. (Of unix
  // sockets: tests/integration/broker/local_socket.cpp.)
  constexpr std::size_t kMessages = 300;
  Loop loop;
  auto context = std::make_unique<zmq::context_t>(1);
  zmq::socket_t router(*context, zmq::socket_type::router);
  router.bind("tcp://127.0.0.1:*");
  const std::string endpoint = router.get(zmq::sockopt::last_endpoint);
  const std::uint16_t port = HostAddr::parse(endpoint)->port();

  std::vector<std::uint32_t> heard;
  int losses = 0;
  const auto end = [&] {
    router.set(zmq::sockopt::linger, 10000);
    router.close();
    context.reset();  // returns when all of it has left
    // libzmq closes its side when it has noticed.
    REQUIRE(wait_until([&] { return !is_connected_to(port); }, 10s));
  };
  Session::Options options;
  options.endpoint = endpoint;
  options.hello = launcher_hello();
  Session::Events events;
  events.on_message = [&](const FrameReader::Message& message) {
    heard.push_back(message.envelope.port());
    if (heard.size() == 1) end();
  };
  events.on_lost = [&](const std::string&) { ++losses; };
  Session session(loop.reactor, loop.context, std::move(options), std::move(events));

  zmq::message_t peer, hello;
  REQUIRE(loop.until([&] { return router.recv(peer, zmq::recv_flags::dontwait).has_value(); }));
  REQUIRE(router.recv(hello).has_value());
  send_frame(router, peer, welcome_frame());
  // A part more, so that libzmq 4.3.4, which looks at every hundredth, does so between the two of a
  // message.
  send_frame(router, peer, FrameWriter(wire::Lane::control).finish());
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    wire::Envelope envelope;
    envelope.mutate_lane(wire::Lane::data);
    envelope.mutate_port(i);
    FrameWriter writer(wire::Lane::data);
    writer.add(envelope, std::string(kInlineLimit + 1, 'b'));
    send_frame(router, peer, writer.finish());
  }
  CHECK(is_connected_to(port));
  REQUIRE(loop.until([&] { return losses == 1; }));
  REQUIRE(heard.size() == kMessages);
  for (std::uint32_t i = 0; i < kMessages; ++i) CHECK(heard[i] == i);
}
