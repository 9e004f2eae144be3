// What may sit at a broker's address and lack its secret: from any step of the handshake on, no
// command of it opens the client's end.
#include "common/zmtp/curve_client.h"
#include "common/zmtp/curve_server.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

FUZZ_MUTATE_IN_PLACE

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 100'000) return 0;
  static const CurveKeyPair own = CurveKeyPair::make(), honest = CurveKeyPair::make();
  CurveServer server(honest, "ROUTER");
  CurveClient client(own, honest.public_key, "DEALER");
  const bool is_welcomed = data[0] % 2 == 1;
  std::string command = server.on_command(client.begin());
  if (is_welcomed) {
    server.on_command(client.on_command(command));
    FUZZ_CHECK(server.state() == Mechanism::State::asking, "the honest steps");
    command = server.accept();
  }
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  std::string sent = command;
  if (data[0] % 4 < 2) {
    sent = text;
  } else {
    const std::size_t at = static_cast<unsigned char>(text[0]) * 3 % sent.size();
    sent.replace(at, std::min(text.size() - 1, sent.size() - at), text.substr(1));
  }
  if (sent == command) return 0;
  const std::string answer = client.on_command(sent);
  FUZZ_CHECK(answer.empty(), sent);
  FUZZ_CHECK(client.state() == Mechanism::State::failed, sent);
  FUZZ_CHECK(client.traffic() == nullptr, sent);
  FUZZ_CHECK(!client.why_failed().empty(), "a failure without a reason");
  return 0;
}
