#include "mesh/axes.h"

#include <algorithm>
#include <numeric>

namespace meshbus::axes {

std::string show(std::string_view label) {
  std::string out;
  text::append_label(out, label);
  return out;
}

std::optional<Problem> find_label_problem(std::span<const std::string> labels) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].empty())
      return Problem{i, "the label of axis " + std::to_string(i) + " is empty"};
    if (!text::is_utf8(labels[i]))
      return Problem{i, "label " + text::quoted(labels[i]) + " is not UTF-8"};
  }
  std::vector<std::size_t> order(labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const int compared = labels[a].compare(labels[b]);
    return compared != 0 ? compared < 0 : a < b;
  });
  std::optional<std::size_t> repeated;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (labels[order[i - 1]] == labels[order[i]] && (!repeated || order[i] < *repeated))
      repeated = order[i];
  }
  if (repeated) return Problem{*repeated, "label " + show(labels[*repeated]) + " occurs twice"};
  return std::nullopt;
}

std::optional<Problem> find_size_problem(std::span<const std::string> labels,
                                         std::span<const std::uint64_t> sizes) {
  std::uint64_t product = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    if (__builtin_mul_overflow(product, sizes[i], &product) || product > kMaxNumRanks) {
      return Problem{
          i, "Overflow: the product of the sizes exceeds 63 bits at axis " + show(labels[i])};
    }
  }
  return std::nullopt;
}

std::optional<Problem> find_stride_problem(std::span<const std::string> labels,
                                           std::uint64_t offset,
                                           std::span<const std::uint64_t> sizes,
                                           std::span<const std::uint64_t> strides) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] == 0)
      return Problem{
          i, "StrideTooSmall: stride 0 of axis " + show(labels[i]) + ": expected at least 1"};
    if (sizes[i] > 1) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return strides[a] != strides[b] ? strides[a] < strides[b] : a < b;
  });
  if (offset >= kMaxNumRanks)
    return Problem{
        0, "Overflow: offset " + std::to_string(offset) + " is a rank of more than 63 bits"};
  std::uint64_t last = offset;  // the highest base rank so far
  std::uint64_t needed = 0;     // last - offset
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t axis = order[i];
    const std::uint64_t stride = strides[axis];
    if (i > 0 && stride == strides[order[i - 1]]) {
      return Problem{axis, "NonuniqueStrides: axes " + show(labels[order[i - 1]]) + " and " +
                               show(labels[axis]) + " have the same stride " +
                               std::to_string(stride)};
    }
    if (stride <= needed) {
      return Problem{axis, "StrideTooSmall: stride " + std::to_string(stride) + " of axis " +
                               show(labels[axis]) + ": expected at least " +
                               std::to_string(needed + 1) +
                               ", the space that the axes of smaller strides need"};
    }
    std::uint64_t space = 0;
    if (__builtin_mul_overflow(sizes[axis] - 1, stride, &space) ||
        __builtin_add_overflow(last, space, &last) || last >= kMaxNumRanks) {
      return Problem{
          axis, "Overflow: the ranks of axis " + show(labels[axis]) + " have more than 63 bits"};
    }
    needed += space;
  }
  return std::nullopt;
}

std::size_t hash(std::span<const std::string> labels,
                 std::initializer_list<std::span<const std::uint64_t>> numbers) noexcept {
  std::uint64_t hash = labels.size();
  // MurmurHash3's finalizer over what came before and the next number: every bit of the result
  // depends on every number and its place.
  const auto add = [&](std::uint64_t number) {
    hash = (hash ^ number) * 0xff51afd7ed558ccdU;
    hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53U;
    hash ^= hash >> 33;
  };
  for (const std::string& label : labels) add(std::hash<std::string>()(label));
  for (const std::span<const std::uint64_t> list : numbers) {
    for (const std::uint64_t number : list) add(number);
  }
  return static_cast<std::size_t>(hash);
}

Result<List> parse_list(text::Scanner& scanner, ListForm form) {
  List list;
  char separator = form.colon ? '\0' : '=';  // the first axis decides
  const auto ends = [&] {
    return scanner.at_end() || (form.close != '\0' && scanner.peek() == form.close);
  };
  const auto number = [&](std::string_view name, std::vector<std::uint64_t>& out) -> Result<void> {
    scanner.skip_spaces();
    Result<std::uint64_t> value = scanner.number(name);
    if (!value) return fail(std::move(value).error());
    out.push_back(*value);
    scanner.skip_spaces();
    return {};
  };
  scanner.skip_spaces();
  while (!ends() || !list.labels.empty()) {
    list.label_at.push_back(scanner.position());
    Result<std::string> label = scanner.label();
    if (!label) return fail(std::move(label).error());
    list.labels.push_back(std::move(*label));
    scanner.skip_spaces();
    if (separator == '\0') {
      separator = scanner.peek() == ':' ? ':' : '=';
      if (scanner.peek() != separator) return scanner.unexpected("':' or '='");
    }
    if (Result<void> done = scanner.expect(separator); !done) return fail(std::move(done).error());
    scanner.skip_spaces();
    list.first_at.push_back(scanner.position());
    if (Result<void> done = number(form.first, list.first); !done)
      return fail(std::move(done).error());
    if (!form.second.empty()) {
      if (Result<void> done = scanner.expect('/'); !done) return fail(std::move(done).error());
      if (Result<void> done = number(form.second, list.second); !done)
        return fail(std::move(done).error());
    }
    if (form.close == '\0' ? scanner.at_end() : scanner.peek() == form.close) break;
    if (!scanner.accept(','))
      return scanner.unexpected(form.close == '\0' ? "',' or the end"
                                                   : std::string("',' or '") + form.close + "'");
    scanner.skip_spaces();
  }
  return list;
}

}  // namespace meshbus::axes
