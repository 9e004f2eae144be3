// Bodies that come in chunks: whatever senders announce and send, what is kept stays bounded, and
// what is taken is what was sent.
#include <map>
#include <utility>
#include <vector>

#include "common/bus/chunk_store.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  constexpr std::uint64_t kLimit = 64;
  ChunkStore store(kLimit);
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> sent;
  std::vector<SharedBody> in_use;
  std::uint64_t in_use_bytes = 0;
  ChunkStore::Time now{};
  while (input.remaining_bytes() > 0) {
    const ChunkStore::Sender from{input.ConsumeIntegralInRange<std::uint64_t>(0, 2), 1, 1};
    const auto transfer = input.ConsumeIntegralInRange<std::uint64_t>(0, 3);
    auto& mine = sent[{from.proc, transfer}];
    const auto total = input.ConsumeBool() ? input.ConsumeIntegralInRange<std::uint64_t>(0, 80)
                                           : input.ConsumeIntegral<std::uint64_t>();
    switch (input.ConsumeIntegralInRange(0, 3)) {
      case 0:
        if (const auto taken = store.take(from, {transfer, total, 0})) {
          const std::string bytes(taken->body.bytes());
          FUZZ_CHECK(bytes == mine, bytes);
          FUZZ_CHECK(bytes.size() == total, bytes);
          in_use.push_back(taken->body);
          in_use_bytes += total;
        }
        mine.clear();
        break;
      case 1:
        now += std::chrono::seconds(input.ConsumeIntegralInRange(0, 100));
        store.expire(now);
        break;
      case 2:
        in_use.clear();
        in_use_bytes = 0;
        break;
      default: {
        const auto offset =
            input.ConsumeBool() ? mine.size() : input.ConsumeIntegral<std::uint8_t>();
        const auto bytes = input.ConsumeRandomLengthString(70);
        const auto before = store.count();
        if (store.add(from, {transfer, total, offset}, bytes, now)) {
          if (store.count() > before || total == 0) mine.clear();
          if (total != 0) mine += bytes;
        } else if (store.count() < before) {
          mine.clear();
        }
      }
    }
    FUZZ_CHECK(store.bytes() <= 2 * kLimit, "");
    FUZZ_CHECK(store.bytes() >= in_use_bytes, "");
  }
  return 0;
}
