#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/tap/tap_batch.h"

namespace meshbus::cli {

/// Copied messages as people and programs read them: a line each. Pure.
class TapPrinter {
 public:
  explicit TapPrinter(bool json) : json_(json) {}
  /// What the columns are; nothing in JSON.
  std::string header() const;
  /// `host`: the one that tells of it; procs of it are shown without it.
  std::string line(const TapMessage& message, const TapNames& names, std::string_view host);
  std::string missed_line(std::uint64_t count) const;
  std::string interrupted_line() const;

 private:
  std::string text_line(const TapMessage& message, const TapNames& names, std::string_view host);
  bool json_;
  /// Of the columns of procs: they grow with what is shown.
  std::size_t from_width_ = 26;
  std::size_t to_width_ = 26;
};

/// "0x00ff…", 16 digits.
std::string key_text(std::uint64_t key);
/// RFC 4648.
std::string to_base64(Bytes bytes);

}  // namespace meshbus::cli
