// What meshbus-hands reads about the process whose place it takes, and what the agent sends it. The
// first byte says which.
#include "agent/hands/cgroup_lines.h"
#include "agent/hands/process_texts.h"
#include "agent/os/terminal_records.h"
#include "tests/fuzz/support.h"

using namespace meshbus;
using namespace meshbus::hands;

namespace {

/// The first line is a cgroup, the rest are mounts.
void check_cgroups(std::string_view text) {
  const auto end = text.find('\n');
  const auto mounts = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  for (const auto& line : parse_cgroups(text.substr(0, end))) {
    const auto folder = find_cgroup_directory(mounts, line);
    FUZZ_CHECK(!folder || mounts.size() > 0, "a folder without a mount");
  }
}

void check_terminal_records(std::string_view bytes) {
  os::TerminalRecords records;
  std::size_t got = 0;
  records.add(bytes);
  os::TerminalRecord type{};
  for (std::string_view body; records.next(type, body);)
    got += sizeof(os::TerminalRecordHead) + body.size();
  FUZZ_CHECK(got <= bytes.size(), "more than there was");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const fuzz::ExactCopy copy({reinterpret_cast<const char*>(data) + 1, size - 1});
  switch (data[0] % 5) {
    case 0: check_cgroups(copy.view()); break;
    case 1: check_terminal_records(copy.view()); break;
    case 2: (void)parse_status(copy.view()); break;
    case 3: (void)parse_limits(copy.view()); break;
    default: (void)parse_start_ticks(copy.view()); break;
  }
  return 0;
}
