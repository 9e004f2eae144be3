// What hosts write down and read again, perhaps as another release or a crash has left it: lines of
// the event log and of the audit trail, and the ledger that an agent takes over. The first byte
// says which.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "agent/host/records/event_text.h"
#include "agent/host/records/ledger.h"
#include "cli/support/audit_entry.h"
#include "common/base/unique_fd.h"
#include "tests/fuzz/support.h"
#include "wire/ledger_generated.h"
#include "wire/lifecycle_generated.h"

using namespace meshbus;
using namespace meshbus::host;

FUZZ_MUTATE_IN_PLACE

namespace {

void check_event(std::string_view line) {
  may_concern(line, "train");
  const auto event = parse_event(line);
  if (!event) {
    FUZZ_CHECK(!event.error().to_string().empty(), line);
    return;
  }
  const auto printed = to_line(*event);
  FUZZ_CHECK(printed.find('\n') == printed.size() - 1, printed);
  const auto again = parse_event(printed);
  FUZZ_CHECK(again.has_value() && to_line(*again) == printed, printed);
}

void check_audit(std::string_view line) {
  const auto entry = cli::AuditEntry::parse(line);
  if (!entry) return;
  FUZZ_CHECK(entry->line == line, line);
  cli::AuditFilter filter{.by = "alice", .mesh = "train", .verbs = {"spawn"}};
  filter.takes(*entry);
  filter.since = std::chrono::system_clock::time_point{};
  filter.reaches(*entry);
}

/// The memory as the input says: which half counts and its size, in the first 16 bytes, and that
/// half. Then it goes on as a ledger of ours.
void check_ledger(std::string_view bytes) {
  constexpr std::uint64_t kMagic = 0x31'5244'474c'424d;
  constexpr off_t kHalfBytes = off_t{1} << 40;
  if (bytes.size() < 16) return;
  UniqueFd memory(::memfd_create("ledger", MFD_CLOEXEC));
  std::uint64_t half = 0, size = 0;
  std::memcpy(&half, bytes.data(), sizeof half);
  std::memcpy(&size, bytes.data() + 8, sizeof size);
  const std::uint64_t header[] = {kMagic, half, size, size};
  const auto entries = bytes.substr(16);
  if (::pwrite(memory.get(), header, sizeof header, 0) != sizeof header ||
      ::pwrite(memory.get(), entries.data(), entries.size(), kHalfBytes * (1 + (half & 1))) !=
          static_cast<ssize_t>(entries.size()))
    std::abort();
  UniqueFd copy(::dup(memory.get()));
  auto ledger = Ledger::open(std::move(copy));
  if (!ledger) return;
  const auto before = ledger->entries();
  for (const auto& entry : before) {
    flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(entry.data()),
                                   entry.size());
    FUZZ_CHECK(verifier.VerifyBuffer<wire::LedgerEntry>(nullptr), "an entry that is none");
  }
  // As an agent does that has taken over.
  const auto added = Ledger::encode(wire::LedgerEntryT());
  ledger->begin_snapshot();
  for (const auto& entry : before) ledger->add(entry);
  ledger->add(added);
  if (!ledger->commit()) return;
  auto next = Ledger::open(std::move(memory));
  FUZZ_CHECK(next.has_value(), "what we wrote ourselves is refused");
  const auto after = next->entries();
  FUZZ_CHECK(after.size() == before.size() + 1 && after.back() == added, "an entry is missing");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Eight bytes, so that numbers behind them keep their alignment for the mutator.
  if (size < 8) return 0;
  const fuzz::ExactCopy copy(fuzz::text_of(data + 8, size - 8));
  switch (data[0] % 3) {
    case 0: check_event(copy.view()); break;
    case 1: check_audit(copy.view()); break;
    default: check_ledger(copy.view()); break;
  }
  return 0;
}
