#include "cli/support/selector.h"

#include <algorithm>
#include <optional>

#include "cli/support/slice_text.h"
#include "client/src/base/parse_ranks.h"
#include "meshbus/region.h"

namespace meshbus::cli {
namespace {

/// At the commas that are not in quotes.
std::vector<std::string> split_slices(std::string_view text) {
  std::vector<std::string> parts(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') is_quoted = !is_quoted;
    if (text[i] == ',' && !is_quoted) {
      parts.emplace_back();
      continue;
    }
    parts.back() += text[i];
    if (is_quoted && text[i] == '\\' && i + 1 < text.size()) parts.back() += text[++i];
  }
  return parts;
}

/// The 2 of "train/2", as output has it, and of "train:2".
std::optional<std::uint64_t> parse_one_rank(std::string_view text) {
  const auto mark = text.find_last_of("/:");
  if (mark == std::string_view::npos || mark == 0) return std::nullopt;
  text::Scanner scanner("rank", text.substr(mark + 1));
  const auto rank = scanner.number("a rank", axes::kMaxNumRanks - 1);
  if (!rank || !scanner.expect_end("the end")) return std::nullopt;
  return *rank;
}

}  // namespace

Result<Selector> Selector::parse(std::string_view text) {
  Selector selector;
  const auto bracket = text.find('[');
  const auto equals = text.find('=');
  std::string_view inner;
  if (bracket != std::string_view::npos && bracket < equals) {
    if (!text.ends_with(']'))
      return fail(Error(ErrorCode::parse_error,
                        "selector: at " + std::to_string(text.size()) + ": expected ']'")
                      .at(text.size()));
    selector.mesh = text.substr(0, bracket);
    inner = text.substr(bracket + 1, text.size() - bracket - 2);
    if (inner.empty())
      return fail(Error(ErrorCode::parse_error,
                        "selector: at " + std::to_string(bracket + 1) + ": expected ranks")
                      .at(bracket + 1));
  } else if (equals != std::string_view::npos) {
    inner = text;
  } else if (const auto rank = parse_one_rank(text)) {
    selector.mesh = text.substr(0, text.find_last_of("/:"));
    selector.ranks = {{*rank, *rank + 1}};
    return selector;
  } else {
    selector.mesh = text;
    return selector;
  }
  if (inner.find('=') != std::string_view::npos) {
    selector.slices = split_slices(inner);
    return selector;
  }
  auto ranks = parse_ranks(inner);
  if (!ranks) return fail(ranks.error());
  selector.ranks = std::move(*ranks);
  return selector;
}

Result<std::vector<ProcMeshRef>> Selector::select(const ProcMeshRef& whole) const {
  std::vector<ProcMeshRef> views;
  for (const auto& block : ranks) {
    if (block.end > whole.root_ranks())
      return fail(ErrorCode::not_exist,
                  "mesh " + whole.mesh().to_string() + " has no rank " +
                      std::to_string(std::max(block.begin, whole.root_ranks())) +
                      (whole.root_ranks() == 0
                           ? "; it has none"
                           : "; its ranks are " + to_string(RankSet{{0, whole.root_ranks()}})));
    auto region = Region::make({"rank"}, block.begin, {block.size()}, {1});
    if (!region) return fail(region.error());
    auto view = whole.sliced(std::move(*region));
    if (!view) return fail(view.error());
    views.push_back(std::move(*view));
  }
  if (!views.empty()) return views;
  views.push_back(whole);
  for (const auto& slice : slices) {
    auto view = sliced(views.front(), slice);
    if (!view) return fail(view.error());
    views.front() = std::move(*view);
  }
  return views;
}

}  // namespace meshbus::cli
