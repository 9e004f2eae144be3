// Overlays and statuses as texts (spec 1.9, 5.1): what parses prints as something that parses as
// the same, and no text crashes.
#include "meshbus/overlay.h"
#include "meshbus/status_mesh.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  fuzz::check_print_parse(text, parse_overlay,
                          [](const TextOverlay& overlay) { return to_string(overlay); });
  fuzz::check_text<Status>(text);
  fuzz::check_print_parse(text, parse_statuses,
                          [](const StatusOverlay& statuses) { return to_string(statuses); });
  return 0;
}
