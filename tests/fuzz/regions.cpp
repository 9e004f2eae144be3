// Extents, regions, points and references to meshes as texts (spec 1), and what holds for every
// region that a text can say.
#include "meshbus/extent.h"
#include "meshbus/host_mesh_ref.h"
#include "meshbus/point.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/region.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

namespace {

void check_ranks(const Region& region) {
  const auto text = region.to_string();
  const auto count = region.num_ranks();
  for (const std::uint64_t ordinal : {std::uint64_t{0}, count / 2, count - 1}) {
    if (ordinal >= count) continue;
    const auto rank = region.base_rank(ordinal);
    FUZZ_CHECK(rank.has_value(), text);
    FUZZ_CHECK(region.ordinal_of(*rank) == ordinal, text);
    const auto point = region.extent().point_of(ordinal);
    FUZZ_CHECK(point.has_value() && point->rank() == ordinal, text);
  }
  FUZZ_CHECK(!region.base_rank(count).has_value(), text);
  for (std::size_t axis = 0; axis < region.num_dims() && axis < 3; ++axis) {
    const auto& label = region.labels()[axis];
    const auto size = region.sizes()[axis];
    for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{3}, size, ~std::uint64_t{0}}) {
      const auto slice = region.range(label, size / 3, std::nullopt, step);
      if (!slice) continue;
      FUZZ_CHECK(slice->num_ranks() <= count, text);
      const auto first = slice->base_rank(0);
      FUZZ_CHECK(!first || region.contains(*first), text);
    }
    if (const auto one = region.at(label, size - 1); size != 0)
      FUZZ_CHECK(one.has_value() && one->num_ranks() <= count, text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  fuzz::check_text<Region>(text);
  fuzz::check_text<Extent>(text);
  fuzz::check_print_parse(
      text, [](std::string_view one) { return Extent::parse(one); },
      [](const Extent& e) { return e.to_shape_string(); });
  fuzz::check_print_parse(
      text, [](std::string_view one) { return Extent::parse(one); },
      [](const Extent& e) { return e.to_argument(); });
  fuzz::check_text<Point>(text);
  fuzz::check_text<HostMeshRef>(text);
  fuzz::check_text<ProcMeshRef>(text);
  if (const auto region = Region::parse(text)) check_ranks(*region);
  if (const auto mesh = ProcMeshRef::parse(text)) {
    check_ranks(mesh->region());
    if (const auto proc = mesh->proc_at(0))
      FUZZ_CHECK(proc->name() == proc_name(mesh->mesh(), *mesh->create_rank(0)), text);
  }
  if (const auto mesh = HostMeshRef::parse(text))
    FUZZ_CHECK(mesh->hosts().size() == mesh->num_ranks(), text);
  return 0;
}
