#include "meshbus/region.h"

#include <algorithm>
#include <ostream>

#include "mesh/axes.h"

namespace meshbus {
namespace {

std::optional<axes::Problem> find_problem(const std::vector<std::string>& labels,
                                          std::uint64_t offset,
                                          const std::vector<std::uint64_t>& sizes,
                                          const std::vector<std::uint64_t>& strides) {
  if (std::optional<axes::Problem> problem = axes::find_label_problem(labels)) return problem;
  return axes::find_stride_problem(labels, offset, sizes, strides);
}

std::vector<std::uint64_t> row_major(const std::vector<std::uint64_t>& sizes) {
  std::vector<std::uint64_t> strides(sizes.size());
  std::uint64_t stride = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::uint64_t>(sizes[i], 1);  // an extent's product without zeros fits
  }
  return strides;
}

Error out_of_range_index(std::string_view label, std::uint64_t size, std::uint64_t index) {
  return Error(ErrorCode::out_of_range, "region: OutOfRangeIndex: expected an index below " +
                                            std::to_string(size) + " of axis " + axes::show(label) +
                                            ", found " + std::to_string(index));
}

}  // namespace

Region::Region(const Extent& extent)
    : Region(extent.labels(), 0, extent.sizes(), row_major(extent.sizes())) {}

Region::Region(std::vector<std::string> labels, std::uint64_t offset,
               std::vector<std::uint64_t> sizes, std::vector<std::uint64_t> strides)
    : labels_(std::move(labels)),
      offset_(offset),
      sizes_(std::move(sizes)),
      strides_(std::move(strides)) {
  std::uint64_t weight = 1;
  for (std::size_t i = sizes_.size(); i-- > 0;) {
    num_ranks_ *= sizes_[i];
    if (sizes_[i] <= 1) continue;
    steps_.push_back({strides_[i], sizes_[i], weight});
    weight *= sizes_[i];  // cannot overflow: distinct base ranks below 2^63
  }
  std::sort(steps_.begin(), steps_.end(),
            [](const Step& a, const Step& b) { return a.stride > b.stride; });
}

Result<Region> Region::make(std::vector<std::string> labels, std::uint64_t offset,
                            std::vector<std::uint64_t> sizes, std::vector<std::uint64_t> strides) {
  if (labels.size() != sizes.size() || labels.size() != strides.size()) {
    return fail(ErrorCode::configuration_error,
                "region: InvalidDims: expected a size and a stride for each of " +
                    std::to_string(labels.size()) + " labels, found " +
                    std::to_string(sizes.size()) + " and " + std::to_string(strides.size()));
  }
  if (const std::optional<axes::Problem> problem = find_problem(labels, offset, sizes, strides)) {
    return fail(ErrorCode::configuration_error, "region: " + problem->text);
  }
  return Region(std::move(labels), offset, std::move(sizes), std::move(strides));
}

Result<Region> Region::parse(std::string_view text) {
  return parse(text::Scanner("region", text));
}

Result<Region> Region::parse(text::Scanner part) {
  std::uint64_t offset = 0;
  part.skip_spaces();
  const std::size_t begin = part.position();
  if (part.peek() >= '0' && part.peek() <= '9') {
    const Result<std::uint64_t> number = part.number("an offset", axes::kMaxNumRanks - 1);
    if (!number) return fail(number.error());
    offset = *number;
    part.skip_spaces();
    if (Result<void> plus = part.expect('+'); !plus) return fail(std::move(plus).error());
  }
  Result<axes::List> list = axes::parse_list(part, {.first = "a size", .second = "a stride"});
  if (!list) return fail(std::move(list).error());
  if (const std::optional<axes::Problem> problem =
          find_problem(list->labels, offset, list->first, list->second)) {
    return part.problem_at(list->labels.empty() ? begin : list->label_at[problem->axis],
                           problem->text);
  }
  return Region(std::move(list->labels), offset, std::move(list->first), std::move(list->second));
}

std::optional<std::size_t> Region::find(std::string_view label) const noexcept {
  const auto found = std::find(labels_.begin(), labels_.end(), label);
  if (found == labels_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - labels_.begin());
}

Extent Region::extent() const {
  // Never fails: distinct base ranks below 2^63 - 1 bound the product of the sizes.
  return Extent::make(labels_, sizes_).value();
}

