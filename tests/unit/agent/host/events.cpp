#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "agent/host/records/event_book.h"
#include "agent/host/records/event_text.h"
#include "common/base/event_log.h"
#include "tests/support/temp_dir.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

namespace fs = std::filesystem;
using meshbus::test::read_file;
using meshbus::test::TempDir;

constexpr std::uint64_t kAll = UINT64_MAX;

EventLog open_log(const std::string& path, std::uint64_t size = 1 << 20) {
  auto log = EventLog::open(path, size);
  REQUIRE(log.has_value());
  return std::move(*log);
}

std::vector<std::string> lines_of(const EventLog& log, std::uint64_t from = 0) {
  std::vector<std::string> lines;
  log.read(from, kAll, [&](std::string_view line) {
    lines.emplace_back(line);
    return true;
  });
  return lines;
}

void append_raw(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::app | std::ios::binary) << bytes;
}

std::uint64_t bytes_in(const fs::path& directory) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(directory)) bytes += entry.file_size();
  return bytes;
}

wire::EventT ended(std::uint64_t rank, const std::string& mesh = "m-13Se1Maqzryj") {
  wire::EventT event;
  event.kind = wire::EventKind::proc_ended;
  event.time_ns = 1'700'000'000'123'456'789;
  event.mesh = mesh;
  event.point = "host=0/2,gpu=1/4";
  event.state = std::make_unique<wire::RankState>(
      rank, 5, 0xF122334455667788, 1'700'000'000'000'000'001, 1'700'000'000'000'000'002, 4711, 0,
      wire::ProcState::killed, 9, true, wire::StopStep::kill, 0);
  event.exit_report = std::make_unique<wire::ExitReportT>();
  auto& exit_report = *event.exit_report;
  exit_report.rank = rank;
  exit_report.reason = "killed by \"SIGKILL\"";
  exit_report.cause = wire::Cause::killed_after_grace;
  exit_report.code = wire::ErrorCode::timeout;
  exit_report.os_error = 2;
  exit_report.stopped_by = "me";
  exit_report.stop_reason = "because\nof it";
  exit_report.consequence = true;
  exit_report.because = 0;
  exit_report.max_rss_bytes = 12'345;
  exit_report.user_us = 17;
  exit_report.system_us = 18;
  const std::string tail = "one\ntwo \xc3\xa4\n";
  exit_report.stderr_tail.assign(tail.begin(), tail.end());
  return event;
}

TEST_CASE("event_log: lines come back in order, also for the next one that opens it") {
  const TempDir dir;
  {
    EventLog log = open_log(dir / "events");
    log.append("one\ntwo\n");
    log.append("");
    CHECK(lines_of(log) == std::vector<std::string>{"one", "two"});
  }
  EventLog log = open_log(dir / "events");
  log.append("three\n");
  CHECK(lines_of(log) == std::vector<std::string>{"one", "two", "three"});
  CHECK(lines_of(log, 4) == std::vector<std::string>{"two", "three"});
  CHECK(lines_of(EventLog()).empty());
}

TEST_CASE("event_log: a torn last line is skipped, and what is written behind it is not") {
  const TempDir dir;
  {
    open_log(dir / "events").append("one\n");
  }
  append_raw(dir / "events.jsonl", "{\"torn");
  {
    const EventLog log = open_log(dir / "events");
    CHECK(lines_of(log) == std::vector<std::string>{"one"});
  }
  EventLog log = open_log(dir / "events");
  log.append("two\n");
  CHECK(lines_of(log) == std::vector<std::string>{"one", "{\"torn", "two"});
  CHECK_FALSE(parse_event("{\"torn").has_value());
  // Somebody else, while it is open.
  append_raw(dir / "events.jsonl", "half");
  log.append("three\n");
  CHECK(lines_of(log) == std::vector<std::string>{"one", "{\"torn", "two", "half", "three"});
}

