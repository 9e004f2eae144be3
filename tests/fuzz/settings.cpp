// What people write: durations, sizes, --set, the settings file. Answered in words, never by a
// crash.
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/quantity.h"
#include "common/base/unique_fd.h"
#include "common/config/config.h"
#include "tests/fuzz/support.h"

using namespace meshbus;

namespace {

void check_file(std::string_view text) {
  const UniqueFd file(::memfd_create("settings", MFD_CLOEXEC));
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    std::abort();
  ConfigSources sources;
  sources.environment["MESHBUS_CONFIG"] = "/proc/self/fd/" + std::to_string(file.get());
  const auto config = Config::load(std::move(sources));
  if (!config) {
    FUZZ_CHECK(!config.error().detail().empty(), text);
    return;
  }
  // What one process tells those that it starts means the same to them.
  ConfigSources child;
  child.snapshot = config->snapshot();
  const auto told = Config::load(child);
  FUZZ_CHECK(told.has_value() && told->snapshot() == config->snapshot(), text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::ExactCopy copy(fuzz::text_of(data, size));
  const auto text = copy.view();
  for (const std::string_view unit : {"ms", "s", "h"}) {
    if (const auto duration = parse_duration(text, unit)) {
      FUZZ_CHECK(duration->count() >= 0, text);
      FUZZ_CHECK(parse_duration(duration_to_text(*duration)) == *duration, text);
    }
  }
  if (const auto bytes = parse_bytes(text))
    FUZZ_CHECK(parse_bytes(bytes_to_text(*bytes)) == *bytes, text);
  if (const auto setting = parse_setting(text)) {
    FUZZ_CHECK(!setting->first.empty(), text);
    Config config;
    const auto before = config.snapshot();
    if (!config.set(setting->first, setting->second)) FUZZ_CHECK(config.snapshot() == before, text);
  }
  check_file(text);
  return 0;
}