Result<std::uint64_t> Region::base_rank(std::uint64_t ordinal) const {
  if (ordinal >= num_ranks_) {
    return fail(ErrorCode::out_of_range, "region: OutOfRangeRank: expected an ordinal below " +
                                             std::to_string(num_ranks_) + " in " + to_string() +
                                             ", found " + std::to_string(ordinal));
  }
  return rank_at(ordinal);
}

std::uint64_t Region::rank_at(std::uint64_t ordinal) const noexcept {
  std::uint64_t rank = offset_;
  for (std::size_t i = sizes_.size(); i-- > 0; ordinal /= sizes_[i])
    rank += ordinal % sizes_[i] * strides_[i];
  return rank;
}

Result<std::uint64_t> Region::base_rank(const Point& point) const {
  const std::vector<std::string>& labels = point.extent().labels();
  if (labels.size() != num_dims()) {
    return fail(ErrorCode::configuration_error, "region: InvalidDims: expected a point with the " +
                                                    std::to_string(num_dims()) + " axes of " +
                                                    text::quoted(to_string()) + ", found " +
                                                    std::to_string(labels.size()));
  }
  std::uint64_t rank = offset_;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != labels_[i]) {
      return fail(ErrorCode::configuration_error,
                  "region: InvalidDim: expected a point whose axis " + std::to_string(i) + " is " +
                      axes::show(labels_[i]) + ", found " + axes::show(labels[i]));
    }
    const std::uint64_t coordinate = point.coordinates()[i];
    if (coordinate >= sizes_[i]) return fail(out_of_range_index(labels_[i], sizes_[i], coordinate));
    rank += coordinate * strides_[i];  // fits: the last rank does
  }
  return rank;
}

Result<Point> Region::point(std::uint64_t base_rank) const {
  const std::optional<std::uint64_t> ordinal = ordinal_of(base_rank);
  if (!ordinal) {
    return fail(ErrorCode::out_of_range, "region: OutOfRangeRank: expected a rank of " +
                                             text::quoted(to_string()) + ", found " +
                                             std::to_string(base_rank));
  }
  return points()[*ordinal];
}

std::optional<std::uint64_t> Region::ordinal_of(std::uint64_t base_rank) const noexcept {
  if (base_rank < offset_ || is_empty()) return std::nullopt;
  std::uint64_t rest = base_rank - offset_;
  std::uint64_t ordinal = 0;
  // Each stride exceeds all that smaller ones can add up to, so its coordinate can only be the
  // quotient.
  for (const Step& step : steps_) {
    const std::uint64_t coordinate = rest / step.stride;
    if (coordinate >= step.size) return std::nullopt;
    rest -= coordinate * step.stride;
    ordinal += coordinate * step.weight;
  }
  if (rest != 0) return std::nullopt;
  return ordinal;
}

RankRange Region::ranks() const& noexcept {
  return RankRange(*this);
}

Result<std::size_t> Region::axis(std::string_view label) const {
  if (const std::optional<std::size_t> found = find(label)) return *found;
  std::string known;
  for (const std::string& other : labels_) known += (known.empty() ? "" : ", ") + axes::show(other);
  return fail(ErrorCode::configuration_error,
              "region: InvalidDim: no axis " + axes::show(label) + ": " +
                  (known.empty() ? "the region has no axes" : "the axes are " + known));
}

Result<Region> Region::range(std::string_view label, std::uint64_t begin,
                             std::optional<std::uint64_t> end, std::uint64_t step) const {
  const Result<std::size_t> found = axis(label);
  if (!found) return fail(found.error());
  const std::size_t i = *found;
  const std::string shown = std::to_string(begin) + ".." + (end ? std::to_string(*end) : "") +
                            (step == 1 ? "" : " by " + std::to_string(step));
  if (step == 0)
    return fail(ErrorCode::configuration_error, "region: range " + shown + " of axis " +
                                                    axes::show(label) +
                                                    ": expected a step of at least 1");
  const std::uint64_t stop = std::min(end.value_or(sizes_[i]), sizes_[i]);
  if (begin >= stop) {
    return fail(ErrorCode::out_of_range, "region: EmptyRange: range " + shown + " of axis " +
                                             axes::show(label) + ", which has size " +
                                             std::to_string(sizes_[i]) + ", has no index");
  }
  std::vector<std::uint64_t> sizes = sizes_;
  std::vector<std::uint64_t> strides = strides_;
  sizes[i] = (stop - begin - 1) / step + 1;
  // With one index left the stride means nothing; it may be as long as a number gets.
  if (__builtin_mul_overflow(strides_[i], step, &strides[i]))
    strides[i] = std::numeric_limits<std::uint64_t>::max();
  return Region(labels_, offset_ + begin * strides_[i], std::move(sizes), std::move(strides));
}

