#include <doctest/doctest.h>

#include "client/controller/report_queue.h"
#include "wire/supervision_generated.h"

/// Its own namespace, because other files of this unity build use the same names.
namespace meshbus::test::report_queue {

using namespace std::chrono_literals;

inline const HostAddr kA = *HostAddr::parse("unix:/a");
inline const HostAddr kB = *HostAddr::parse("unix:/b");
inline const ReportQueue::Time t0{1h};

inline std::shared_ptr<const wire::ExitReportT> exit_report(const std::string& reason) {
  auto made = std::make_shared<wire::ExitReportT>();
  made->reason = reason;
  return made;
}

inline WatchEvent event(std::uint64_t rank, wire::ProcState state = wire::ProcState::ready) {
  WatchEvent made;
  made.host = rank < 2 ? kA : kB;
  made.rank.mutate_rank(rank);
  made.rank.mutate_state(state);
  return made;
}

/// The rank 9 ends at 1 ns, the rank 0 at 10 ns: the order of time is not that of the ranks.
inline WatchEvent end(std::uint64_t rank, const std::string& reason = {}) {
  auto made = event(rank, wire::ProcState::killed);
  made.rank.mutate_ended_ns(10 - static_cast<std::int64_t>(rank));
  if (!reason.empty()) made.exit_report = exit_report(reason);
  return made;
}

/// "1 ready", "1 killed: why".
inline std::vector<std::string> texts(const std::vector<WatchEvent>& events) {
  std::vector<std::string> lines;
  for (const auto& one : events)
    lines.push_back(std::to_string(one.rank.rank()) + " " +
                    wire::EnumNameProcState(one.rank.state()) +
                    (one.exit_report == nullptr ? "" : ": " + one.exit_report->reason));
  return lines;
}

using Texts = std::vector<std::string>;

TEST_CASE("report_queue: changes are handed out once, in order, numbered") {
  ReportQueue queue;
  CHECK(queue.empty());
  queue.add(event(3, wire::ProcState::starting));
  queue.add(event(1));
  queue.add(event(3));
  CHECK_FALSE(queue.empty());
  const auto told = queue.take(t0);
  CHECK(texts(told.events) == Texts{"3 starting", "1 ready", "3 ready"});
  CHECK(told.events[0].generation == 1);
  CHECK(told.events[2].generation == 3);
  CHECK(told.ask.empty());
  CHECK(queue.empty());
  CHECK(queue.take(t0).events.empty());
  CHECK(queue.generation() == 3);
}

TEST_CASE(
    "report_queue: ends that are ready together come behind everything else, the earliest first") {
  ReportQueue queue;
  queue.add_end(end(0, "consequence"), t0);
  queue.add_end(end(3, "cause"), t0);
  queue.add(event(2));
  CHECK(texts(queue.take(t0).events) ==
        Texts{"2 ready", "3 killed: cause", "0 killed: consequence"});
}

TEST_CASE("report_queue: an end is held until its exit report comes") {
  ReportQueue queue;
  queue.add(event(1, wire::ProcState::stopping));
  queue.add_end(end(1), t0);
  CHECK(texts(queue.take(t0).events) == Texts{"1 stopping"});
  CHECK(queue.holds(1));
  CHECK(queue.holds_any_of(kA));
  CHECK_FALSE(queue.holds_any_of(kB));
  CHECK_FALSE(queue.empty());
  queue.report_exit(2, exit_report("another rank"));
  CHECK(queue.take(t0).events.empty());
  queue.report_exit(1, exit_report("why"));
  queue.report_exit(1, exit_report("again"));
  CHECK(texts(queue.take(t0).events) == Texts{"1 killed: why"});
  CHECK_FALSE(queue.holds(1));
  CHECK_FALSE(queue.holds_any_of(kA));
  CHECK(queue.empty());
}

TEST_CASE(
    "report_queue: an exit report that does not come is asked for, again and again, and at last "
    "done without") {
  ReportQueue queue;
  CHECK_FALSE(queue.next_due().has_value());
  queue.add_end(end(1), t0);
  queue.add_end(end(2), t0 + 1ms);
  CHECK(queue.next_due() == t0 + ReportQueue::kExitReportAsk);
  CHECK(queue.take(t0 + ReportQueue::kExitReportAsk - 1ms).ask.empty());
  CHECK(queue.take(t0 + ReportQueue::kExitReportAsk).ask == std::set{kA});
  CHECK(queue.take(t0 + ReportQueue::kExitReportAsk).ask.empty());
  CHECK(queue.next_due() == t0 + ReportQueue::kExitReportAsk + 1ms);
  CHECK(queue.take(t0 + ReportQueue::kExitReportAsk + ReportQueue::kAskAgain).ask ==
        std::set{kA, kB});
  CHECK(queue.take(t0 + ReportQueue::kExitReportLimit - 1ms).events.empty());
  CHECK(texts(queue.take(t0 + ReportQueue::kExitReportLimit).events) == Texts{"1 killed"});
  CHECK(queue.next_due() == t0 + ReportQueue::kExitReportLimit + 1ms);
}

TEST_CASE("report_queue: the end of a former life comes before what the next life brings") {
  ReportQueue queue;
  queue.add_end(end(1), t0);
  queue.release(1);
  queue.release(1);
  queue.add(event(1, wire::ProcState::starting));
  CHECK_FALSE(queue.holds(1));
  CHECK(texts(queue.take(t0).events) == Texts{"1 killed", "1 starting"});
  // The end was told without its exit report, so a late one is dropped.
  queue.report_exit(1, exit_report("late"));
  CHECK(queue.empty());
}

TEST_CASE("report_queue: exit reports of one message go in from its back, each to its own life") {
  ReportQueue queue;
  for (int life = 0; life < 3; ++life) {
    queue.add_end(end(1), t0);
    queue.add(event(2));
  }
  for (const auto* reason : {"third", "second", "first", "of none"})
    queue.report_exit(1, exit_report(reason));
  CHECK(texts(queue.take(t0).events) == Texts{"2 ready", "1 killed: first", "2 ready",
                                              "1 killed: second", "2 ready", "1 killed: third"});
}

TEST_CASE("report_queue: a mesh becomes complete once, and again when it had more to tell") {
  ReportQueue queue;
  CHECK_FALSE(queue.complete(false));
  CHECK(queue.complete(true));
  CHECK(queue.is_complete());
  CHECK_FALSE(queue.complete(true));
  CHECK_FALSE(queue.complete(false));
  CHECK_FALSE(queue.is_complete());
  CHECK(queue.complete(true));
}

TEST_CASE("report_queue: a late listener hears ends last, the earliest first") {
  auto trouble = end(0, "a trouble is no end");
  trouble.kind = WatchEvent::Kind::trouble;
  std::vector<WatchEvent> events{end(1), event(2), end(3), trouble, event(0)};
  ReportQueue::sort(events);
  CHECK(texts(events) ==
        Texts{"2 ready", "0 killed: a trouble is no end", "0 ready", "3 killed", "1 killed"});
}

}  // namespace meshbus::test::report_queue
