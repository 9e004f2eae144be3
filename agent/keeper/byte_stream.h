#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace meshbus::keeper {

/// Appends numbers (native layout) and length-prefixed strings.
class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  template <typename T>
    requires(std::is_integral_v<T>)
  void put(T value) {
    append(&value, sizeof value);
  }
  void put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    append(text.data(), text.size());
  }

 private:
  void append(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  std::vector<std::byte>& bytes_;
};

/// Reads them back. After a read past the end everything reads as zero and ok() is false: check
/// once, at the end or before using a count.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <typename T>
    requires(std::is_integral_v<T>)
  T get() {
    T value{};
    if (rest_.size() < sizeof value) return spoil(), value;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  std::string get_string() {
    const auto size = get<std::uint32_t>();
    if (rest_.size() < size) return spoil(), std::string();
    std::string text(reinterpret_cast<const char*>(rest_.data()), size);
    rest_ = rest_.subspan(size);
    return text;
  }
  bool ok() const noexcept { return ok_; }
  bool at_end() const noexcept { return rest_.empty(); }

 private:
  void spoil() {
    ok_ = false;
    rest_ = {};
  }
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace meshbus::keeper
