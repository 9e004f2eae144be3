// Bytes that a broker, or a process at its address, may send to a peer over a unix socket. However
// they are cut, the messages that come out are those that a plain reading of ZMTP 3.0 finds, and
// anything else ends the connection. The first byte says how the others are cut.
#include "common/zmtp/stream_socket.h"

#include <sys/socket.h>

#include <memory>
#include <vector>

#include "tests/fuzz/support.h"
#include "tests/fuzz/unix_listener.h"
#include "tests/fuzz/zmtp.h"

using namespace meshbus;

FUZZ_MUTATE_IN_PLACE

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 100'000) return 0;
  static const fuzz::UnixListener listener;
  static Reactor reactor;
  const std::size_t step = data[0] == 0 ? size : std::size_t{data[0]} * data[0];
  std::string_view bytes = fuzz::text_of(data + 1, size - 1);
  const fuzz::Reading expected = fuzz::read_plainly(bytes);

  std::vector<fuzz::Message> heard;
  int opened = 0, ended = 0;
  std::unique_ptr<StreamSocket> socket;
  BrokerSocket::Events events;
  events.on_open = [&] { ++opened; };
  events.on_handshake_failed = [](BrokerSocket::Failure) {};
  events.on_readable = [&] {
    std::vector<MessagePart> parts;
    if (!socket->receive(parts)) return false;
    fuzz::Message& message = heard.emplace_back();
    for (const auto& part : parts) message.emplace_back(part.view());
    return true;
  };
  events.on_writable = [] {};
  events.on_ended = [&](const std::string& why) {
    FUZZ_CHECK(!why.empty(), "an end without a reason");
    ++ended;
  };
  socket = std::make_unique<StreamSocket>(
      reactor, BrokerSocket::Options{.endpoint = listener.endpoint}, std::move(events));
  UniqueFd peer = listener.accept();
  while (!bytes.empty() && ended == 0) {
    const std::string_view next = bytes.substr(0, step);
    FUZZ_CHECK(::send(peer.get(), next.data(), next.size(), MSG_NOSIGNAL) ==
                   static_cast<ssize_t>(next.size()),
               "a socket's room");
    bytes.remove_prefix(next.size());
    reactor.turn(std::chrono::milliseconds(0));
  }
  peer.reset();
  for (int turns = 0; ended == 0 && turns < 100'000; ++turns)
    reactor.turn(std::chrono::milliseconds(1000));
  FUZZ_CHECK(ended == 1, "the end");
  FUZZ_CHECK(opened == (expected.opens ? 1 : 0), "the handshake");
  FUZZ_CHECK(heard == expected.messages, "what was heard");
  return 0;
}
