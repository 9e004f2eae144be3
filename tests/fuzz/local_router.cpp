// What strangers may send to a broker over its unix socket: the messages that come out are those
// that a plain reading of ZMTP 3.0 finds, however the bytes are cut, what is none of it ends the
// connection, and another connection is heard as if nothing were. The first byte says how the
// others are cut.
#include "broker/transport/stream_router.h"

#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <vector>

#include "common/base/unix_address.h"
#include "tests/fuzz/support.h"
#include "tests/fuzz/zmtp.h"

using namespace meshbus;

FUZZ_MUTATE_IN_PLACE

namespace {

constexpr std::string_view kReady("\4\6\5READY", 8);

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UnixAddress address(path);
  FUZZ_CHECK(fd && ::connect(fd.get(), address.get(), address.size()) == 0, path);
  return fd;
}

void say(const UniqueFd& peer, std::string_view bytes) {
  // It may have hung up.
  const ssize_t sent = ::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  FUZZ_CHECK(sent < 0 || sent == static_cast<ssize_t>(bytes.size()), "a socket's room");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 100'000) return 0;
  static const std::string path = "@meshbus-fuzz-router-" + std::to_string(::getpid());
  static std::map<ConnectionId, std::vector<fuzz::Message>> heard;
  static std::vector<ConnectionId> accepted, ended;
  static Reactor reactor;
  static StreamRouter router(reactor, StreamRouter::Limits{}, [] {
    StreamRouter::Events events;
    events.on_message = [](ConnectionId from, std::vector<MessagePart>& parts) {
      fuzz::Message& message = heard[from].emplace_back();
      for (const auto& part : parts) message.emplace_back(part.view());
    };
    events.on_accepted = [](ConnectionId id, int) { accepted.push_back(id); };
    events.on_ended = [](ConnectionId id, const ZmtpStream& stream) {
      FUZZ_CHECK(!stream.why_ended().empty(), "an end without a reason");
      ended.push_back(id);
    };
    events.on_writable = [](ConnectionId) {};
    return events;
  }());
  static const bool is_listening = (router.listen(path), true);
  static_cast<void>(is_listening);
  heard.clear();
  accepted.clear();
  ended.clear();

  const std::size_t step = data[0] == 0 ? size : std::size_t{data[0]} * data[0];
  std::string_view bytes = fuzz::text_of(data + 1, size - 1);
  const fuzz::Reading expected = fuzz::read_plainly(bytes);
  const std::string greeting =
      std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0');
  UniqueFd peer = connect_to(path);
  reactor.turn(std::chrono::milliseconds(0));
  UniqueFd other = connect_to(path);
  // One that leaves before it is accepted is not heard at all.
  reactor.turn(std::chrono::milliseconds(0));
  FUZZ_CHECK(accepted.size() == 2, "two came");
  say(other, greeting + std::string(kReady) + std::string("\1\1a", 3));
  while (!bytes.empty()) {
    say(peer, bytes.substr(0, step));
    bytes.remove_prefix(std::min(step, bytes.size()));
    reactor.turn(std::chrono::milliseconds(0));
  }
  say(other, std::string("\0\1b", 3));
  peer.reset();
  other.reset();
  for (int turns = 0; ended.size() < 2 && turns < 100'000; ++turns)
    reactor.turn(std::chrono::milliseconds(1000));
  FUZZ_CHECK(ended.size() == 2, "the end");
  FUZZ_CHECK(heard[accepted[0]] == expected.messages, "what was heard");
  FUZZ_CHECK(heard[accepted[1]] == std::vector<fuzz::Message>({{"a", "b"}}),
             "what the other one said");
  return 0;
}
