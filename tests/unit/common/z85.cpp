// Z85 and the keys that are written in it, by the words of RFC 32 and against libzmq.
#include "common/zmtp/z85.h"

#include <doctest/doctest.h>
#include <zmq.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/zmtp/curve_key.h"

using namespace meshbus;

namespace {

using Octets = std::vector<std::uint8_t>;

std::string zmq_encoded(const Octets& bytes) {
  std::string text(bytes.size() / 4 * 5 + 1, '\0');
  REQUIRE(zmq_z85_encode(text.data(), bytes.data(), bytes.size()) != nullptr);
  text.pop_back();
  return text;
}

bool decodes(std::string_view text, std::size_t size) {
  Octets bytes(size);
  return z85_decode(text, bytes);
}

}  // namespace

TEST_CASE("z85: the example of RFC 32") {
  const Octets bytes = {0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b};
  CHECK(z85_encode(bytes) == "HelloWorld");
  Octets back(8);
  REQUIRE(z85_decode("HelloWorld", back));
  CHECK(back == bytes);
  CHECK(z85_encode({}).empty());
  CHECK(decodes("", 0));
}

TEST_CASE("z85: both ways as libzmq does it") {
  std::mt19937 random(85);
  for (std::size_t size = 0; size <= 128; size += 4) {
    for (int i = 0; i < 20; ++i) {
      Octets bytes(size);
      for (auto& byte : bytes)
        byte = i == 0 ? 0 : i == 1 ? 0xff : static_cast<std::uint8_t>(random());
      const std::string text = z85_encode(bytes);
      CHECK(text == zmq_encoded(bytes));
      Octets back(size);
      REQUIRE(z85_decode(text, back));
      CHECK(back == bytes);
    }
  }
}

TEST_CASE("z85: what is no text of so many bytes is refused") {
  CHECK_FALSE(decodes("HelloWorld", 4));
  CHECK_FALSE(decodes("HelloWorld", 12));
  CHECK_FALSE(decodes("HelloWorl", 8));
  CHECK_FALSE(decodes("HelloWorldd", 8));
  CHECK_FALSE(decodes("", 8));
  CHECK_FALSE(decodes("HelloWorld", 0));
  // Each digit that there is not, at each place.
  constexpr std::string_view digits =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
  for (int letter = 0; letter < 256; ++letter) {
    CAPTURE(letter);
    const auto one = static_cast<char>(letter);
    for (std::size_t at = 0; at < 10; ++at) {
      std::string text = "0000000000";
      text[at] = one;
      // "$0000" and "#0000" are more than four bytes hold.
      const bool fits = at % 5 != 0 || digits.find(one) <= 82;
      CHECK(decodes(text, 8) == (digits.find(one) != std::string_view::npos && fits));
    }
  }
  // The largest number of four bytes, and one more.
  CHECK(decodes("%nSc0", 4));
  CHECK_FALSE(decodes("%nSc1", 4));
  CHECK_FALSE(decodes("#####", 4));
}

TEST_CASE("z85: keys are those of libzmq") {
  for (int i = 0; i < 20; ++i) {
    // One that libzmq made.
    std::array<char, 41> known{}, secret{}, derived{};
    REQUIRE(zmq_curve_keypair(known.data(), secret.data()) == 0);
    const auto pair = CurveKeyPair::from_text(known.data(), secret.data());
    REQUIRE(pair.has_value());
    CHECK(pair->public_key.to_text() == known.data());
    CHECK(pair->secret_key.to_text() == secret.data());
    CHECK(pair->secret_key.make_public() == pair->public_key);
    // And one of ours.
    const auto own = CurveKeyPair::make();
    REQUIRE(own.secret_key.to_text().size() == 40);
    REQUIRE(zmq_curve_public(derived.data(), own.secret_key.to_text().c_str()) == 0);
    CHECK(own.public_key.to_text() == derived.data());
    CHECK(own.secret_key.make_public() == own.public_key);
  }
  for (const std::string& text :
       {std::string(), std::string(39, '0'), std::string(41, '0'), std::string(40, '~'),
        std::string(40, '\0'), std::string(40, '#'), "00000" + std::string(35, ' ')})
    CHECK_FALSE(CurveKey::from_text(text).has_value());
  CHECK(CurveKey::from_text(std::string(40, '0')).has_value());
}
