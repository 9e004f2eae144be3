#include "common/bus/direct_outlets.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace meshbus;

namespace {

constexpr std::uint64_t kProc = 7;

wire::Envelope message_to(std::uint64_t proc, wire::Kind kind = wire::Kind::message) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(proc);
  envelope.mutate_kind(kind);
  envelope.mutate_lane(wire::Lane::data);
  return envelope;
}

struct Outlets : DirectOutlets {
  Outlets() { set_enabled(true); }
  /// Sends until a path to the proc would pay; how many messages that took.
  int send_until_wanted(std::uint64_t proc, wire::Kind kind = wire::Kind::message) {
    for (int i = 1; i <= 10'000; ++i) {
      CHECK(outlet_for(message_to(proc, kind)) == nullptr);
      if (take_wanted() == std::vector{proc}) return i;
    }
    return 0;
  }
  bool send(std::uint64_t proc, const std::string& body) {
    auto* const outlet = outlet_for(message_to(proc));
    if (outlet != nullptr) push(*outlet, message_to(proc), body, nullptr);
    return outlet != nullptr;
  }
};

std::vector<std::string> bodies_of(Frame& frame) {
  std::vector<std::string> bodies;
  auto reader = FrameReader::open(frame.parts);
  FrameReader::Message message;
  while (reader->next(message)) bodies.emplace_back(message.body);
  return bodies;
}

}  // namespace

TEST_CASE("direct_outlets: a path pays after so many messages or calls, not after answers") {
  Outlets outlets;
  CHECK(outlets.send_until_wanted(kProc) == DirectOutlets::kEnough);
  CHECK(outlets.send_until_wanted(8, wire::Kind::call) == DirectOutlets::kEnough);
  CHECK(outlets.send_until_wanted(9, wire::Kind::reply) == 0);
  outlets.set_enabled(false);
  CHECK(outlets.send_until_wanted(10) == 0);
}

TEST_CASE("direct_outlets: what is held leaves once it may, packed, in order") {
  Outlets outlets;
  Outbox outbox({.bytes = 1024, .count = 4});
  outlets.send_until_wanted(kProc);
  outlets.hold(kProc);
  CHECK(outlets.send(kProc, "a"));
  CHECK(outlets.send(kProc, "b"));
  CHECK_FALSE(outlets.send(8, "c"));
  CHECK(outlets.count() == 2);
  CHECK_FALSE(outlets.front().has_value());
  outlets.open(kProc);
  const auto front = outlets.front();
  REQUIRE(front.has_value());
  CHECK(front->proc == kProc);
  CHECK(*front->sent == 0);
  CHECK(bodies_of(*front->frame) == std::vector<std::string>{"a", "b"});
  // What comes while it leaves is another frame.
  CHECK(outlets.send(kProc, "d"));
  outlets.pop(kProc);
  CHECK(outlets.count() == 1);
  outlets.set_blocked(kProc, true);
  CHECK_FALSE(outlets.front().has_value());
  outlets.set_blocked(kProc, false);
  CHECK(bodies_of(*outlets.front()->frame) == std::vector<std::string>{"d"});
  outlets.pop(kProc);
  CHECK(outlets.bytes() == 0);
}

