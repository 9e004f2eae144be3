#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cli/chaos/chaos_book.h"
#include "cli/chaos/chaos_report.h"

namespace meshbus::cli {
namespace {

using namespace std::chrono_literals;
using Type = ChaosTarget::Type;

const HostAddr kOne = *HostAddr::parse("tcp:h1:7420");
const HostAddr kOther = *HostAddr::parse("tcp:h2:7420");
/// The clock of a host is an hour behind ours.
const ChaosNotice::Time kOurs{100'000s};
const ChaosNotice::Time kTheirs{96'400s};

ChaosDeed of_rank(std::uint64_t rank, ChaosKind kind = ChaosKind::kill) {
  return {.kind = kind,
          .target = {.type = Type::rank, .host = kOne, .mesh = "train-1", .rank = rank}};
}

ChaosNotice from_rank(std::uint64_t rank, std::chrono::milliseconds after) {
  return {.host = kOne,
          .mesh = "train-1",
          .rank = rank,
          .what = "killed by SIGKILL",
          .seen = kOurs + after + 70ms,
          .time = kTheirs + after};
}

TEST_CASE("chaos_book: what is said of a rank is with the last deed before it") {
  ChaosBook book;
  const auto first = book.add(of_rank(3), kOurs);
  const auto second = book.add(of_rank(3), kOurs + 10s);
  const auto refused = book.add(of_rank(3), kOurs + 11s);
  book.confirm(first, kOne, kTheirs, "killed 1 rank");
  book.confirm(second, kOne, kTheirs + 10s, "killed 1 rank");
  book.fail(refused, "refused");
  book.add(from_rank(3, 12ms));
  book.add(from_rank(3, 11500ms));
  book.add(from_rank(4, 20ms));
  const auto entries = book.entries();
  REQUIRE(entries.size() == 3);
  REQUIRE(entries[0].heard.size() == 1);
  // Both times are of the clock of the host.
  CHECK(entries[0].heard[0].after == 12ms);
  REQUIRE(entries[1].heard.size() == 1);
  CHECK(entries[1].heard[0].after == 1500ms);
  CHECK(entries[2].heard.empty());
  CHECK_FALSE(entries[2].is_confirmed);
  const auto others = book.others();
  REQUIRE(others.size() == 1);
  CHECK(others[0].rank == 4);
}

TEST_CASE("chaos_book: roles and links are told apart") {
  ChaosBook book;
  const auto role = book.add(
      {.kind = ChaosKind::kill, .target = {.type = Type::role, .host = kOne, .role = "broker"}},
      kOurs);
  const auto link = book.add(
      {.kind = ChaosKind::cut, .target = {.type = Type::link, .host = kOne, .peer = kOther}},
      kOurs);
  book.confirm(role, kOne, kTheirs, "");
  book.confirm(link, kOne, kTheirs, "");
  book.add({.host = kOne, .role = "broker", .what = "the broker was killed", .seen = kOurs + 1s});
  book.add({.host = kOne, .role = "agent", .what = "the agent was killed", .seen = kOurs + 1s});
  book.add({.host = kOther, .peer = kOne, .what = "the link is down", .seen = kOurs + 2s});
  book.add({.host = kOther, .what = "the host does not answer", .seen = kOurs + 3s});
  const auto entries = book.entries();
  REQUIRE(entries[role].heard.size() == 1);
  CHECK(entries[role].heard[0].notice.role == "broker");
  REQUIRE(entries[link].heard.size() == 1);
  CHECK(entries[link].heard[0].after == 2s);
  CHECK(book.others().size() == 2);
}

TEST_CASE("chaos_report: says what was never noticed") {
  ChaosBook book;
  const auto number = book.add(of_rank(0, ChaosKind::freeze), kOurs);
  book.confirm(number, kOne, kTheirs, "stopped 1 rank");
  const auto text = chaos_report_text(book);
  CHECK(text.find("nothing") != std::string::npos);
  CHECK(text.find("1 asked for, 1 done, 1 of them never noticed\n") != std::string::npos);
  const auto json = nlohmann::json::parse(chaos_report_json({}, {}, book, false, true));
  CHECK(json.at("unnoticed") == 1);
  CHECK(json.at("interrupted") == true);
  CHECK(json.at("deeds")[0].at("confirmed") == true);
  CHECK(json.at("deeds")[0].at("rank") == 0);
}

}  // namespace
}  // namespace meshbus::cli
