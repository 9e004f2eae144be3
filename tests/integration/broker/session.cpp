// What a session does when its connection ends, with a broker that ends when the test says so.
#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "broker/transport/stream_router.h"
#include "common/bus/session.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

Frame welcome_frame() {
  wire::WelcomeT welcome;
  welcome.version = 1;
  welcome.host = "unix:/elsewhere";
  welcome.heartbeat_ms = 60000;
  wire::Envelope envelope;
  envelope.mutate_role(wire::Role::broker);
  FrameWriter writer(wire::Lane::control);
  writer.add(envelope, encode_control({}, std::move(welcome)));
  return writer.finish();
}

/// A broker on a thread of its own: it welcomes the first that comes, sends it that many messages
/// of two parts, and ends once the other end has begun to read.
class EndingBroker {
 public:
  explicit EndingBroker(std::uint32_t messages) : thread_([this, messages] { serve(messages); }) {}
  ~EndingBroker() {
    end();
    thread_.join();
  }
  std::string endpoint() { return "tcp://127.0.0.1:" + std::to_string(port_.get_future().get()); }
  void end() { is_to_end_ = true; }

 private:
  void serve(std::uint32_t messages) {
    Loop loop;
    StreamRouter::Events events;
    std::optional<StreamRouter> router;
    bool is_told = false;
    events.on_message = [&](ConnectionId from, std::vector<MessagePart>&) {
      if (std::exchange(is_told, true)) return;
      Frame welcome = welcome_frame();
      router->send_behind(from, welcome);
      for (std::uint32_t i = 0; i < messages; ++i) {
        wire::Envelope envelope;
        envelope.mutate_lane(wire::Lane::data);
        envelope.mutate_port(i);
        FrameWriter writer(wire::Lane::data);
        writer.add(envelope, std::string(kInlineLimit + 1, 'b'));
        Frame frame = writer.finish();
        router->send_behind(from, frame);
      }
    };
    events.on_accepted = [](ConnectionId, int) {};
    events.on_ended = [](ConnectionId, const ZmtpStream&) {};
    events.on_writable = [](ConnectionId) {};
    router.emplace(loop.reactor, StreamRouter::Limits{}, std::move(events));
    port_.set_value(router->listen(*TcpAddress::of(*HostAddr::parse("tcp:127.0.0.1:0"))).port());
    loop.until([this] { return is_to_end_.load(); });
    router->set_linger(20s);
  }

  std::promise<std::uint16_t> port_;
  std::atomic<bool> is_to_end_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE(
    "session: whatever came before its connection ended is heard, in order, though it was read "
    "later, and though it has said something since") {
  // More than the sockets of both ends hold, and in two parts each: the end must not come between
  // those.
  constexpr std::uint32_t kMessages = 1000;
  EndingBroker broker(kMessages);
  Loop loop;
  std::vector<std::uint32_t> heard;
  int losses = 0;
  std::string why;
  auto options = session_options(broker.endpoint(), launcher_hello());
  Session::Events events;
  events.on_message = [&](const FrameReader::Message& message) {
    heard.push_back(message.envelope.port());
    if (heard.size() == 1) broker.end();
  };
  events.on_lost = [&](const std::string& reason) {
    ++losses;
    why = reason;
  };
  Session session(loop.reactor, std::move(options), std::move(events));
  REQUIRE(loop.until([&] { return losses == 1; }));
  INFO(why);
  REQUIRE(heard.size() == kMessages);
  for (std::uint32_t i = 0; i < kMessages; ++i) CHECK(heard[i] == i);
}