TEST_CASE("direct_outlets: what waits goes through the broker, behind what waits there") {
  Outlets outlets;
  Outbox outbox({.bytes = 1024, .count = 4});
  outlets.hold(kProc);
  // More than the outbox would take.
  for (int i = 0; i < 10; ++i) CHECK(outlets.send(kProc, std::to_string(i)));
  REQUIRE(outbox.push(message_to(kProc), "before"));
  outlets.close(kProc, outbox);
  CHECK(outlets.count() == 0);
  CHECK(outlets.bytes() == 0);
  CHECK(outbox.count() == 11);
  std::vector<std::string> bodies;
  outbox.drain([&](const wire::Envelope&, Bytes body) { bodies.emplace_back(body); });
  CHECK(bodies ==
        std::vector<std::string>{"before", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
  CHECK(outbox.empty());
}

TEST_CASE("direct_outlets: nothing overtakes what leaves from where it lies, until it is kept") {
  for (const bool is_closed : {false, true}) {
    CAPTURE(is_closed);
    Outlets outlets;
    Outbox outbox({.bytes = 1 << 20, .count = 4});
    outlets.hold(kProc);
    outlets.open(kProc);
    std::string body(50'000, 'x');
    FrameWriter writer(wire::Lane::data);
    writer.add_detached(message_to(kProc),
                        MessagePart(body.data(), body.size(), [](void*, void*) {}, nullptr));
    auto* const outlet = outlets.find_used(kProc);
    REQUIRE(outlet != nullptr);
    outlet->leaving.emplace(DirectOutlets::Leaving{5, writer.finish(), 4096});
    CHECK_FALSE(outlet->is_free());
    CHECK(outlets.find_leaving(kProc, 5) != nullptr);
    CHECK(outlets.find_leaving(kProc, 6) == nullptr);
    CHECK(outlets.send(kProc, "after"));
    CHECK_FALSE(outlets.front().has_value());
    // Its sender does not wait any more, or it has to go through the broker.
    if (is_closed) {
      outlets.close(kProc, outbox);
    } else {
      outlets.keep_leaving(*outlet);
    }
    CHECK(outlets.find_leaving(kProc, 5) == nullptr);
    body.assign(body.size(), '?');
    std::vector<std::string> bodies;
    if (is_closed) {
      outbox.drain([&](const wire::Envelope&, Bytes one) { bodies.emplace_back(one); });
    } else {
      CHECK(outlets.count() == 2);
      const auto front = outlets.front();
      REQUIRE(front.has_value());
      CHECK(*front->sent == 4096);
      bodies = bodies_of(*front->frame);
      outlets.pop(kProc);
      bodies.push_back(bodies_of(*outlets.front()->frame).at(0));
      CHECK(*outlets.front()->sent == 0);
      outlets.pop(kProc);
    }
    CHECK((bodies == std::vector<std::string>{std::string(50'000, 'x'), "after"}));
    CHECK(outlets.count() == 0);
    CHECK(outlets.bytes() == 0);
  }
}

TEST_CASE("direct_outlets: a path that does not do is tried less and less often") {
  Outlets outlets;
  Outbox outbox({.bytes = 1024, .count = 4});
  CHECK(outlets.send_until_wanted(kProc) == DirectOutlets::kEnough);
  for (int times = 2; times <= 16; times *= 2) {
    outlets.hold(kProc);
    outlets.put_off(kProc, outbox);
    CHECK(outlets.send_until_wanted(kProc) == times * static_cast<int>(DirectOutlets::kEnough));
  }
  outlets.forget(kProc, outbox);
  CHECK(outlets.send_until_wanted(kProc) == DirectOutlets::kEnough);
}

TEST_CASE("direct_outlets: a path that has carried many messages is tried again as at first") {
  Outlets outlets;
  Outbox outbox({.bytes = 1 << 20, .count = 1 << 16});
  outlets.send_until_wanted(kProc);
  outlets.hold(kProc);
  outlets.put_off(kProc, outbox);
  CHECK(outlets.send_until_wanted(kProc) == 2 * DirectOutlets::kEnough);
  const auto carry = [&](std::uint32_t messages) {
    outlets.hold(kProc);
    outlets.open(kProc);
    for (std::uint32_t i = 0; i < messages; ++i) {
      auto* const outlet = outlets.outlet_for(message_to(kProc));
      REQUIRE(outlet != nullptr);
      outlets.push(*outlet, message_to(kProc), "x", nullptr);
      REQUIRE(outlets.front().has_value());
      outlets.pop(kProc);
    }
    outlets.put_off(kProc, outbox);
  };
  carry(16 * 2 * DirectOutlets::kEnough);
  CHECK(outlets.send_until_wanted(kProc) == DirectOutlets::kEnough);
  carry(16 * DirectOutlets::kEnough - 1);
  CHECK(outlets.send_until_wanted(kProc) == 2 * DirectOutlets::kEnough);
}

TEST_CASE(
    "direct_outlets: casts, questions, large bodies and parts of them go through the broker") {
  const auto with_flag = [](std::uint32_t flag) {
    auto envelope = message_to(kProc);
    envelope.mutate_flags(flag);
    return DirectOutlets::is_fit(envelope, 1);
  };
  CHECK(with_flag(0));
  CHECK(with_flag(kFlagNoReturn));
  CHECK(with_flag(kFlagDetached));
  for (const auto flag : {kFlagCast, kFlagChunk, kFlagChunked, kFlagShare, kFlagDirect})
    CHECK_FALSE(with_flag(flag));
  CHECK_FALSE(DirectOutlets::is_fit(message_to(kProc, wire::Kind::control), 1));
  CHECK(DirectOutlets::is_fit(message_to(kProc, wire::Kind::error), DirectOutlets::kMostBody));
  CHECK_FALSE(DirectOutlets::is_fit(message_to(kProc), DirectOutlets::kMostBody + 1));
}
