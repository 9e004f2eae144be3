#include "common/wire/tap_filter.h"

#include <doctest/doctest.h>

#include <map>

#include "common/wire/frame.h"
#include "meshbus/address.h"
#include "meshbus/key.h"
#include "wire/frame_generated.h"

using namespace meshbus;

namespace {

const std::string kHere = "unix:/run/here";
const std::string kThere = "tcp:there:7420";
const std::string kNear = kHere + ",train_0-13Se1Maqzryj";
const std::string kFar = kThere + ",train_1-13Se1Maqzryj";

/// As a broker at kHere knows it: its own procs and the other host, not the procs there.
std::string_view name_of(std::uint64_t key) {
  for (const std::string* text : {&kHere, &kThere, &kNear})
    if (key_of(*text) == key) return *text;
  return {};
}

/// A call of 100 bytes from here to there, port 7.
wire::Envelope envelope() {
  wire::Envelope envelope;
  envelope.mutate_source_proc(key_of(kNear));
  envelope.mutate_source_host(key_of(kHere));
  envelope.mutate_destination_proc(key_of(kFar));
  envelope.mutate_destination_host(key_of(kThere));
  envelope.mutate_length(100);
  envelope.mutate_port(7);
  envelope.mutate_kind(wire::Kind::call);
  envelope.mutate_lane(wire::Lane::data);
  return envelope;
}

bool takes(std::string_view text, const wire::Envelope& one = envelope()) {
  const auto filter = TapFilter::parse(text);
  INFO(std::string(text) << ": " << (filter ? std::string() : filter.error().to_string()));
  REQUIRE(filter.has_value());
  return filter->matches(one, name_of);
}

void check_refused(std::string_view text, std::string_view with, std::size_t position) {
  const auto filter = TapFilter::parse(text);
  CAPTURE(std::string(text));
  REQUIRE_FALSE(filter.has_value());
  CHECK(filter.error().code() == ErrorCode::parse_error);
  INFO(filter.error().detail());
  CHECK(filter.error().detail().find(with) != std::string::npos);
  CHECK(filter.error().position() == position);
}

}  // namespace

TEST_CASE("tap_filter: numbers, kinds and lanes") {
  CHECK(takes(""));
  CHECK(takes("  "));
  CHECK(takes("kind=call"));
  CHECK_FALSE(takes("kind=message"));
  CHECK(takes("kind=message|call"));
  CHECK_FALSE(takes("kind!=message|call"));
  CHECK(takes("kind!=control"));
  CHECK(takes("lane=data"));
  CHECK_FALSE(takes("lane=control"));
  CHECK(takes("port=7"));
  CHECK(takes("port!=0"));
  CHECK_FALSE(takes("port<7"));
  CHECK(takes("port<=7 port>=7"));
  CHECK_FALSE(takes("port>7"));
  CHECK(takes("size=100"));
  CHECK(takes("size<1KiB"));
  CHECK_FALSE(takes("size>100"));
  CHECK(takes("size=5|100|7"));
  // All terms must hold.
  CHECK(takes("kind=call port=7 size>=100"));
  CHECK_FALSE(takes("kind=call port=8 size>=100"));
}

