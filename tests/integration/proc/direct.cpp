// Direct paths between real procs (decision 73).
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <sstream>

#include "tests/integration/proc/harness.h"
#include "tests/support/process_table.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

constexpr std::array<std::uint64_t, 2> kRanks{0, 1};

/// Two ranks that send numbers to each other without a pause, and rank 2, which serves.
struct TwoTalkers {
  TwoTalkers() {
    for (const std::uint64_t rank : kRanks) harness.start(rank, {"talk"});
    harness.start(2, {"serve"});
    for (const std::uint64_t rank : {std::uint64_t{2}, kRanks[0], kRanks[1]})
      harness.wait_ready(rank);
  }

  /// What a rank tells of itself.
  struct Told {
    std::uint64_t sent = 0, returned = 0, received = 0, out_of_order = 0;
  };
  Told order(std::uint64_t rank, const std::string& what) {
    std::istringstream text(harness.call(rank, 28, what).value());
    Told told;
    std::string word;
    text >> word >> told.sent >> word >> told.returned >> word >> told.received >> word >> word >>
        word >> told.out_of_order;
    return told;
  }
  std::uint64_t direct() const { return harness.broker().counters().direct; }
  void wait_for_paths() {
    harness.wait("messages by the path",
                 [&, before = direct()] { return direct() > before + 10000; });
  }
  /// Both send no more; all that was sent has come, in order, or has come back.
  void check_all_told() {
    for (const std::uint64_t rank : kRanks) order(rank, "pause");
    Told a, b;
    const auto until = std::chrono::steady_clock::now() + 60s;
    do {
      a = order(0, "pause");
      b = order(1, "pause");
    } while ((a.sent != b.received + a.returned || b.sent != a.received + b.returned) &&
             std::chrono::steady_clock::now() < until);
    CHECK(a.sent == b.received + a.returned);
    CHECK(b.sent == a.received + b.returned);
    CHECK(a.out_of_order == 0);
    CHECK(b.out_of_order == 0);
  }

  ProcHarness harness{{.ranks = 3}};
};

}  // namespace

TEST_CASE("proc: of two that talk directly one is stopped: the other is paced, nothing is lost") {
  TwoTalkers two;
  two.wait_for_paths();
  auto& stopped = two.harness.process(1);
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    stopped.send_signal(SIGSTOP);
    two.harness.wait("the process is stopped",
                     [&] { return find_process(stopped.pid())->state == 'T'; });
    // The sender goes back to the broker, which gives it no more credit than it gives others.
    const auto through = two.harness.broker().counters().received;
    two.harness.wait("messages through the broker",
                     [&] { return two.harness.broker().counters().received > through + 1000; });
    for (int i = 0; i < 10; ++i) REQUIRE(two.harness.call(2, 1, "lively").value() == "lively");
    stopped.send_signal(SIGCONT);
    two.wait_for_paths();
  }
  two.check_all_told();
}

TEST_CASE("proc: without descriptors there is no direct path, and the broker does") {
  for (const std::uint64_t rank : kRanks) {
    CAPTURE(rank);
    ProcHarness harness({.ranks = 2});
    for (const std::uint64_t one : kRanks) harness.start(one, {"serve"});
    for (const std::uint64_t one : kRanks) harness.wait_ready(one);
    REQUIRE(std::stoi(harness.call(rank, 30, "all").value()) > 0);
    CHECK(harness.call(0, 31, "").value() == "talked");
    CHECK(harness.broker().counters().direct == 0);
    // It is tried again, less and less often.
    CHECK(harness.call(rank, 30, "none").value() == "closed");
    harness.wait("a direct path", [&] {
      return harness.call(0, 31, "").has_value() && harness.broker().counters().direct > 0;
    });
  }
}
