// What a broker reads of a cast, and what a receiver does.
#include "common/bus/cast.h"
#include "common/wire/wire_region.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto cast = CastBody::open(bytes_of(data, size));
  if (!cast) return 0;
  if (const auto view = from_wire(cast->head().view())) {
    std::uint64_t named = 0;
    if (const auto* runs = cast->head().runs()) {
      for (const auto* run : *runs)
        named += run->count() > 0 && view->point(run->first()).has_value();
    }
    const std::string again =
        cast_front(cast->head().mesh() == nullptr ? "" : cast->head().mesh()->string_view(), {},
                   *to_wire(*view));
    const auto copy = CastBody::open(again);
    FUZZ_CHECK(copy.has_value() && *from_wire(copy->head().view()) == *view,
               "a view that is read as it was written");
    FUZZ_CHECK(named <= size, "more ranks than bytes");
  }
  return 0;
}
