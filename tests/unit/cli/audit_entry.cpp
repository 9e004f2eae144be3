#include "cli/support/audit_entry.h"

#include <doctest/doctest.h>

using namespace meshbus::cli;

TEST_CASE("audit_entry: what hosts wrote down is chosen by time, principal and mesh") {
  const auto entry = AuditEntry::parse(
      R"({"time":"2026-11-25T01:00:00.500Z","by":"operator alice","address":"10.0.0.2",)"
      R"("peer":null,"verb":"stop","mesh":"train-13Se1Maqzryj","what":"","outcome":"ok"})");
  REQUIRE(entry.has_value());
  CHECK(entry->text("peer").empty());
  const auto at = [](std::time_t seconds) {
    return std::chrono::system_clock::from_time_t(seconds);
  };
  CHECK(AuditFilter{}.takes(*entry));
  CHECK(AuditFilter{.since = at(1'795'568'400)}.takes(*entry));
  CHECK_FALSE(AuditFilter{.since = at(1'795'568'401)}.takes(*entry));
  CHECK(AuditFilter{.by = "alice"}.takes(*entry));
  CHECK(AuditFilter{.by = "10.0.0.2"}.takes(*entry));
  CHECK_FALSE(AuditFilter{.by = "bob"}.takes(*entry));
  CHECK(AuditFilter{.mesh = "train"}.takes(*entry));
  CHECK(AuditFilter{.mesh = "train-13Se1Maqzryj"}.takes(*entry));
  CHECK_FALSE(AuditFilter{.mesh = "trai"}.takes(*entry));
  for (const char* wrong : {"", "{", "[]", "7", R"({"time":"x"})"})
    CHECK_FALSE(AuditEntry::parse(wrong).has_value());
}
