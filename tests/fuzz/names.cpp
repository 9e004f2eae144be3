// Names, addresses and ids (spec 2.1 to 2.3): what parses prints as something that parses as the
// same, and no text crashes.
#include "meshbus/address.h"
#include "meshbus/key.h"
#include "meshbus/name.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  fuzz::check_text<Name>(text);
  fuzz::check_text<ProcName>(text);
  fuzz::check_text<HostAddr>(text);
  fuzz::check_text<ProcId>(text);
  fuzz::check_text<ActorId>(text);
  fuzz::check_text<PortId>(text);
  fuzz::check_print_parse(
      text, [](std::string_view one) { return HostAddr::parse(one); },
      [](const HostAddr& address) { return address.zmq_endpoint(); });
  if (const auto address = HostAddr::parse(text)) {
    FUZZ_CHECK(address->key() == key_of(address->to_string()) && address->key() != 0, text);
    FUZZ_CHECK(!address->is_reachable_from_elsewhere() ||
                   !(address->is_any() || address->is_wildcard() || address->is_loopback()),
               text);
  }
  if (const auto proc = parse_proc_name(text)) {
    const ProcName printed = proc_name(proc->mesh, proc->create_rank);
    const auto again = parse_proc_name(printed);
    FUZZ_CHECK(again.has_value() && *again == *proc, printed.to_string());
  }
  if (const auto base = Name::make(text, 7))
    FUZZ_CHECK(base->base() == text && base->uuid() == std::uint64_t{7}, text);
  return 0;
}
