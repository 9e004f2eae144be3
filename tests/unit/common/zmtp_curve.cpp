// The handshake of CURVE and its messages, both ends against each other and against forgers.
#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/zmtp/curve_client.h"
#include "common/zmtp/curve_server.h"

using namespace meshbus;

namespace {

using State = Mechanism::State;
using Failure = Mechanism::Failure;

const CurveKeyPair& server_keys() {
  static const CurveKeyPair pair = CurveKeyPair::make();
  return pair;
}

const CurveKeyPair& client_keys() {
  static const CurveKeyPair pair = CurveKeyPair::make();
  return pair;
}

/// Both ends of one connection.
struct Ends {
  CurveServer server{server_keys(), "ROUTER"};
  CurveClient client{client_keys(), server_keys().public_key, "DEALER"};

  /// Runs the handshake. `change` sees each command, its number from 0 and may change it.
  void run(const std::function<void(int, std::string&)>& change = [](int, std::string&) {}) {
    std::string command = client.begin();
    for (int i = 0; i < 4 && !command.empty(); ++i) {
      change(i, command);
      if (i % 2 == 1) {
        command = client.on_command(command);
      } else {
        command = server.on_command(command);
        if (server.state() == State::asking) command = server.accept();
      }
    }
  }
  bool is_open() const { return server.state() == State::open && client.state() == State::open; }
};

std::string seal(CurveTraffic* traffic, std::string_view text, std::uint8_t flags = 0) {
  std::string command(text.size() + CurveTraffic::kOverhead, '\0');
  traffic->seal(flags, text, command.data());
  return command;
}

std::optional<std::string> open(CurveTraffic* traffic, std::string command) {
  const auto flags = traffic->open(command.data(), command.size());
  if (!flags) return std::nullopt;
  return std::to_string(*flags) + command.substr(CurveTraffic::kOverhead);
}

}  // namespace

TEST_CASE("zmtp curve: both ends open, and the server knows whose key the client has") {
  Ends ends;
  ends.run();
  REQUIRE(ends.is_open());
  CHECK(ends.server.peer_key() == client_keys().public_key.to_text());
  CHECK(open(ends.server.traffic(), seal(ends.client.traffic(), "to the server", 1)) ==
        "1to the server");
  CHECK(open(ends.client.traffic(), seal(ends.server.traffic(), "", 2)) == "2");
}

TEST_CASE("zmtp curve: a key that is not authorised is refused, and its holder hears so") {
  Ends ends;
  std::string command = ends.server.on_command(ends.client.begin());
  command = ends.server.on_command(ends.client.on_command(command));
  CHECK(command.empty());
  REQUIRE(ends.server.state() == State::asking);
  CHECK(ends.server.peer_key() == client_keys().public_key.to_text());
  CHECK(ends.client.on_command(ends.server.refuse()).empty());
  CHECK(ends.server.state() == State::failed);
  CHECK(ends.client.state() == State::failed);
  CHECK(ends.client.failure() == Failure::unauthorised);
  CHECK(ends.client.traffic() == nullptr);
}

TEST_CASE("zmtp curve: a client that knows another key for the server gets no answer") {
  CurveServer server(server_keys(), "ROUTER");
  CurveClient client(client_keys(), CurveKeyPair::make().public_key, "DEALER");
  CHECK(server.on_command(client.begin()).empty());
  CHECK(server.state() == State::failed);
  CHECK(server.failure() == Failure::forged);
}

TEST_CASE("zmtp curve: a server that lacks the secret of its key is refused") {
  // It knows the public key that the client expects, and no more.
  CurveServer server({server_keys().public_key, CurveKeyPair::make().secret_key}, "ROUTER");
  CurveClient client(client_keys(), server_keys().public_key, "DEALER");
  CHECK(server.on_command(client.begin()).empty());
  // And its own WELCOME, for a client that took its key, means nothing to this client.
  const CurveKeyPair other = CurveKeyPair::make();
  CurveServer real(other, "ROUTER");
  CurveClient deceived(client_keys(), other.public_key, "DEALER");
  client.on_command(real.on_command(deceived.begin()));
  CHECK(client.state() == State::failed);
  CHECK(client.failure() == Failure::forged);
}

TEST_CASE("zmtp curve: a client without the secret of the key that it shows is refused") {
  CurveServer server(server_keys(), "ROUTER");
  CurveClient client({client_keys().public_key, CurveKeyPair::make().secret_key},
                     server_keys().public_key, "DEALER");
  server.on_command(client.on_command(server.on_command(client.begin())));
  CHECK(server.state() == State::failed);
  CHECK(server.failure() == Failure::forged);
}

TEST_CASE("zmtp curve: a handshake of which any bit is changed on its way never opens") {
  for (int which = 0; which < 4; ++which) {
    std::size_t size = 0;
    Ends().run([&](int i, std::string& command) {
      if (i == which) size = command.size();
    });
    REQUIRE(size > 0);
    std::size_t opened = 0;
    // A bit of each byte, another one each time: all 8 take 8 times as long and say the same.
    for (std::size_t at = 0; at < size; ++at) {
      Ends ends;
      ends.run([&](int i, std::string& command) {
        if (i == which) command[at] = static_cast<char>(command[at] ^ (1 << (at + 7) % 8));
      });
      if (ends.is_open()) ++opened;
    }
    CAPTURE(which);
    CHECK(opened == 0);
  }
}

