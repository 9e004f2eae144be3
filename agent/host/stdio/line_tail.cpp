#include "agent/host/stdio/line_tail.h"

#include <algorithm>

namespace meshbus::host {

void LineTail::append(Bytes bytes) {
  if (limits_.lines == 0) return;
  skip_flood(bytes);
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    if (end == Bytes::npos) {
      append_to_line(bytes);
      return;
    }
    append_to_line(bytes.substr(0, end));
    finish_line();
    bytes.remove_prefix(end + 1);
  }
}

void LineTail::skip_flood(Bytes& bytes) {
  std::size_t end = bytes.size();
  for (std::size_t line = 0; line <= limits_.lines; ++line) {
    const auto newline = end == 0 ? Bytes::npos : bytes.rfind('\n', end - 1);
    if (newline == Bytes::npos) return;
    end = newline;
  }
  // More lines than are kept: all that came before them need not even be looked at.
  lines_.clear();
  bytes_ = 0;
  open_.clear();
  cut_ = 0;
  bytes.remove_prefix(end + 1);
}

void LineTail::append_to_line(Bytes bytes) {
  const auto room = limits_.max_line - std::min(limits_.max_line, open_.size());
  const auto taken = std::min(room, bytes.size());
  open_.append(bytes.substr(0, taken));
  cut_ += bytes.size() - taken;
}

void LineTail::finish_line() {
  if (cut_ > 0) open_ += mark(cut_);
  open_ += '\n';
  bytes_ += open_.size();
  lines_.push_back(std::move(open_));
  open_.clear();
  cut_ = 0;
  trim();
}

void LineTail::trim() {
  while (lines_.size() > limits_.lines || (bytes_ > limits_.max_bytes && lines_.size() > 1)) {
    bytes_ -= lines_.front().size();
    // Its memory serves the next line: floods come in lines of about one length.
    open_ = std::move(lines_.front());
    open_.clear();
    lines_.pop_front();
  }
}

std::string LineTail::text() const {
  std::string text;
  text.reserve(bytes_ + open_.size() + 32);
  // The unfinished line is one of the lines.
  auto line = lines_.begin();
  if (!open_.empty() && lines_.size() == limits_.lines && limits_.lines > 0) ++line;
  for (; line != lines_.end(); ++line) text += *line;
  text += open_;
  if (cut_ > 0) text += mark(cut_);
  return text;
}

}  // namespace meshbus::host
