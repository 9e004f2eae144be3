#include "agent/stacks/python_lines.h"

namespace meshbus::stacks {
namespace {

enum Kind : unsigned { kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15 };

/// Reads the bytes of a location table.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool is_at_end() const noexcept { return at_ >= bytes_.size(); }
  unsigned byte() { return is_at_end() ? 0U : std::to_integer<unsigned>(bytes_[at_++]); }
  void skip(std::size_t count) { at_ += count; }
  /// Six bits a byte, the least ones first.
  unsigned number() {
    unsigned value = 0;
    for (unsigned shift = 0; shift < 32; shift += 6) {
      const auto piece = byte();
      value |= (piece & 63U) << shift;
      if ((piece & 64U) == 0) break;
    }
    return value;
  }
  /// The sign is the last bit.
  int signed_number() {
    const auto value = number();
    const int size = static_cast<int>(value >> 1U);
    return (value & 1U) != 0 ? -size : size;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

std::uint32_t find_python_line(std::span<const std::byte> table, std::uint32_t first_line,
                               std::uint64_t offset) {
  Reader reader(table);
  auto line = static_cast<std::int64_t>(first_line);
  std::uint64_t begin = 0;
  while (!reader.is_at_end()) {
    const auto head = reader.byte();
    if ((head & 128U) == 0) return 0;
    const auto kind = (head >> 3U) & 15U;
    const std::uint64_t end = begin + ((head & 7U) + 1U) * 2;
    if (kind == kLong) {
      line += reader.signed_number();
      for (int i = 0; i < 3; ++i) reader.number();
    } else if (kind == kNoColumns) {
      line += reader.signed_number();
    } else if (kind >= kOneLine0 && kind <= kOneLine2) {
      line += kind - kOneLine0;
      reader.skip(2);
    } else if (kind < kOneLine0) {
      reader.skip(1);
    }
    if (offset < end) return kind == kNone || line <= 0 ? 0U : static_cast<std::uint32_t>(line);
    begin = end;
  }
  return 0;
}

}  // namespace meshbus::stacks