TEST_CASE("zmtp curve: a handshake of which a command is cut or longer never opens") {
  for (int which = 0; which < 4; ++which) {
    std::size_t opened = 0, size = 1;
    for (std::size_t kept = 0; kept < size; kept += 1 + kept / 16) {
      Ends ends;
      ends.run([&](int i, std::string& command) {
        if (i != which) return;
        size = command.size();
        command.resize(kept);
      });
      if (ends.is_open()) ++opened;
    }
    Ends longer;
    longer.run([which](int i, std::string& command) {
      if (i == which) command += '\0';
    });
    CAPTURE(which);
    CHECK(opened == 0);
    CHECK_FALSE(longer.is_open());
  }
}

TEST_CASE("zmtp curve: commands of another connection, and commands twice, are refused") {
  Ends first, second;
  const std::string hello = first.client.begin();
  const std::string welcome = first.server.on_command(hello);
  const std::string initiate = first.client.on_command(welcome);
  SUBCASE("a WELCOME of another connection") {
    static_cast<void>(second.client.begin());
    second.client.on_command(welcome);
    CHECK(second.client.failure() == Failure::forged);
  }
  SUBCASE("an INITIATE of another connection") {
    second.server.on_command(second.client.begin());
    second.server.on_command(initiate);
    CHECK(second.server.state() == State::failed);
    CHECK(second.server.failure() == Failure::forged);
  }
  SUBCASE("HELLO twice") {
    first.server.on_command(hello);
    CHECK(first.server.failure() == Failure::malformed);
    CHECK(first.server.state() == State::failed);
  }
  SUBCASE("WELCOME twice") {
    first.client.on_command(welcome);
    CHECK(first.client.state() == State::failed);
  }
  SUBCASE("INITIATE twice, the first not answered yet") {
    first.server.on_command(initiate);
    REQUIRE(first.server.state() == State::asking);
    first.server.on_command(initiate);
    CHECK(first.server.state() == State::failed);
  }
  SUBCASE("ERROR before WELCOME is no word of the server's about the key") {
    static_cast<void>(second.client.begin());
    second.client.on_command(std::string("\5ERROR\003400"));
    CHECK(second.client.state() == State::failed);
    CHECK(second.client.failure() == Failure::refused);
  }
}

TEST_CASE("zmtp curve: a peer whose socket is of another type is refused by both ends") {
  CurveServer server(server_keys(), "ROUTER");
  CurveClient subscriber(client_keys(), server_keys().public_key, "SUB");
  server.on_command(subscriber.on_command(server.on_command(subscriber.begin())));
  CHECK(server.failure() == Failure::unfitting);
  CHECK(server.state() == State::failed);

  CurveServer publisher(server_keys(), "PUB");
  CurveClient client(client_keys(), server_keys().public_key, "DEALER");
  publisher.on_command(client.on_command(publisher.on_command(client.begin())));
  REQUIRE(publisher.state() == State::asking);
  client.on_command(publisher.accept());
  CHECK(client.failure() == Failure::unfitting);
}

TEST_CASE("zmtp curve: a message that is changed, cut, repeated or out of order is refused") {
  Ends ends;
  ends.run();
  REQUIRE(ends.is_open());
  CurveTraffic* from = ends.client.traffic();
  CurveTraffic* to = ends.server.traffic();
  const std::string first = seal(from, "first"), second = seal(from, "second");
  for (std::size_t bit = 0; bit < 8 * first.size(); ++bit) {
    std::string changed = first;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    CHECK_FALSE(open(to, changed));
  }
  for (std::size_t size = 0; size < first.size(); ++size)
    CHECK_FALSE(open(to, first.substr(0, size)));
  CHECK_FALSE(open(from, first));  // back to its sender
  CHECK(open(to, second) == "0second");
  CHECK_FALSE(open(to, second));
  CHECK_FALSE(open(to, first));
  CHECK(open(to, seal(from, "third")) == "0third");
}

TEST_CASE("zmtp curve: random commands never open an end, whatever came before") {
  std::mt19937 random(20261124);
  for (int round = 0; round < 300; ++round) {
    Ends ends;
    const auto cut = static_cast<int>(random() % 4);
    ends.run([&](int i, std::string& command) {
      if (i < cut) return;
      command.resize(random() % 2 == 0 ? command.size() : random() % 600);
      for (int bytes = 0; bytes < 8 && !command.empty(); ++bytes)
        command[random() % command.size()] = static_cast<char>(random());
    });
    CHECK_FALSE(ends.is_open());
  }
}

TEST_CASE("zmtp curve: keys are what libzmq's text says") {
  const CurveKeyPair pair = CurveKeyPair::make();
  CHECK(CurveKey::from_text(pair.public_key.to_text()) == pair.public_key);
  CHECK(CurveKeyPair::from_text(pair.public_key.to_text(), pair.secret_key.to_text()).has_value());
  CHECK_FALSE(CurveKey::from_text("short"));
  CHECK_FALSE(CurveKey::from_text(std::string(40, '"')));
}
