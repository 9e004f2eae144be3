// What a stranger may send to a broker that has keys, from any step of the handshake on: without
// the secret of an honest client no command opens it, and none names a key.
#include <vector>

#include "common/zmtp/curve_client.h"
#include "common/zmtp/curve_server.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

FUZZ_MUTATE_IN_PLACE

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 100'000) return 0;
  static const CurveKeyPair own = CurveKeyPair::make(), honest = CurveKeyPair::make();
  CurveServer server(own, "ROUTER");
  CurveClient client(honest, own.public_key, "DEALER");
  const int steps = data[0] % 3;
  std::string command = client.begin();
  if (steps >= 1) command = client.on_command(server.on_command(command));
  if (steps == 2) server.on_command(command);
  FUZZ_CHECK(
      server.state() == (steps == 2 ? Mechanism::State::asking : Mechanism::State::handshake),
      "the honest steps");
  std::string_view rest = fuzz::text_of(data + 1, size - 1);
  while (!rest.empty()) {
    // A byte says how long the next command is; 255: all the rest. It may begin as a real one does.
    const auto length = static_cast<unsigned char>(rest[0]);
    rest.remove_prefix(1);
    const std::string_view one = length == 255 ? rest : rest.substr(0, length);
    rest.remove_prefix(one.size());
    std::string sent = command;
    if (length % 2 == 0) {
      sent = one;
    } else if (!sent.empty() && !one.empty()) {
      const std::size_t at = static_cast<unsigned char>(one[0]) * 3 % sent.size();
      sent.replace(at, std::min(one.size() - 1, sent.size() - at), one.substr(1));
    }
    // The honest command would open it.
    if (sent == command) continue;
    const std::string answer = server.on_command(sent);
    const bool is_welcome = steps == 0 && answer.starts_with("\7WELCOME");
    FUZZ_CHECK(answer.empty() || is_welcome, sent);
    FUZZ_CHECK(server.state() == Mechanism::State::failed || is_welcome, sent);
    FUZZ_CHECK(server.traffic() == nullptr, sent);
    if (server.state() == Mechanism::State::failed)
      FUZZ_CHECK(!server.why_failed().empty(), "a failure without a reason");
  }
  return 0;
}
