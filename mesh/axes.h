#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mesh/text.h"
#include "meshbus/result.h"

/// The rules that labelled axes obey, and the parts of texts that are lists of axes. Not a public
/// header.
namespace meshbus::axes {

/// Ranks and their counts fit in 63 bits: everybody's signed integers hold them.
constexpr std::uint64_t kMaxNumRanks = (std::uint64_t{1} << 63) - 1;

/// What is wrong, and with which axis: the parser points at it.
struct Problem {
  std::size_t axis;
  std::string text;
};

/// Labels must be unique, non-empty UTF-8. O(n log n).
std::optional<Problem> find_label_problem(std::span<const std::string> labels);

/// The product of the sizes must fit in 63 bits, those of 0 left out: else there are no strides for
/// the others.
std::optional<Problem> find_size_problem(std::span<const std::string> labels,
                                         std::span<const std::uint64_t> sizes);

/// No stride is 0; axes do not overlap; the highest base rank, at most kMaxNumRanks - 1, is there
/// (spec 1.3). O(n log n).
std::optional<Problem> find_stride_problem(std::span<const std::string> labels,
                                           std::uint64_t offset,
                                           std::span<const std::uint64_t> sizes,
                                           std::span<const std::uint64_t> strides);

/// A hash of what labelled axes are made of.
std::size_t hash(std::span<const std::string> labels,
                 std::initializer_list<std::span<const std::uint64_t>> numbers) noexcept;

/// A label for messages: as in region texts.
std::string show(std::string_view label);

/// A list of axes as it is read: LABEL SEPARATOR FIRST [/ SECOND].
struct List {
  std::vector<std::string> labels;
  std::vector<std::uint64_t> first;
  std::vector<std::uint64_t> second;
  std::vector<std::size_t> label_at;  ///< positions in the text
  std::vector<std::size_t> first_at;
};

/// What to read; the names of the numbers are for errors.
struct ListForm {
  std::string_view first;        ///< "a size"
  std::string_view second = {};  ///< "a stride"; empty: there is no second number
  bool colon = false;            ///< `x: 4` may stand for `x=4`, if for all axes
  char close = '\0';             ///< the list ends before this character, else with the text
};

/// Reads axes up to the end or `close`, with spaces before and after. An empty list is fine, an
/// empty axis is not.
Result<List> parse_list(text::Scanner& scanner, ListForm form);

}  // namespace meshbus::axes