TEST_CASE("event_log: keeps to its size, offsets stay, others may append") {
  const TempDir dir;
  EventLog log = open_log(dir / "events", 10'000);
  std::vector<std::string> all;
  std::uint64_t offset_of_last = 0;
  for (int i = 0; i < 2000; ++i) {
    all.push_back("line " + std::to_string(i));
    offset_of_last += i == 0 ? 0 : all[all.size() - 2].size() + 1;
    if (i % 7 == 3) {
      append_raw(dir / "events.jsonl", all.back() + "\n");
    } else {
      log.append(all.back() + "\n");
    }
    REQUIRE(bytes_in(dir.path()) <= 10'100);
  }
  const auto kept = lines_of(log);
  REQUIRE(kept.size() > 300);
  CHECK(std::equal(kept.rbegin(), kept.rend(), all.rbegin()));
  CHECK(lines_of(log, offset_of_last) == std::vector<std::string>{all.back()});
  // Another one goes on with the same offsets.
  const EventLog next = open_log(dir / "events", 10'000);
  CHECK(lines_of(next, offset_of_last) == std::vector<std::string>{all.back()});
  CHECK(lines_of(next) == kept);
}

TEST_CASE("event_log: what was read can be gone on from, in steps of any size") {
  const TempDir dir;
  EventLog log = open_log(dir / "events");
  std::vector<std::string> all;
  for (int i = 0; i < 500; ++i) {
    all.emplace_back(static_cast<std::size_t>(i % 300), 'x');
    log.append(all.back() + "\n");
  }
  std::vector<std::string> read;
  std::uint64_t from = 0;
  for (int step = 0; step < 10'000; ++step) {
    int left = step % 3 + 1;
    const auto stop = log.read(from, 1, [&](std::string_view line) {
      if (left-- == 0) return false;
      read.emplace_back(line);
      return true;
    });
    from = stop.next;
    if (stop.at_end) break;
  }
  CHECK(read == all);
}

TEST_CASE("event_log: a place where nothing can be written is named") {
  const TempDir dir;
  dir.write("file", "");
  const auto log = EventLog::open(dir / "file/events", 1 << 20);
  REQUIRE_FALSE(log.has_value());
  CHECK(log.error().code() == ErrorCode::configuration_error);
  CHECK(log.error().detail().find(dir / "file/events.jsonl") != std::string::npos);
}

TEST_CASE("event_text: an end comes back as it was, in one line for people") {
  const auto event = ended(3);
  const auto line = to_line(event);
  CHECK(line.find('\n') == line.size() - 1);
  CHECK(line.starts_with(R"({"time":"2023-11-14T22:13:20.123456Z","time_ns":1700000000123456789,)"
                         R"("kind":"proc_ended","mesh":"m-13Se1Maqzryj")"));
  const auto back = parse_event(line);
  REQUIRE(back.has_value());
  CHECK(back->time_ns == event.time_ns);
  CHECK(back->kind == event.kind);
  CHECK(back->mesh == event.mesh);
  CHECK(back->point == event.point);
  REQUIRE(back->state != nullptr);
  REQUIRE(back->exit_report != nullptr);
  CHECK(std::memcmp(back->state.get(), event.state.get(), sizeof(wire::RankState)) == 0);
  const auto& a = *back->exit_report;
  const auto& b = *event.exit_report;
  CHECK(a.rank == b.rank);
  CHECK(a.reason == b.reason);
  CHECK(a.cause == b.cause);
  CHECK(a.code == b.code);
  CHECK(a.os_error == b.os_error);
  CHECK(a.stopped_by == b.stopped_by);
  CHECK(a.stop_reason == b.stop_reason);
  CHECK(a.consequence == b.consequence);
  REQUIRE(a.because.has_value());
  CHECK(*a.because == 0);
  CHECK(a.max_rss_bytes == b.max_rss_bytes);
  CHECK(a.user_us == b.user_us);
  CHECK(a.system_us == b.system_us);
  CHECK(a.stderr_tail == b.stderr_tail);
}

TEST_CASE("event_text: an order comes back as it was") {
  wire::EventT event;
  event.kind = wire::EventKind::stop_asked;
  event.time_ns = 5;
  event.mesh = "m-13Se1Maqzryj";
  event.ranks = {wire::RankInterval(1, 3), wire::RankInterval(7, UINT64_MAX)};
  event.by = "me";
  event.text = "enough";
  event.because = UINT64_MAX;
  const auto back = parse_event(to_line(event));
  REQUIRE(back.has_value());
  REQUIRE(back->ranks.size() == 2);
  CHECK(back->ranks[0].begin() == 1);
  CHECK(back->ranks[0].end() == 3);
  CHECK(back->ranks[1].end() == UINT64_MAX);
  CHECK(back->by == "me");
  CHECK(back->text == "enough");
  REQUIRE(back->because.has_value());
  CHECK(*back->because == UINT64_MAX);
  CHECK(back->exit_report == nullptr);
}

TEST_CASE(
    "event_text: bytes that are no text, and too many of them, are kept as far as a line can") {
  auto event = ended(3);
  event.exit_report->stderr_tail.assign(100'000, 0xff);
  event.exit_report->stderr_tail[99'000] = '\n';
  event.exit_report->stop_reason = "\xff\xfe";
  const auto line = to_line(event);
  CHECK(line.size() < EventLog::kLongestLine);
  const auto back = parse_event(line);
  REQUIRE(back.has_value());
  CHECK(back->exit_report->stop_reason == "\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(back->exit_report->stderr_tail.size() == 999 * 3);
}

TEST_CASE("event_text: no line of whatever bytes does more than fail") {
  const std::string good = to_line(ended(3));
  std::mt19937 random(7);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string line = good.substr(0, good.size() - 1);
    for (auto changes = 1 + random() % 4; changes > 0; --changes)
      line[random() % line.size()] = static_cast<char>(random() % 256);
    if (random() % 4 == 0) line.resize(random() % line.size());
    const auto event = parse_event(line);
    taken += event ? 1 : 0;
    if (!event) CHECK(event.error().code() == ErrorCode::parse_error);
    may_concern(line, "m");
  }
  CHECK(taken > 100);
  for (const char* line : {"", "null", "[]", "3", "{}", R"({"time_ns":"x","kind":1})",
                           R"({"time_ns":1,"kind":"proc_ended","ranks":[[1]]})",
                           R"({"time_ns":1,"kind":"proc_ended","signal":"nine"})",
                           R"({"time_ns":1e99,"kind":"proc_ended"})",
                           R"({"time_ns":1,"kind":"proc_ended","signal":300})",
                           R"({"time_ns":1,"kind":"proc_ended","max_rss_bytes":-1})"})
    CHECK_FALSE(parse_event(line).has_value());
  const auto newer = parse_event(R"({"time_ns":1,"kind":"comet","tail":{"a":[]}})");
  REQUIRE(newer.has_value());
  CHECK(newer->kind == wire::EventKind::none);
}

TEST_CASE("event_text: what a line is about is seen without parsing it") {
  const auto line = to_line(ended(3));
  for (const char* mesh : {"", "m", "m-13Se1Maqzryj"}) CHECK(may_concern(line, mesh));
  for (const char* mesh : {"n", "m-", "m-13Se1Maqzry", "13Se1Maqzryj", "m-13Se1Maqzryjx"})
    CHECK_FALSE(may_concern(line, mesh));
  CHECK(may_concern(R"({"time_ns":1,"kind":"role_ended","text":"\"mesh\":\"n\""})", "m"));
}

TEST_CASE("event_book: finds a mesh, its base and what is about the host, page by page") {
  const TempDir dir;
  EventBook book(open_log(dir / "events"));
  book.add(ended(1000));
  CHECK(book.find("", 0, 1 << 20).events.empty());  // not before the end of the turn
  for (std::uint64_t rank = 0; rank < 400; ++rank)
    book.add(ended(rank, rank % 2 == 0 ? "even-13Se1Maqzryj" : "odd-13Se1Maqzryj"));
  book.add(wire::EventKind::role_ended, {}, {}, "the broker was killed");
  book.add(wire::EventKind::stop_asked, "odd-13Se1Maqzryk", "me", "enough");
  book.write();
  CHECK(book.find("", 0, 1 << 20).events.size() == 403);
  CHECK(book.find("even-13Se1Maqzryj", 0, 1 << 20).events.size() == 201);
  CHECK(book.find("odd", 0, 1 << 20).events.size() == 202);
  CHECK(book.find("nobody", 0, 1 << 20).events.size() == 1);
  std::vector<std::uint64_t> ranks;
  int pages = 0;
  for (std::uint64_t from = 0;; ++pages) {
    const auto page = book.find("odd-13Se1Maqzryj", from, 4000);
    CHECK(page.events.size() <= 12);
    for (const auto& event : page.events) {
      if (event->exit_report) ranks.push_back(event->exit_report->rank);
    }
    if (!page.more) break;
    REQUIRE(page.next > from);
    from = page.next;
  }
  CHECK(pages > 10);
  REQUIRE(ranks.size() == 200);
  for (std::size_t i = 0; i < ranks.size(); ++i) CHECK(ranks[i] == 2 * i + 1);
  // Nobody appends for a log that is not there.
  EventBook none{EventLog()};
  none.add(ended(1));
  none.write();
  CHECK(none.find("", 0, 1 << 20).events.empty());
}

TEST_CASE("event_book: what anybody may cause as often as he likes does not push the rest out") {
  const TempDir dir;
  EventBook book(open_log(dir / "events"));
  for (int i = 0; i < 1000; ++i) {
    wire::EventT event;
    event.kind = wire::EventKind::spawn_refused;
    event.text = "no";
    book.add_limited(std::move(event));
  }
  book.write();
  const auto found = book.find("", 0, 1 << 20).events.size();
  CHECK(found >= 10);
  CHECK(found <= 30);
}

}  // namespace
}  // namespace meshbus::host
