#include "common/wire/frame.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "common/wire/outbox.h"
#include "wire/frame_generated.h"

using namespace meshbus;

namespace {

wire::Envelope envelope(std::uint64_t to, wire::Lane lane = wire::Lane::data,
                        wire::Kind kind = wire::Kind::message) {
  wire::Envelope result;
  result.mutate_destination_proc(to);
  result.mutate_lane(lane);
  result.mutate_kind(kind);
  return result;
}

std::vector<std::pair<std::uint64_t, std::string>> read_all(Frame& frame) {
  auto reader = FrameReader::open(frame.parts);
  REQUIRE(reader.has_value());
  std::vector<std::pair<std::uint64_t, std::string>> result;
  FrameReader::Message message;
  while (reader->next(message))
    result.emplace_back(message.envelope.destination_proc(), std::string(message.body));
  CHECK_FALSE(reader->is_malformed());
  return result;
}

/// Reads a frame as a stranger could have sent it, every byte of every body that the reader hands
/// out.
std::size_t count_messages(std::vector<MessagePart>& parts) {
  auto reader = FrameReader::open(parts);
  if (!reader) return 0;
  std::size_t count = 0;
  FrameReader::Message message;
  while (reader->next(message)) {
    ++count;
    CHECK(std::count(message.body.begin(), message.body.end(), '\xff') >= 0);
  }
  return count;
}

}  // namespace

TEST_CASE("frame: what is packed is read back, inline and detached, in order") {
  FrameWriter writer(wire::Lane::data);
  const std::string sizes[] = {"",
                               "a",
                               "12345678",
                               std::string(kInlineLimit, 'i'),
                               std::string(kInlineLimit + 1, 'o'),
                               std::string(kBodyLimit, 'b'),
                               "last"};
  std::uint64_t to = 0;
  for (const auto& body : sizes) writer.add(envelope(++to), body);
  CHECK(writer.is_full());
  Frame frame = writer.finish();
  CHECK(frame.count == 7);
  CHECK(frame.parts.size() == 3);
  CHECK(writer.empty());
  const auto read = read_all(frame);
  REQUIRE(read.size() == 7);
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(read[i].first == i + 1);
    CHECK(read[i].second == sizes[i]);
  }
}

TEST_CASE("frame: credit and link numbers are written into the packed bytes") {
  FrameWriter writer(wire::Lane::control, /*link=*/true);
  writer.add(envelope(1, wire::Lane::control, wire::Kind::control), "x");
  Frame frame = writer.finish();
  frame.set_credit(77);
  frame.set_link(5, 4);
  auto reader = FrameReader::open(frame.parts);
  REQUIRE(reader.has_value());
  CHECK(reader->header().credit() == 77);
  CHECK(reader->is_link());
  CHECK(reader->link().sequence() == 5);
  CHECK(reader->link().ack() == 4);
  CHECK(read_all(frame).size() == 1);
}

TEST_CASE("frame: no bytes of a stranger are read beyond their end") {
  FrameWriter writer(wire::Lane::data);
  for (int i = 0; i < 5; ++i)
    writer.add(envelope(1), std::string(static_cast<std::size_t>(i * 40), 'x'));
  writer.add(envelope(1), std::string(kInlineLimit + 9, 'y'));
  const Frame good = writer.finish();
  std::mt19937 random(20261120);
  for (int round = 0; round < 20000; ++round) {
    std::vector<MessagePart> parts;
    for (const auto& part : good.parts) {
      // Cut, then change a few bytes; an exact allocation lets the sanitizer see every read too
      // far.
      const std::size_t size = random() % 4 == 0 ? part.size() : random() % (part.size() + 1);
      parts.emplace_back(part.data(), size);
      for (auto flips = random() % 4; flips > 0 && size > 0; --flips)
        static_cast<char*>(parts.back().data())[random() % std::min<std::size_t>(size, 200)] =
            static_cast<char>(random());
    }
    CHECK(count_messages(parts) <= 65535);
  }
}

TEST_CASE("frame: a stranger's header is refused by kind of mistake") {
  std::vector<MessagePart> none;
  CHECK(FrameReader::open(none).error().code() == ErrorCode::malformed_message);
  FrameWriter writer(wire::Lane::data);
  writer.add(envelope(1), "x");
  Frame frame = writer.finish();
  frame.parts[0].data()[2] = 9;
  CHECK(FrameReader::open(frame.parts).error().code() == ErrorCode::version_mismatch);
  frame.parts[0].data()[0] = 0;
  CHECK(FrameReader::open(frame.parts).error().code() == ErrorCode::malformed_message);
}

TEST_CASE("outbox: control leaves before data, each in order") {
  Outbox outbox({.bytes = 1 << 20, .count = 100});
  CHECK(outbox.push(envelope(1), "d1"));
  CHECK(outbox.push(envelope(2), "d2"));
  CHECK(outbox.push(envelope(3, wire::Lane::control, wire::Kind::control), "c"));
  std::vector<std::uint64_t> order;
  while (Frame* frame = outbox.front()) {
    for (const auto& [to, body] : read_all(*frame)) order.push_back(to);
    outbox.pop();
  }
  CHECK(order == std::vector<std::uint64_t>{3, 1, 2});
  CHECK(outbox.empty());
  CHECK(outbox.bytes() == 0);
}

TEST_CASE("outbox: full means false and nothing queued; each lane has its own bound") {
  Outbox outbox({.bytes = 1000, .count = 5});
  CHECK(outbox.push(envelope(1), std::string(5000, 'x')));  // one always fits
  CHECK_FALSE(outbox.push(envelope(1), "x"));
  CHECK(outbox.push(envelope(1, wire::Lane::control, wire::Kind::control), "x"));
  CHECK(outbox.count() == 2);
  std::size_t drained = 0;
  outbox.drain([&](const wire::Envelope&, Bytes) { ++drained; });
  CHECK(drained == 2);
  CHECK(outbox.empty());
  CHECK(outbox.bytes() == 0);
  for (int i = 0; i < 5; ++i) CHECK(outbox.push(envelope(1), "x"));
  CHECK_FALSE(outbox.push(envelope(1), "x"));
}

TEST_CASE("outbox: packs up to the limit into one frame") {
  Outbox outbox({.bytes = 64 << 20, .count = 1 << 20});
  for (int i = 0; i < 10000; ++i) REQUIRE(outbox.push(envelope(1), "0123456789"));
  std::size_t frames = 0;
  std::size_t messages = 0;
  while (Frame* frame = outbox.front()) {
    ++frames;
    messages += frame->count;
    CHECK(frame->parts.front().size() <= kPackLimit + sizeof(wire::Envelope) + kInlineLimit);
    outbox.pop();
  }
  CHECK(messages == 10000);
  CHECK(frames < 40);
}

TEST_CASE(
    "outbox: no frame has more parts than a receiver takes, however small the detached bodies "
    "are") {
  Outbox outbox({.bytes = 64 << 20, .count = 1 << 20});
  for (std::size_t i = 0; i < 5000; ++i) {
    MessagePart body("x", 1);
    REQUIRE(outbox.push(envelope(i), {}, &body));
  }
  std::size_t next = 0;
  while (Frame* frame = outbox.front()) {
    CHECK(frame->parts.size() <= kMostParts);
    for (const auto& [to, body] : read_all(*frame)) CHECK((to == next++ && body == "x"));
    outbox.pop();
  }
  CHECK(next == 5000);
}
