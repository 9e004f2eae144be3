// What commands beside ranks read and write.
#include <doctest/doctest.h>

#include "cli/hands/forward_text.h"
#include "cli/hands/line_buffer.h"
#include "cli/hands/place_text.h"
#include "cli/hands/rank_text.h"
#include "cli/hands/shown_stream.h"

using namespace meshbus::cli;

TEST_CASE("rank_text: MESH:RANKS is a selector in other words") {
  CHECK(to_selector("train") == "train");
  CHECK(to_selector("train:3") == "train[3]");
  CHECK(to_selector("train:0-3,7") == "train[0-3,7]");
  CHECK(to_selector("train:host=1,gpu=0:4") == "train[host=1,gpu=0:4]");
  CHECK(to_selector("train[gpu=0:4]") == "train[gpu=0:4]");
  CHECK(to_selector("gpu=0:4") == "gpu=0:4");
  CHECK(to_selector(":3") == "[3]");
  CHECK(to_selector("train:") == "train");
}

TEST_CASE("line_buffer: whole lines get a prefix, and the last one a newline") {
  LineBuffer lines("a[1] ");
  CHECK(lines.add("on").empty());
  CHECK(lines.add("e\ntwo\nth") == "a[1] one\na[1] two\n");
  CHECK(lines.rest() == "a[1] th\n");
  CHECK(lines.rest().empty());
  CHECK(lines.add(std::string(70'000, 'x')).size() == 70'000 + 6);
  LineBuffer bare("");
  CHECK(bare.add("x\ny") == "x\ny");
  CHECK(bare.rest().empty());
}

TEST_CASE("shown_stream: pieces are escaped, and a character that is cut waits for its rest") {
  ShownStream stream;
  CHECK(stream.add("a\x1b[31m\tb\n") == "a\\u{1b}[31m\tb\n");
  CHECK(stream.add("gr\xc3") == "gr");
  CHECK(stream.add("\xbc\xe2\x82") == "\xc3\xbc");
  CHECK(stream.add("\xac!") == "\xe2\x82\xac!");
  // What is no character waits for nothing.
  CHECK(stream.add("\x80").size() > 1);
  CHECK(stream.add("\xf0\x9f").empty());
  CHECK_FALSE(stream.rest().empty());
  CHECK(stream.rest().empty());
}

TEST_CASE("place_text: RANKS:PATH is a place at ranks, everything else is here") {
  const auto is = [](std::string_view text, const std::string& ranks, const std::string& path) {
    const auto place = PlaceText::parse(text);
    CHECK_MESSAGE((place.ranks == ranks && place.path == path), text);
  };
  is("train:3:/tmp/x", "train:3", "/tmp/x");
  is("train:0-3,5:x", "train:0-3,5", "x");
  is("train:/tmp/x", "train", "/tmp/x");
  is("train[0-3]:/tmp/x", "train[0-3]", "/tmp/x");
  is("train[host=1,gpu=0:4]:x:y", "train[host=1,gpu=0:4]", "x:y");
  is("train:x:y", "train", "x:y");
  is("train:", "train", "");
  is("/tmp/a:b", "", "/tmp/a:b");
  is("./a:b", "", "./a:b");
  is("../a:b", "", "../a:b");
  is("a", "", "a");
  is(":a", "", ":a");
}

TEST_CASE("forward_text: LOCAL:RANKS:PORT") {
  const auto is = [](std::string_view text, std::uint16_t port, const std::string& path,
                     const std::string& ranks, std::uint16_t rank_port) {
    const auto forward = ForwardText::parse(text);
    REQUIRE_MESSAGE(forward, text);
    CHECK(forward->port == port);
    CHECK(forward->path == path);
    CHECK(forward->ranks == ranks);
    CHECK(forward->rank_port == rank_port);
  };
  is("8080:train:3:80", 8080, "", "train:3", 80);
  is("0:train:80", 0, "", "train", 80);
  is("/tmp/s:train[gpu=1:2]:80", 0, "/tmp/s", "train[gpu=1:2]", 80);
  is("./s:train:0:1", 0, "./s", "train:0", 1);
  for (const auto* wrong : {"", "80", "80:80", "x:train:80", "80:train:0", "80:train:65536",
                            "80:train:x", "80::80", "70000:train:80"})
    CHECK_FALSE(ForwardText::parse(wrong));
}
