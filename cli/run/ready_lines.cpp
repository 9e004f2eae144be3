#include "cli/run/ready_lines.h"

#include <utility>

namespace meshbus::cli {

ReadyLines::ReadyLines(std::string text, std::uint64_t ranks)
    : text_(std::move(text)), is_ready_(text_.empty() ? 0 : ranks) {}

bool ReadyLines::is_ready_now(std::uint64_t rank, std::string_view lines) {
  if (text_.empty() || lines.find(text_) == std::string_view::npos) return false;
  if (rank >= is_ready_.size()) is_ready_.resize(rank + 1);
  if (is_ready_[rank]) return false;
  is_ready_[rank] = true;
  return true;
}

void ReadyLines::forget(std::uint64_t rank) {
  if (rank < is_ready_.size()) is_ready_[rank] = false;
}

}  // namespace meshbus::cli
