#include "cli/hands/line_buffer.h"

namespace meshbus::cli {

LineBuffer::LineBuffer(const std::string& prefix) {
  if (prefix.empty()) return;
  format_ = [prefix](std::string_view line) { return (prefix + std::string(line)) + "\n"; };
}

std::string LineBuffer::add(std::string_view bytes) {
  if (!format_) return std::string(bytes);
  std::string lines;
  for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    partial_ += bytes.substr(0, end);
    lines += format_(partial_);
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
  partial_ += bytes;
  if (partial_.size() >= kLongest) lines += rest();
  return lines;
}

std::string LineBuffer::rest() {
  if (partial_.empty()) return {};
  std::string line = format_(partial_);
  partial_.clear();
  return line;
}

}  // namespace meshbus::cli
