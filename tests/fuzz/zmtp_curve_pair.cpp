// Both ends of CURVE, and an attacker between them that may change, drop, repeat and swap what
// passes: an end that opens has heard an honest handshake, and each message that comes out was put
// in, in that order, and once.
#include <deque>
#include <optional>

#include "common/zmtp/curve_client.h"
#include "common/zmtp/curve_server.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

namespace {

/// What the one between them does with a command: as it is, changed, or none.
std::optional<std::string> pass(std::string command, std::uint8_t action) {
  if (action == 0 || command.empty()) return command;
  if (action < 32) return std::nullopt;
  command[(action * std::size_t{7}) % command.size()] ^= static_cast<char>(1 << action % 8);
  return command;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 4096) return 0;
  static const CurveKeyPair server_pair = CurveKeyPair::make(), client_pair = CurveKeyPair::make();
  CurveServer server(server_pair, "ROUTER");
  CurveClient client(client_pair, server_pair.public_key, "DEALER");
  FuzzedDataProvider input(data, size);
  bool is_honest = true;
  std::string command = client.begin();
  for (int step = 0; step < 4; ++step) {
    const auto action = input.ConsumeIntegral<std::uint8_t>();
    is_honest = is_honest && action == 0;
    const auto passed = pass(command, action);
    if (!passed) break;
    command = step % 2 == 0 ? server.on_command(*passed) : client.on_command(*passed);
    if (server.state() == Mechanism::State::asking) {
      FUZZ_CHECK(server.peer_key() == client_pair.public_key.to_text(), "whose key it is");
      command = server.accept();
    }
    if (command.empty()) break;
  }
  const bool is_open =
      server.state() == Mechanism::State::open && client.state() == Mechanism::State::open;
  FUZZ_CHECK(is_open == is_honest, "the handshake");
  if (!is_open) return 0;

  std::deque<std::string> on_the_way;
  std::uint64_t put = 0, heard = 0;
  while (input.remaining_bytes() > 0) {
    const auto what = input.ConsumeIntegral<std::uint8_t>();
    if (what < 128 || on_the_way.empty()) {
      const std::string text = std::to_string(++put) + std::string(what, 'x');
      std::string sealed(text.size() + CurveTraffic::kOverhead, '\0');
      client.traffic()->seal(what % 4, text, sealed.data());
      on_the_way.push_back(sealed);
      continue;
    }
    // One of those on the way, which may come again.
    const std::size_t at = what % on_the_way.size();
    const auto passed = pass(on_the_way[at], input.ConsumeIntegral<std::uint8_t>());
    if (!passed) continue;
    std::string received = *passed;
    if (!server.traffic()->open(received.data(), received.size())) continue;
    FUZZ_CHECK(*passed == on_the_way[at], "a changed message");
    const auto number = std::stoull(received.substr(CurveTraffic::kOverhead));
    FUZZ_CHECK(number > heard, "the order");
    heard = number;
  }
  return 0;
}
