#include "client/src/base/parse_ranks.h"

#include <algorithm>
#include <string>
#include <vector>

#include "mesh/axes.h"
#include "mesh/text.h"
#include "meshbus/region.h"

namespace meshbus {

Result<RankSet> parse_ranks(std::string_view text) {
  text::Scanner scanner("ranks", text);
  RankSet blocks;
  do {
    RankBlock block;
    const auto begin = scanner.number("a rank", axes::kMaxNumRanks - 1);
    if (!begin) return fail(begin.error());
    block = {*begin, *begin + 1};
    if (scanner.accept('-')) {
      const auto at = scanner.position();
      const auto last = scanner.number("the last rank", axes::kMaxNumRanks - 1);
      if (!last) return fail(last.error());
      if (*last < *begin)
        return scanner.problem_at(at, "expected a rank of at least " + std::to_string(*begin) +
                                          ", found " + std::to_string(*last));
      block.end = *last + 1;
    }
    blocks.push_back(block);
  } while (scanner.accept(','));
  if (auto over = scanner.expect_end("the end"); !over) return fail(std::move(over).error());
  std::sort(blocks.begin(), blocks.end(),
            [](const RankBlock& a, const RankBlock& b) { return a.begin < b.begin; });
  RankSet ranks;
  for (const auto& block : blocks) {
    if (!ranks.empty() && block.begin <= ranks.back().end) {
      ranks.back().end = std::max(ranks.back().end, block.end);
    } else {
      ranks.push_back(block);
    }
  }
  return ranks;
}

}  // namespace meshbus
