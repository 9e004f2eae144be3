#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "meshbus/extent.h"
#include "meshbus/region.h"
#include "tests/unit/mesh/property.h"

/// Random values of the mesh algebra for property tests.
namespace meshbus::test {

using Random = std::mt19937_64;

/// Numbers of every magnitude, both ends included.
inline std::uint64_t any_number(Random& random) {
  switch (random() % 8) {
    case 0: return 0;
    case 1: return ~std::uint64_t{0};
    default: return random() >> random() % 64;
  }
}

/// Labels that need quotes, escapes and more than one byte, and such that do not.
inline std::string any_label(Random& random) {
  static const std::vector<std::string> pieces = {"x",
                                                  "gpu",
                                                  "_",
                                                  "7",
                                                  "dim/0",
                                                  ",",
                                                  "\"",
                                                  "\\",
                                                  "\n",
                                                  "\r",
                                                  "\t",
                                                  "=",
                                                  "+",
                                                  "/",
                                                  "@",
                                                  " ",
                                                  ":",
                                                  "{",
                                                  "}",
                                                  "\xC3\xA9",
                                                  "\xE2\x82\xAC",
                                                  "\xF0\x9F\x98\x80",
                                                  "\x7F",
                                                  "\xC2\x85",
                                                  "u{",
                                                  "\x01",
                                                  std::string(1, '\0')};
  std::string label = pieces[random() % (random() % 2 == 0 ? 3 : pieces.size())];
  for (std::uint64_t n = random() % 4; n > 0; --n) label += pieces[random() % pieces.size()];
  return label;
}

inline std::vector<std::string> any_labels(Random& random, std::size_t count) {
  std::vector<std::string> labels;
  while (labels.size() < count) {
    std::string label = any_label(random);
    if (std::find(labels.begin(), labels.end(), label) == labels.end())
      labels.push_back(std::move(label));
  }
  return labels;
}

/// An extent of few ranks, whose axes may have size 0 and 1.
inline Extent small_extent(Random& random) {
  const std::size_t dims = random() % 5;
  std::vector<std::uint64_t> sizes(dims);
  for (std::uint64_t& size : sizes) size = random() % 24 == 0 ? 0 : 1 + random() % 5;
  return Extent::make(any_labels(random, dims), sizes).value();
}

/// The same ranks with the axes in another order, and so in another order themselves.
inline Region shuffled(const Region& region, Random& random) {
  std::vector<std::size_t> order(region.num_dims());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<std::string> labels;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> strides;
  for (const std::size_t i : order) {
    labels.push_back(region.labels()[i]);
    sizes.push_back(region.sizes()[i]);
    strides.push_back(region.strides()[i]);
  }
  return Region::make(std::move(labels), region.offset(), std::move(sizes), std::move(strides))
      .value();
}

/// Up to `steps` random ranges and indices of a region, those that leave something.
inline Region sliced(Region region, Random& random, std::uint64_t steps) {
  for (std::uint64_t n = random() % (steps + 1); n > 0 && region.num_dims() > 0; --n) {
    const std::size_t axis = random() % region.num_dims();
    const std::uint64_t size = region.sizes()[axis];
    if (size == 0) continue;
    const std::uint64_t begin = random() % size;
    const std::uint64_t length =
        1 + (size > 64 ? random() : random() % (size - begin)) % (size - begin);
    const Result<Region> slice = random() % 4 == 0 ? region.at(region.labels()[axis], begin)
                                                   : region.range(region.labels()[axis], begin,
                                                                  begin + length, 1 + random() % 3);
    region = slice.value();
  }
  return region;
}

/// A region of few ranks below some hundred, with axes in any order and gaps of all widths.
inline Region small_region(Random& random) {
  const std::size_t dims = random() % 4;
  std::vector<std::uint64_t> sizes(dims);
  std::vector<std::uint64_t> strides(dims);
  std::vector<std::string> labels(dims);
  std::uint64_t span = 0;
  for (std::size_t i = 0; i < dims; ++i) {
    labels[i] = std::string(1, static_cast<char>('a' + i));
    strides[i] = span + 1 + (random() % 3 == 0 ? 0 : random() % 6);
    sizes[i] = random() % 32 == 0 ? 0 : 1 + random() % 6;
    span += (std::max<std::uint64_t>(sizes[i], 1) - 1) * strides[i];
  }
  return shuffled(Region::make(labels, random() % 12, sizes, strides).value(), random);
}

/// Any valid region, huge ones too: axes with gaps between them, in any order.
inline Region any_region(Random& random) {
  const std::size_t dims = random() % 6;
  constexpr std::uint64_t limit = (std::uint64_t{1} << 63) - 2;
  std::vector<std::uint64_t> sizes(dims);
  std::vector<std::uint64_t> strides(dims);
  std::vector<std::size_t> order(dims);
  for (std::size_t i = 0; i < dims; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::uint64_t span = 0;
  for (const std::size_t i : order) {
    const std::uint64_t gap =
        random() % 2 == 0 ? 1 : 1 + (random() >> (1 + random() % 63)) % (limit - span);
    const std::uint64_t most =
        gap > limit - span ? 0 : (limit - span) / (span + gap);  // indices beyond the first
    if (most == 0 || random() % 8 == 0) {
      sizes[i] = random() % 2;
      strides[i] = std::max<std::uint64_t>(any_number(random), 1);
      continue;
    }
    sizes[i] = 2 + (random() >> random() % 64) % most;
    strides[i] = span + gap;
    span += (sizes[i] - 1) * strides[i];
  }
  const std::uint64_t offset =
      random() % 2 == 0 ? 0 : (random() >> random() % 64) % (limit - span + 1);
  return Region::make(any_labels(random, dims), offset, sizes, strides).value();
}

}  // namespace meshbus::test
