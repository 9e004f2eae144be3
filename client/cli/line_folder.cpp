#include "client/cli/line_folder.h"

#include <vector>

namespace meshbus::cli {
namespace {

/// What a line costs beside its bytes.
constexpr std::size_t kOverhead = 128;

}  // namespace

void LineFolder::add(std::uint64_t rank, Stream stream, std::string text, Time now) {
  auto& last = last_[{rank, stream}];
  const auto known = numbers_.try_emplace({stream, std::move(text)}).first;
  auto number = known->second.upper_bound(last);
  if (number == known->second.end()) {
    number = known->second.insert(first_ + lines_.size()).first;
    bytes_ += known->first.second.size() + kOverhead;
    lines_.push_back({known, {}, now});
  }
  last = *number;
  lines_[static_cast<std::size_t>(*number - first_)].ranks.insert(rank);
  while (bytes_ > max_bytes) pop();
}

void LineFolder::flush(Time time) {
  while (!lines_.empty() && lines_.front().since < time) pop();
}

void LineFolder::pop() {
  const Line& line = lines_.front();
  const auto& [stream, text] = line.text->first;
  sink_(stream, to_rank_set({line.ranks.begin(), line.ranks.end()}), text);
  bytes_ -= text.size() + kOverhead;
  line.text->second.erase(first_);
  if (line.text->second.empty()) numbers_.erase(line.text);
  lines_.pop_front();
  ++first_;
}

}  // namespace meshbus::cli
