// Packets that a proc of the same host may send by a direct path. What is handed out is messages,
// calls and answers under the name that the broker gave; anything else ends the path. A packet is
// the number of its bytes (two bytes), and these; with the highest bit of the number, it ends with
// 32 KiB of zeros more for each that its first byte says, up to 7.
#include "common/bus/direct_path.h"

#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "common/bus/direct_outlets.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

FUZZ_MUTATE_IN_PLACE

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Reactor reactor;
  auto ends = DirectSocket::make_pair();
  if (!ends) return 0;
  wire::Envelope source;
  source.mutate_source_proc(1);
  source.mutate_source_host(2);
  source.mutate_source_incarnation(3);
  source.mutate_role(wire::Role::proc);
  int ended = 0;
  DirectPath::Events events;
  events.backlog = [] { return std::size_t{0}; };
  events.on_message = [&](const FrameReader::Message& message,
                          const std::shared_ptr<const void>& frame) {
    const auto& envelope = message.envelope;
    FUZZ_CHECK(envelope.source_proc() == 1 && envelope.source_host() == 2 &&
                   envelope.source_incarnation() == 3 && envelope.role() == wire::Role::proc,
               "the source");
    FUZZ_CHECK(DirectOutlets::is_fit(envelope, message.body.size()), "the kind");
    FUZZ_CHECK(frame != nullptr && message.body.size() == envelope.length(), "the body");
    unsigned sum = 0;  // every byte of the body is there
    for (const char byte : message.body) sum += static_cast<unsigned char>(byte);
    asm volatile("" : : "r"(sum));
  };
  events.on_room = [](DirectPath&) {};
  events.on_blocked = [](DirectPath&) {};
  events.on_ended = [&](DirectPath& path) {
    ++ended;
    path.end();
  };
  const auto path =
      std::make_shared<DirectPath>(reactor, 1, std::move(ends->first), ShareTicket(), events);
  path->bind(source, /*is_held=*/false);
  UniqueFd peer = std::move(ends->second);
  std::string_view bytes = fuzz::text_of(data, size);
  while (bytes.size() > 2 && ended == 0) {
    std::uint16_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes.remove_prefix(sizeof length);
    const bool is_long = (length & 0x8000) != 0;
    std::string packet(bytes.substr(0, length & 0x7fff));
    bytes.remove_prefix(packet.size());
    if (is_long && !packet.empty()) packet.append((packet[0] & 7) * std::size_t{32} * 1024, '\0');
    FUZZ_CHECK(::send(peer.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
                   static_cast<ssize_t>(packet.size()),
               "a socket's room");
    reactor.turn(std::chrono::milliseconds(0));
  }
  peer.reset();
  for (int turns = 0; ended == 0 && turns < 1000; ++turns)
    reactor.turn(std::chrono::milliseconds(100));
  FUZZ_CHECK(ended == 1, "the end");
  return 0;
}
