#include "common/wire/wire_region.h"

#include <string>
#include <utility>
#include <vector>

#include "wire/types_generated.h"

namespace meshbus {
namespace {

/// Texts of a message may overlap: many long labels fit into few bytes, and would grow when they
/// are copied.
constexpr std::size_t kLabelBytes = 64 * 1024;

}  // namespace

std::unique_ptr<wire::RegionT> to_wire(const Region& region) {
  auto out = std::make_unique<wire::RegionT>();
  out->labels = region.labels();
  out->offset = region.offset();
  out->sizes = region.sizes();
  out->strides = region.strides();
  return out;
}

Result<Region> from_wire(const wire::Region* region) {
  if (region == nullptr) return fail(ErrorCode::malformed_message, "region: there is none");
  std::vector<std::string> labels;
  std::size_t bytes = 0;
  for (const auto* label : *region->labels()) {
    bytes += label->size() + 1;
    if (bytes > kLabelBytes)
      return fail(ErrorCode::too_large,
                  "region: more than " + std::to_string(kLabelBytes) + " bytes of labels");
    labels.push_back(label->str());
  }
  return Region::make(std::move(labels), region->offset(),
                      {region->sizes()->begin(), region->sizes()->end()},
                      {region->strides()->begin(), region->strides()->end()});
}

}  // namespace meshbus
