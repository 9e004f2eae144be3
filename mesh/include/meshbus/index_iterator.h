#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

namespace [[gnu::visibility("default")]] meshbus {

/// Walks a range that has `operator[](std::uint64_t)`, in order: what begin() and end() of the
/// ranges of meshbus return. The range must stay where it is meanwhile.
template <typename Range>
class IndexIterator {
 public:
  using value_type = std::remove_cvref_t<decltype(std::declval<const Range&>()[std::uint64_t{}])>;
  using reference = decltype(std::declval<const Range&>()[std::uint64_t{}]);
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using iterator_category =
      std::input_iterator_tag;  // C++17's forward iterators must return references
  using iterator_concept = std::forward_iterator_tag;

  IndexIterator() = default;
  /// At that index of a range that outlives it.
  IndexIterator(const Range& range, std::uint64_t index) noexcept : range_(&range), index_(index) {}
  reference operator*() const { return (*range_)[index_]; }
  IndexIterator& operator++() noexcept {
    ++index_;
    return *this;
  }
  IndexIterator operator++(int) noexcept {
    IndexIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const IndexIterator& a, const IndexIterator& b) noexcept {
    return a.index_ == b.index_;
  }

 private:
  const Range* range_ = nullptr;
  std::uint64_t index_ = 0;
};

}  // namespace meshbus