TEST_CASE(
    "tap_filter: procs by name, whole, by pattern and by key, and those of other hosts by their "
    "exact names") {
  CHECK(takes("from=train_0-13Se1Maqzryj"));
  CHECK(takes("from=" + kNear));
  CHECK(takes("from=train_*"));
  CHECK(takes("from=*_0-*"));
  CHECK(takes("from=unix:/run/here,*"));
  CHECK_FALSE(takes("from=train_1*"));
  CHECK_FALSE(takes("to=train_0-13Se1Maqzryj"));
  CHECK(takes("to=train_1-13Se1Maqzryj"));
  CHECK(takes("to=" + kFar));
  CHECK_FALSE(takes("to=train_*"));  // its name is not known here
  CHECK(takes("proc=train_1-13Se1Maqzryj"));
  CHECK(takes("proc=train_0-13Se1Maqzryj"));
  CHECK_FALSE(takes("proc!=train_0-13Se1Maqzryj"));
  CHECK_FALSE(takes("from=service"));
  CHECK_FALSE(takes("from=broker"));
  auto of_broker = envelope();
  of_broker.mutate_source_proc(0);
  CHECK(takes("from=broker", of_broker));
  CHECK_FALSE(takes("from=train_0-13Se1Maqzryj", of_broker));
  CHECK_FALSE(takes("from=*", of_broker));
  char key[32];
  std::snprintf(key, sizeof key, "0x%016llx", static_cast<unsigned long long>(key_of(kFar)));
  CHECK(takes("to=" + std::string(key)));
  CHECK_FALSE(takes("from=" + std::string(key)));
}

TEST_CASE("tap_filter: hosts") {
  CHECK(takes("from.host=" + kHere));
  CHECK(takes("to.host=tcp://there:7420"));
  CHECK(takes("host=tcp:*"));
  CHECK_FALSE(takes("from.host=tcp:*"));
  CHECK_FALSE(takes("host=tcp:elsewhere:1"));
}

TEST_CASE("tap_filter: a mistake is told with its place") {
  check_refused("kinds=call", "did you mean kind?", 0);
  check_refused("kind=call frm=x", "did you mean from?", 10);
  check_refused("xyzzy=1", "expected one of from", 0);
  check_refused("kind", "expected =", 4);
  check_refused("kind=calls", "control, message, call, reply or error", 5);
  check_refused("kind<call", "by = and != only", 4);
  check_refused("port=-1", "a port number", 5);
  check_refused("port=4294967296", "a port number", 5);
  check_refused("port=", "a value", 5);
  check_refused("port=1|", "a value", 7);
  check_refused("port<1|2", "one value only", 4);
  check_refused("size>=1XB", "a number of bytes", 6);
  check_refused("from=two words-", "expected one of", 9);
  check_refused("host=nonsense", "host", 5);
  check_refused("from=a\nto=b", "line break", 6);
  CHECK_FALSE(TapFilter::parse(std::string(kTapFilterLimit + 1, ' ')).has_value());
  std::string many = "port=1";
  for (int i = 0; i < 64; ++i) many += "|1";
  CHECK_FALSE(TapFilter::parse(many).has_value());
}

TEST_CASE("tap_filter: any bytes are read or refused") {
  // Every beginning and every byte changed of a filter that has everything.
  const std::string whole =
      "from=train_*|0x12 to.host!=tcp:h:1 kind=call|reply lane=data port>=1 size<64KiB";
  REQUIRE(TapFilter::parse(whole).has_value());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char c : {'\0', '|', '=', ' ', '*', '\n', '\xff', ','}) {
      std::string changed = whole;
      changed[i] = c;
      if (const auto filter = TapFilter::parse(changed)) filter->matches(envelope(), name_of);
    }
    if (const auto filter = TapFilter::parse(whole.substr(0, i)))
      filter->matches(envelope(), name_of);
  }
}

TEST_CASE("tap_filter: a topic says how much of bodies and which messages") {
  const auto request = TapRequest::parse(tap_topic(64, "kind=call"));
  REQUIRE(request.has_value());
  CHECK(request->bodies == 64);
  CHECK(request->text == "kind=call");
  CHECK(TapRequest::parse("tap/0/\n")->filter.takes_all());
  CHECK(TapRequest::parse("tap/1048576/from.host=unix:/a/b\n")
            .has_value());  // a filter may have slashes
  for (const char* bad : {"", "tap", "tap/", "tap/0", "tap/0\n", "tap//\n", "tap/-1/\n",
                          "tap/1048577/\n", "tap/0/", "tap/0/nonsense\n", "up/0/\n"}) {
    CAPTURE(bad);
    CHECK_FALSE(TapRequest::parse(bad).has_value());
  }
}
