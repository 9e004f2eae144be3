// A hostile broker: what it says to a peer, or to another broker, once the connection is open. The
// session hears no more than was said, keeps no more than its window, and ends in words. Bit 0 of
// the first byte: the peer is a broker; bit 1: data is held back for a while. Then come messages:
// how each is made (see Script), two bytes of length, and that many bytes.
#include "common/bus/session.h"

#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/fuzz/support.h"
#include "tests/fuzz/unix_listener.h"

using namespace meshbus;

FUZZ_MUTATE_IN_PLACE

namespace {

constexpr std::size_t kMostTurns = 100'000;

/// The bytes of a connection on which a broker says what the input says.
class Script {
 public:
  Script(std::string_view input, bool is_link) : is_link_(is_link) {
    std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL", 16);
    greeting.resize(64, '\0');
    bytes = greeting;
    const std::string ready("\5READY\13Socket-Type\0\0\0\6ROUTER", 28);
    put(4, ready);
    while (input.size() >= 3) {
      const auto kind = static_cast<unsigned char>(input[0]);
      const std::size_t size = std::min<std::size_t>(
          static_cast<unsigned char>(input[1]) + 256U * static_cast<unsigned char>(input[2]),
          input.size() - 3);
      add(kind % 6, input.substr(3, size));
      input.remove_prefix(3 + size);
    }
  }

  std::string bytes;
  std::size_t messages = 0;

 private:
  void put(unsigned char flags, std::string_view body) {
    bytes += static_cast<char>(flags | 2);
    for (int shift = 56; shift >= 0; shift -= 8)
      bytes += static_cast<char>(std::uint64_t{body.size()} >> shift & 0xff);
    bytes += body;
  }
  void add(unsigned kind, std::string_view text) {
    switch (kind) {
      case 0: return put(1, text);  // more parts follow
      case 1: return put(0, text);
      case 2: return put(4, text);  // a command
      case 3: {
        wire::WelcomeT welcome;
        welcome.version = text.empty() ? 0 : static_cast<unsigned char>(text[0]);
        welcome.host = "unix:@fuzz";
        welcome.incarnation = 7;
        welcome.heartbeat_ms = text.size() < 2 ? 5000 : static_cast<unsigned char>(text[1]) * 50;
        return say(std::move(welcome));
      }
      case 4: {
        if (text.size() % 2 == 0) return say(wire::ByeT{{}, std::string(text)});
        wire::RefusalT refusal;
        refusal.detail = text;
        return say(std::move(refusal));
      }
      default: {
        // Well-formed but for what the envelope says.
        wire::Envelope envelope;
        const auto taken = std::min(sizeof envelope, text.size());
        std::memcpy(&envelope, text.data(), taken);
        return send(envelope, text.substr(taken));
      }
    }
  }
  void say(const ControlBody& body) {
    wire::Envelope envelope;
    envelope.mutate_kind(wire::Kind::control);
    envelope.mutate_lane(wire::Lane::control);
    send(envelope, encode_control({}, body));
  }
  void send(wire::Envelope envelope, std::string_view body) {
    FrameWriter writer(envelope.lane() == wire::Lane::data ? wire::Lane::data : wire::Lane::control,
                       is_link_);
    writer.add(envelope, body);
    auto frame = writer.finish();
    for (std::size_t i = 0; i < frame.parts.size(); ++i)
      put(i + 1 < frame.parts.size() ? 1 : 0, frame.parts[i].view());
    ++messages;
  }

  bool is_link_;
};

/// Takes what the session says, and does not read it.
void drain(int fd) {
  std::array<char, 4096> buffer;
  while (::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT) > 0) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const fuzz::UnixListener listener;
  static Reactor reactor;
  const bool is_link = (data[0] & 1) != 0;
  bool is_held = (data[0] & 2) != 0;
  const Script script(fuzz::text_of(data + 1, size - 1), is_link);
  std::size_t welcomes = 0, ends = 0;
  Session::Options options;
  options.endpoint = listener.endpoint;
  options.link = is_link;
  options.hello.peer = "unix:@fuzz,client";
  options.hello.kind = is_link ? wire::PeerKind::link : wire::PeerKind::launcher;
  options.hello.incarnation = 3;
  options.connect_limit = std::chrono::milliseconds(60'000);
  Session::Events events;
  std::size_t bytes = 0;
  const auto read = [&](const FrameReader::Message& message) {
    FUZZ_CHECK(message.body.size() <= kBodyLimit, "a body's length");
    bytes += message.body.size();
    FUZZ_CHECK(bytes <= script.bytes.size(), "more was heard than was said");
  };
  events.on_welcome = [&](const wire::Welcome& welcome) {
    ++welcomes;
    FUZZ_CHECK(welcome.host() != nullptr, "a Welcome without a host");
  };
  events.on_lost = [&](const std::string& reason) {
    ++ends;
    FUZZ_CHECK(!reason.empty(), "an end without a reason");
  };
  events.on_refused = [&](const Error& error) {
    ++ends;
    FUZZ_CHECK(!error.to_string().empty(), "a refusal without a reason");
  };
  events.on_trouble = [&](const std::string& reason) {
    ++ends;
    FUZZ_CHECK(!reason.empty(), "trouble without a reason");
  };
  events.on_message = read;
  if (is_link) {
    events.on_link_frame = [](const FrameReader& reader) { return reader.is_link(); };
    events.link_ack = [] { return std::uint64_t{0}; };
  } else {
    events.on_data = [&](const FrameReader::Message& message, const std::shared_ptr<const void>&) {
      read(message);
    };
  }
  Session session(reactor, std::move(options), std::move(events));
  session.hold_data(is_held);
  reactor.turn(std::chrono::milliseconds(0));
  UniqueFd peer = listener.accept();
  std::string_view left = script.bytes;
  for (std::size_t turns = 0; !left.empty() && ends == 0 && turns < kMostTurns; ++turns) {
    const auto sent = ::send(peer.get(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
    drain(peer.get());
    reactor.turn(std::chrono::milliseconds(0));
    FUZZ_CHECK(session.inbox_bytes() <= script.bytes.size(), "what is held back");
    if (is_held && turns == 3) session.hold_data(is_held = false);
  }
  peer.reset();
  for (std::size_t turns = 0; ends == 0 && turns < kMostTurns; ++turns)
    reactor.turn(std::chrono::milliseconds(1000));
  FUZZ_CHECK(ends > 0, "the end");
  session.close("over", std::chrono::milliseconds(0));
  listener.drop_waiting();  // its next attempt
  return 0;
}
