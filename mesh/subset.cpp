#include "mesh/subset.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

namespace meshbus {
namespace {

/// Multiples 0, 1, ... size-1 of a stride. Sets of ranks are sums of these: one multiple of each
/// axis.
struct Axis {
  std::uint64_t stride;
  std::uint64_t size;  // at least 2

  std::uint64_t span() const noexcept { return (size - 1) * stride; }
};

std::uint64_t span_of(std::span<const Axis> axes) noexcept {
  std::uint64_t span = 0;
  for (const Axis& axis : axes) span += axis.span();  // below 2^63: no rank is larger
  return span;
}

/// The same sums from fewer axes: when multiples of a larger stride go on where, or before, those
/// of the smaller end, both are one. Largest stride first.
std::vector<Axis> joined(std::vector<Axis> axes) {
  std::sort(axes.begin(), axes.end(),
            [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  std::vector<Axis> out;
  for (const Axis& axis : axes) {
    if (!out.empty() && axis.stride % out.back().stride == 0 &&
        axis.stride / out.back().stride <= out.back().size) {
      out.back().size += axis.stride / out.back().stride * (axis.size - 1);
    } else {
      out.push_back(axis);
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

/// The axes that matter, in canonical form. In that form the axes of a region are like the digits
/// of a number: each stride exceeds the sum of all that is below it, so a rank is in the region
/// when each digit, found by division, is below its axis' size, and nothing is left.
std::vector<Axis> axes_of(const Region& region) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < region.num_dims(); ++i) {
    if (region.sizes()[i] > 1) axes.push_back({region.strides()[i], region.sizes()[i]});
  }
  return joined(std::move(axes));
}

class Search {
 public:
  explicit Search(subset::Cost& cost) : cost_(cost) {}

  /// Whether each of `first` + sums of `axes` is a number of these digits, largest first.
  bool all_in(std::span<const Axis> digits, std::uint64_t first, std::vector<Axis> axes) {
    if (digits.empty()) return first == 0 && axes.empty();
    const Axis digit = digits.front();
    if ((first + span_of(axes)) / digit.stride >= digit.size) return false;
    // All numbers have a first digit that is small enough: what is left of them decides.
    for (Axis& axis : axes) axis.stride %= digit.stride;
    std::erase_if(axes, [](const Axis& axis) { return axis.stride == 0; });
    return all_rests_in(digits, first % digit.stride, std::move(axes));
  }

 private:
  /// The same for the rests that division by the first digit's stride leaves of `first` + sums of
  /// `axes`, and the further digits.
  bool all_rests_in(std::span<const Axis> digits, std::uint64_t first, std::vector<Axis> axes) {
    const std::uint64_t divisor = digits.front().stride;
    const std::span<const Axis> further = digits.subspan(1);
    if (first + span_of(axes) < divisor) return all_in(further, first, std::move(axes));
    // Some sums reach the divisor: their rests wrap around. Each axis' rests come back after a
    // while; they are the same backwards, and of the two directions one takes steps of at most half
    // the divisor.
    for (Axis& axis : axes) {
      axis.size = std::min(axis.size, divisor / std::gcd(axis.stride, divisor));
      if (axis.stride <= divisor - axis.stride) continue;
      first = (first + axis.span()) % divisor;
      axis.stride = divisor - axis.stride;
    }
    axes = joined(std::move(axes));
    if (first + span_of(axes) < divisor) return all_in(further, first, std::move(axes));
    // Split the widest axis where it wraps. What lies between is as simple as above.
    std::swap(*std::max_element(axes.begin(), axes.end(),
                                [](const Axis& a, const Axis& b) { return a.span() < b.span(); }),
              axes.back());
    const Axis widest = axes.back();
    axes.pop_back();
    const std::uint64_t others = span_of(axes);
    for (std::uint64_t i = 0; i < widest.size;) {
      ++cost_.pieces;
      const std::uint64_t at = (first + i * widest.stride) % divisor;
      if (others >= divisor - at) {
        if (!all_rests_in(digits, at, axes)) return false;
        ++i;
        continue;
      }
      const std::uint64_t count =
          std::min(widest.size - i, (divisor - 1 - at - others) / widest.stride + 1);
      std::vector<Axis> piece = axes;
      if (count > 1) piece.push_back({widest.stride, count});
      if (!all_in(further, at, std::move(piece))) return false;
      i += count;
    }
    return true;
  }

  subset::Cost& cost_;
};

}  // namespace

bool subset::is_subset(const Region& a, const Region& b, Cost& cost) {
  if (a.is_empty()) return true;
  if (a.num_ranks() > b.num_ranks() || a.offset() < b.offset()) return false;
  return Search(cost).all_in(axes_of(b), a.offset() - b.offset(), axes_of(a));
}

bool is_subset(const Region& a, const Region& b) {
  subset::Cost cost;
  return subset::is_subset(a, b, cost);
}

}  // namespace meshbus
