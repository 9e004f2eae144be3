// What a mesh proc finds in its sealed memory, and the text that names it.
#include "agent/proc/runtime/bootstrap.h"

#include "tests/fuzz/support.h"
#include "wire/bootstrap_generated.h"

using namespace meshbus;
using namespace meshbus::mesh_proc;

FUZZ_MUTATE_IN_PLACE

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::text_of(data, size);
  const auto first = decode_bootstrap(bytes);
  if (!first) {
    FUZZ_CHECK(!first.error().detail().empty(), "an error without words");
    // A short input is the text of the variable, too. Nothing here is open under such a number but
    // what is not sealed.
    if (size < 64) FUZZ_CHECK(!open_bootstrap(bytes).has_value(), bytes);
    return 0;
  }
  FUZZ_CHECK(*first->mesh.proc_of(first->rank) == first->proc && first->proc.host() == first->host,
             "somebody else's place");
  // Written again by the generated code, it says the same.
  std::vector<std::uint64_t> aligned(size / 8 + 1);
  std::memcpy(aligned.data(), data, size);
  wire::BootstrapT native;
  flatbuffers::GetRoot<wire::Bootstrap>(aligned.data())->UnPackTo(&native);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::Bootstrap::Pack(builder, &native));
  const auto again = decode_bootstrap(bytes_of(builder.GetBufferPointer(), builder.GetSize()));
  FUZZ_CHECK(again.has_value(), "what we packed ourselves is refused");
  FUZZ_CHECK(again->proc == first->proc && again->incarnation == first->incarnation &&
                 again->token == first->token && again->broker == first->broker &&
                 again->mesh == first->mesh && again->rank == first->rank &&
                 again->config == first->config && again->away == first->away &&
                 again->heartbeat == first->heartbeat,
             "it changed on the way");
  return 0;
}
