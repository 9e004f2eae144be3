// Bytes from strangers in place of what travels when answers are reduced at hosts: to an agent, and
// to the asker. The first byte says which.
#include "common/wire/collecting.h"

#include "tests/fuzz/support.h"

using namespace meshbus;

FUZZ_MUTATE_IN_PLACE

namespace {

std::uint64_t check_blocks(const std::vector<RankBlock>& blocks, std::string_view about) {
  std::uint64_t count = 0, last = 0;
  for (const RankBlock& block : blocks) {
    FUZZ_CHECK(block.begin < block.end && block.begin >= last, about);
    last = block.end;
    count += block.size();
  }
  FUZZ_CHECK(count <= kMostCollectedRanks, about);
  return count;
}

void check_order(std::string_view bytes) {
  const auto order = decode_collect_order(bytes);
  if (!order) return;
  FUZZ_CHECK(check_blocks(order->ranks, bytes) > 0, bytes);
  const auto again = decode_collect_order(encode(*order));
  FUZZ_CHECK(again.has_value() && again->ticket == order->ticket && again->ranks == order->ranks,
             bytes);
  FUZZ_CHECK(again->mesh == order->mesh && again->reducer == order->reducer &&
                 again->asker == order->asker,
             bytes);
  FUZZ_CHECK(again->limit == order->limit && again->has_parts == order->has_parts, bytes);
}

void check_collected(std::string_view bytes) {
  const auto collected = decode_collected(bytes);
  if (!collected) return;
  std::size_t words = 0;
  for (const auto& problem : collected->problems) {
    check_blocks(problem.ranks, bytes);
    words += problem.error.detail().size();
  }
  FUZZ_CHECK(words <= bytes.size(), bytes);
  const auto again = decode_collected(encode(*collected));
  FUZZ_CHECK(again.has_value() && again->problems.size() == collected->problems.size() &&
                 again->parts == collected->parts,
             bytes);
  FUZZ_CHECK(again->reduced.has_value() == collected->reduced.has_value(), bytes);
}

void check_answer(std::string_view bytes) {
  const auto reply = decode_collected_answer(bytes);
  if (!reply) return;
  if (reply->answer) {
    FUZZ_CHECK(reply->answer->size() <= kCollectedAnswerLimit, bytes);
  } else {
    FUZZ_CHECK(reply->answer.error().detail().size() <= kCollectedTextLimit, bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const fuzz::ExactCopy copy(fuzz::text_of(data + 1, size - 1));
  switch (data[0] % 4) {
    case 0: check_order(copy.view()); break;
    case 1: check_collected(copy.view()); break;
    case 2: check_answer(copy.view()); break;
    default: (void)decode_collected_call(copy.view()); break;
  }
  return 0;
}