Result<Region> Region::at(std::string_view label, std::uint64_t index) const {
  const Result<std::size_t> found = axis(label);
  if (!found) return fail(found.error());
  const std::size_t i = *found;
  if (index >= sizes_[i]) return fail(out_of_range_index(label, sizes_[i], index));
  std::vector<std::string> labels = labels_;
  std::vector<std::uint64_t> sizes = sizes_;
  std::vector<std::uint64_t> strides = strides_;
  const auto position = static_cast<std::ptrdiff_t>(i);
  labels.erase(labels.begin() + position);
  sizes.erase(sizes.begin() + position);
  strides.erase(strides.begin() + position);
  return Region(std::move(labels), offset_ + index * strides_[i], std::move(sizes),
                std::move(strides));
}

Result<RegionGroups> Region::group_by(std::string_view label) const {
  const Result<std::size_t> found = axis(label);
  if (!found) return fail(found.error());
  const auto at = static_cast<std::ptrdiff_t>(*found);
  const auto front = [&](const auto& all) {
    return std::remove_cvref_t<decltype(all)>(all.begin(), all.begin() + at);
  };
  const auto back = [&](const auto& all) {
    return std::remove_cvref_t<decltype(all)>(all.begin() + at, all.end());
  };
  return RegionGroups(Region(front(labels_), offset_, front(sizes_), front(strides_)),
                      Region(back(labels_), offset_, back(sizes_), back(strides_)));
}

std::string Region::to_string() const {
  std::string out;
  if (offset_ != 0) out += std::to_string(offset_) + "+";
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    if (i != 0) out += ',';
    text::append_label(out, labels_[i]);
    out += "=" + std::to_string(sizes_[i]) + "/" + std::to_string(strides_[i]);
  }
  return out;
}

[[gnu::visibility("default")]] bool operator==(const Region& a, const Region& b) noexcept {
  return a.offset_ == b.offset_ && a.sizes_ == b.sizes_ && a.strides_ == b.strides_ &&
         a.labels_ == b.labels_;
}

[[gnu::visibility("default")]] std::strong_ordering operator<=>(const Region& a,
                                                                const Region& b) noexcept {
  if (const auto order = a.offset_ <=> b.offset_; order != 0) return order;
  if (const auto order = a.labels_ <=> b.labels_; order != 0) return order;
  if (const auto order = a.sizes_ <=> b.sizes_; order != 0) return order;
  return a.strides_ <=> b.strides_;
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out, const Region& region) {
  return out << region.to_string();
}

RankRange::iterator::iterator(const Region& region, std::uint64_t left)
    : left_(left), rank_(region.offset()) {
  if (left == 0) return;
  for (std::size_t i = 0; i < region.num_dims(); ++i) {
    if (region.sizes()[i] > 1) wheels_.push_back({region.sizes()[i], region.strides()[i], 0});
  }
}

RankRange::iterator& RankRange::iterator::operator++() noexcept {
  --left_;
  for (std::size_t i = wheels_.size(); i-- > 0;) {
    Wheel& wheel = wheels_[i];
    if (++wheel.index < wheel.size) {
      rank_ += wheel.stride;
      break;
    }
    rank_ -= (wheel.size - 1) * wheel.stride;
    wheel.index = 0;
  }
  return *this;
}

Region RegionGroups::operator[](std::uint64_t index) const {
  Region group = inner_;
  group.offset_ = outer_.rank_at(index);
  return group;
}

std::uint64_t Remap::operator[](std::uint64_t ordinal) const noexcept {
  return *self_.ordinal_of(target_.rank_at(ordinal));  // a subset, so it is there
}

std::optional<Remap> remap(const Region& self, const Region& target) {
  if (!is_subset(target, self)) return std::nullopt;
  return Remap(self, target);
}

}  // namespace meshbus

std::size_t std::hash<meshbus::Region>::operator()(const meshbus::Region& region) const noexcept {
  const std::uint64_t offset = region.offset();
  return meshbus::axes::hash(region.labels(), {{&offset, 1}, region.sizes(), region.strides()});
}
