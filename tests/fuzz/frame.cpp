// Frames as a broker gets them from strangers: read, packed again and read again. The input is the
// parts of one message, each behind its length.
#include "common/wire/frame.h"

#include <vector>

#include "tests/fuzz/support.h"
#include "wire/frame_generated.h"

using namespace meshbus;

FUZZ_MUTATE_IN_PLACE

namespace {

struct Copy {
  wire::Envelope envelope;
  std::string body;
};

std::vector<MessagePart> split(const std::uint8_t* data, std::size_t size) {
  std::vector<MessagePart> parts;
  for (std::size_t at = 0; at + 4 <= size && parts.size() < 16;) {
    std::uint32_t length = 0;
    std::memcpy(&length, data + at, sizeof length);
    at += sizeof length;
    const std::size_t taken = std::min<std::size_t>(length, size - at);
    parts.emplace_back(data + at, taken);
    at += taken;
  }
  return parts;
}

/// All messages, or nothing when the frame is malformed.
std::vector<Copy> read(FrameReader& reader, bool& is_whole) {
  std::vector<Copy> messages;
  FrameReader::Message message;
  while (reader.next(message)) {
    FUZZ_CHECK(
        message.body.size() == message.envelope.length() && message.body.size() <= kBodyLimit,
        "a body's length");
    FUZZ_CHECK(message.envelope.lane() == reader.header().lane(), "a message of another lane");
    messages.push_back({message.envelope, std::string(message.body)});
  }
  is_whole = !reader.is_malformed();
  FUZZ_CHECK(!is_whole || messages.size() == reader.header().count(), "messages are missing");
  return messages;
}

/// What the writer sets itself.
wire::Envelope without_place(wire::Envelope envelope) {
  envelope.mutate_flags(envelope.flags() & ~kFlagDetached);
  return envelope;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto parts = split(data, size);
  auto reader = FrameReader::open(parts);
  if (!reader) return 0;
  bool is_whole = false;
  const auto messages = read(*reader, is_whole);
  if (!is_whole) return 0;

  FrameWriter writer(reader->header().lane(), reader->is_link());
  for (const auto& message : messages) writer.add(message.envelope, message.body);
  Frame frame = writer.finish();
  frame.set_credit(reader->header().credit());
  if (reader->is_link()) frame.set_link(reader->link().sequence(), reader->link().ack());
  FUZZ_CHECK(frame.count == messages.size() && writer.empty(), "what was written");
  auto second = FrameReader::open(frame.parts);
  FUZZ_CHECK(second.has_value() && second->header().credit() == reader->header().credit(),
             "our own frame");
  FUZZ_CHECK(second->is_link() == reader->is_link() && second->link().ack() == reader->link().ack(),
             "our own link header");
  const auto again = read(*second, is_whole);
  FUZZ_CHECK(is_whole && again.size() == messages.size(), "our own frame is malformed");
  for (std::size_t i = 0; i < again.size(); ++i) {
    const auto before = without_place(messages[i].envelope),
               after = without_place(again[i].envelope);
    FUZZ_CHECK(std::memcmp(&before, &after, sizeof before) == 0, "an envelope changed");
    FUZZ_CHECK(again[i].body == messages[i].body, "a body changed");
  }
  return 0;
}
