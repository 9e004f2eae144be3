#include "common/base/log.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <mutex>
#include <regex>
#include <thread>
#include <vector>

#include "common/config/logging.h"

using namespace std::chrono_literals;
namespace log_front = meshbus::log;
using log_front::Level;

namespace {

/// Collects what is logged in a scope.
class CollectedLines {
 public:
  explicit CollectedLines(Level least) {
    log_front::set_sink(
        [this](Level level, std::string_view text) {
          const std::lock_guard lock(mutex_);
          lines_.push_back(std::string(log_front::to_string(level)) + " " + std::string(text));
        },
        least);
  }
  ~CollectedLines() { log_front::set_sink(nullptr, Level::warn); }
  CollectedLines(const CollectedLines&) = delete;
  CollectedLines& operator=(const CollectedLines&) = delete;
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// Puts a pipe in the place of stderr for a scope.
class StderrPipe {
 public:
  StderrPipe() {
    saved_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    REQUIRE(::pipe2(ends_.data(), O_CLOEXEC) == 0);
    REQUIRE(::dup2(ends_[1], STDERR_FILENO) == STDERR_FILENO);
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~StderrPipe() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  StderrPipe(const StderrPipe&) = delete;
  StderrPipe& operator=(const StderrPipe&) = delete;
  int write_end() const { return ends_[1]; }
  /// What is in the pipe.
  std::string read() {
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t got; (got = ::read(ends_[0], buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<std::size_t>(got));
    return text;
  }

 private:
  int saved_ = -1;
  std::array<int, 2> ends_{};
};

}  // namespace

TEST_CASE("log: lines below the level do not reach the sink") {
  const CollectedLines collected(Level::info);
  log_front::debug("no");
  log_front::info("yes");
  log_front::error("too");
  CHECK(collected.lines() == std::vector<std::string>{"info yes", "error too"});
  CHECK_FALSE(log_front::is_enabled(Level::debug));
  CHECK(log_front::is_enabled(Level::info));
}

TEST_CASE("log: control characters cannot fake a line or move the cursor") {
  const CollectedLines collected(Level::info);
  log_front::info("a\nb\tc\x1b[2Jd\x7f \xc3\xa4");
  CHECK(collected.lines() == std::vector<std::string>{"info a\\nb\\tc\\x1b[2Jd\\x7f \xc3\xa4"});
}

TEST_CASE("log: without a sink, warnings and errors go to stderr") {
  log_front::set_sink(nullptr, Level::trace);
  StderrPipe pipe;
  log_front::info("no");
  log_front::warn("careful");
  log_front::error("broken");
  CHECK(pipe.read() == "meshbus warn: careful\nmeshbus error: broken\n");
}

TEST_CASE("log: names of levels") {
  for (const Level level : {Level::trace, Level::debug, Level::info, Level::warn, Level::error}) {
    CHECK(log_front::find_level(log_front::to_string(level)) == level);
  }
  CHECK_FALSE(log_front::find_level("loud").has_value());
}

TEST_CASE("log: lines of many threads stay whole, while the sink is replaced") {
  std::atomic<int> seen = 0;
  const auto sink = [&](Level, std::string_view text) {
    if (text == "0123456789") ++seen;
  };
  log_front::set_sink(sink, Level::info);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int line = 0; line < 1000; ++line) log_front::info("0123456789");
    });
  }
  for (int i = 0; i < 100; ++i) log_front::set_sink(sink, Level::info);
  for (auto& thread : threads) thread.join();
  CHECK(seen == 4000);
  log_front::set_sink(nullptr, Level::warn);
}

TEST_CASE("line limit: so many a second, then says how many were left out") {
  log_front::LineLimit limit(2);
  const log_front::LineLimit::Time t0{1000s};
  CHECK(limit.on_line(t0) == 0);
  CHECK(limit.on_line(t0 + 100ms) == 0);
  CHECK_FALSE(limit.on_line(t0 + 200ms).has_value());
  CHECK_FALSE(limit.on_line(t0 + 999ms).has_value());
  CHECK(limit.on_line(t0 + 1000ms) == 2);
  CHECK(limit.on_line(t0 + 1001ms) == 0);
  CHECK_FALSE(limit.on_line(t0 + 1002ms).has_value());
  CHECK(limit.on_line(t0 + 1h) == 1);
}

TEST_CASE("limited: a flood becomes a few lines") {
  const CollectedLines collected(Level::warn);
  log_front::Limited limited(3);
  for (int i = 0; i < 1000; ++i) limited.warn("line " + std::to_string(i));
  // Three lines, or six when a second ended meanwhile.
  CHECK(collected.lines().size() >= 3);
  CHECK(collected.lines().size() <= 6);
  CHECK(collected.lines()[2] == "warn line 2");
}

TEST_CASE("write_line: cuts what is too long, and never waits for a reader") {
  StderrPipe pipe;
  CHECK(log_front::write_line(pipe.write_end(), std::string(10000, 'x')));
  const std::string line = pipe.read();
  CHECK(line.size() == 4096);
  CHECK(line.ends_with("x [cut]\n"));
  int lines = 0;
  while (log_front::write_line(pipe.write_end(), std::string(1000, 'x')))
    ++lines;  // returns, although nobody reads
  CHECK(lines > 10);
  CHECK_FALSE(log_front::write_line(-1, "nowhere"));
}

TEST_CASE("write_line: a pipe without a reader raises no signal") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  ::close(ends[0]);
  const auto before = ::signal(SIGPIPE, SIG_DFL);
  CHECK_FALSE(log_front::write_line(ends[1], "to nobody"));
  ::signal(SIGPIPE, before);
  ::close(ends[1]);
}

TEST_CASE("logging: a line has time, role, pid, level and text") {
  StderrPipe pipe;
  meshbus::set_up_logging("bro%ker", Level::debug);
  log_front::trace("no");
  log_front::debug("deep {} %v");
  log_front::warn("text");
  log_front::set_sink(nullptr, Level::warn);
  const std::string role = "bro%ker\\[" + std::to_string(::getpid()) + "\\] ",
                    time = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z )";
  const std::string text = pipe.read();
  CAPTURE(text);
  CHECK(std::regex_match(
      text, std::regex(time + role + "debug: deep \\{\\} %v\\n" + time + role + "warn: text\\n")));
}

TEST_CASE("logging: what nobody reads is left out and counted") {
  StderrPipe pipe;
  meshbus::set_up_logging("broker", Level::info);
  for (int i = 0; i < 1000; ++i)
    log_front::info(std::string(1000, 'x'));  // far more than the pipe holds
  pipe.read();
  log_front::info("last");
  log_front::info("after");
  log_front::set_sink(nullptr, Level::warn);
  const std::string text = pipe.read();
  CAPTURE(text);
  CHECK(std::regex_search(text, std::regex("info: last \\(\\d+ lines before this were left out: "
                                           "nobody read them\\)\\n.*info: after\\n")));
}
