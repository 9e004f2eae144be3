#include "agent/host/streams/line_tail.h"

#include <algorithm>
#include <utility>

namespace meshbus::host {

std::size_t find_last_lines(Bytes bytes, std::uint64_t lines, std::uint64_t& missing) noexcept {
  missing = lines;
  std::size_t begin = bytes.size();
  while (missing > 0 && begin > 0) {
    // The newline right before `begin` ends the line that is looked at.
    const auto newline = begin >= 2 ? bytes.rfind('\n', begin - 2) : Bytes::npos;
    begin = newline == Bytes::npos ? 0 : newline + 1;
    --missing;
  }
  return begin;
}

void LineTail::append(Bytes bytes) {
  const std::size_t most = limits_.max_bytes;
  if (bytes.size() > most) {
    // All that is kept, and the first of what comes, need not even be copied.
    const auto skipped = bytes.size() - most;
    const auto newline = bytes.rfind('\n', skipped - 1);
    drop(data_.size());
    if (newline != Bytes::npos) line_begin_ = begin_ + newline + 1;
    begin_ += skipped;
    bytes.remove_prefix(skipped);
  } else if (data_.size() + bytes.size() > most + most / 4) {
    drop(data_.size() + bytes.size() - most);
  }
  // std::string would double: this ends at what it may keep.
  for (const auto step : {most / 16, most / 4 + most / 16, most + most / 4}) {
    if (data_.size() + bytes.size() > data_.capacity() && data_.size() + bytes.size() <= step)
      data_.reserve(step);
  }
  data_.append(bytes);
}

void LineTail::drop(std::size_t bytes) {
  if (bytes == 0) return;
  if (const auto newline = Bytes(data_).rfind('\n', bytes - 1); newline != Bytes::npos)
    line_begin_ = begin_ + newline + 1;
  data_.erase(0, bytes);
  begin_ += bytes;
}

void LineTail::start_at(std::uint64_t offset) {
  data_.clear();
  begin_ = line_begin_ = own_begin_ = offset;
}

void LineTail::continue_from(LineTail&& former) {
  data_ = std::move(former.data_);
  begin_ = former.begin_;
  line_begin_ = former.line_begin_;
  own_begin_ = end();
}

void LineTail::shrink(std::size_t max_bytes) {
  limits_.max_bytes = std::min(limits_.max_bytes, max_bytes);
  if (data_.size() > limits_.max_bytes) drop(data_.size() - limits_.max_bytes);
  data_.shrink_to_fit();
}

Bytes LineTail::from(std::uint64_t offset) const noexcept {
  const auto skipped =
      offset <= begin_ ? 0 : std::min<std::uint64_t>(offset - begin_, data_.size());
  return Bytes(data_).substr(static_cast<std::size_t>(skipped));
}

std::uint64_t LineTail::offset_of_last(std::uint64_t lines, std::uint64_t* missing) const noexcept {
  std::uint64_t left = 0;
  const auto at = find_last_lines(data_, lines, left);
  // The beginning of the first line kept may be missing: then the line is not all there.
  if (at == 0 && lines > left && line_begin_ < begin_) ++left;
  if (missing != nullptr) *missing = left;
  return begin_ + at;
}

std::string LineTail::text() const {
  const auto at = std::max(offset_of_last(limits_.lines),
                           end() - std::min<std::uint64_t>(end(), limits_.max_bytes));
  const auto begin = std::max({at, begin_, own_begin_});
  if (limits_.lines == 0) return {};
  std::string text;
  const auto before = Bytes(data_).substr(0, static_cast<std::size_t>(begin - begin_));
  const auto newline = before.rfind('\n');
  const auto line =
      std::max(own_begin_, newline == Bytes::npos ? line_begin_ : begin_ + newline + 1);
  // A line that is almost whole is no reason to lose it; one that is not begun here is marked.
  if (line < begin) text = "[" + std::to_string(begin - line) + " bytes cut]";
  return text.append(from(begin));
}

}  // namespace meshbus::host
