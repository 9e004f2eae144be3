// What `meshbus tap` reads, and what brokers read of it: filters and subscriptions, batches of
// copied messages, and recordings. The first byte says which.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "cli/tap/tap_batch.h"
#include "cli/tap/tap_file.h"
#include "common/base/unique_fd.h"
#include "common/wire/tap_filter.h"
#include "tests/fuzz/support.h"

using namespace meshbus;
using namespace meshbus::cli;

FUZZ_MUTATE_IN_PLACE

namespace {

void check_filter(std::string_view text) {
  const auto filter = TapFilter::parse(text);
  if (!filter) {
    FUZZ_CHECK(!filter.error().to_string().empty(), text);
    return;
  }
  wire::Envelope envelope;
  envelope.mutate_source_proc(7);
  envelope.mutate_source_host(8);
  envelope.mutate_length(64);
  const auto names = [](std::uint64_t key) -> std::string_view {
    return key == 7 ? "tcp:h1:1,train_0-13Se1Maqzryj" : key == 8 ? "tcp:h1:1" : "";
  };
  filter->matches(envelope, names);
  filter->matches(wire::Envelope(), names);
}

void check_request(std::string_view topic) {
  const auto request = TapRequest::parse(topic);
  if (!request) return;
  FUZZ_CHECK(request->text.size() <= kTapFilterLimit, topic);
  const auto again = TapRequest::parse(tap_topic(request->bodies, request->text));
  FUZZ_CHECK(again.has_value() && again->bodies == request->bodies && again->text == request->text,
             topic);
}

void walk(const TapBatch& batch) {
  static TapNames names;
  static TapCount count;
  names.learn(batch);
  count.missed_before(batch);
  for (const auto& message : batch.messages()) {
    FUZZ_CHECK(message.body.size() <= message.envelope.length(), "a body that is too long");
    // Read every byte of it.
    std::size_t sum = 0;
    for (const char byte : message.body) sum += static_cast<unsigned char>(byte);
    FUZZ_CHECK(sum <= message.body.size() * 255, "bytes");
    names.find(message.envelope.source_proc());
  }
}

void check_recording(std::string_view bytes) {
  const UniqueFd file(::memfd_create("tap", MFD_CLOEXEC));
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    std::abort();
  auto reader = TapFileReader::open("/proc/self/fd/" + std::to_string(file.get()));
  if (!reader) return;
  for (;;) {
    const auto before = reader->position();
    const auto batch = reader->next();
    if (!batch || !*batch) break;
    FUZZ_CHECK(reader->position() > before && reader->position() <= bytes.size(), "the position");
    walk(**batch);
  }
  FUZZ_CHECK(reader->torn() <= bytes.size(), "what is torn");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Eight bytes, so that numbers behind them keep their alignment for the mutator.
  if (size < 8) return 0;
  const fuzz::ExactCopy copy(fuzz::text_of(data + 8, size - 8));
  const auto text = copy.view();
  switch (data[0] % 4) {
    case 0: check_filter(text); break;
    case 1: check_request(text); break;
    case 2:
      if (const auto batch = TapBatch::decode(bytes_of(text.data(), text.size()))) walk(*batch);
      break;
    default: check_recording(text); break;
  }
  return 0;
}
