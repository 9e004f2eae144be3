#include "cli/hands/line_buffer.h"

namespace meshbus::cli {

std::string LineBuffer::add(std::string_view bytes) {
  if (prefix_.empty()) return std::string(bytes);
  std::string lines;
  for (auto end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    lines += prefix_ + partial_;
    lines += bytes.substr(0, end + 1);
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
  partial_ += bytes;
  if (partial_.size() >= kLongest) lines += rest();
  return lines;
}

std::string LineBuffer::rest() {
  if (partial_.empty()) return {};
  std::string line = prefix_ + partial_ + "\n";
  partial_.clear();
  return line;
}

}  // namespace meshbus::cli
