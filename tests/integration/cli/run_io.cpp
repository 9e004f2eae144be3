// `meshbus run`: what goes in and out of ranks, byte for byte (spec 12.2, 10.1).
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <random>

#include "common/base/unique_fd.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// Bytes of every value, zeroes and newlines among them, with no newline at the end.
std::string random_bytes(std::size_t count) {
  std::mt19937_64 random(count);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  bytes.back() = 'x';
  return bytes;
}

/// Whether two large texts are equal, without printing them.
bool is_same(const std::string& one, const std::string& other) {
  if (one == other) return true;
  const auto differ =
      std::mismatch(one.begin(),
                    one.begin() + static_cast<long>(std::min(one.size(), other.size())),
                    other.begin())
          .first;
  MESSAGE("they have " << one.size() << " and " << other.size() << " bytes and differ first at "
                       << differ - one.begin());
  return false;
}

}  // namespace

TEST_CASE("cli: stdin goes to rank 0 and no other, and with --no-prefix every byte comes back") {
  const std::string bytes = random_bytes(1 << 20);
  const auto finished = run_cli({"run", "-n", "3", "--no-prefix", "--", "cat"}, {.input = bytes});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(is_same(finished.out, bytes));
}

TEST_CASE("cli: --stdin all, none, and a rank") {
  const TempDir dir;
  const std::string bytes = random_bytes(300'000);
  const auto read_by = [&](const std::string& who) {
    const auto finished = run_cli(
        {"run", "--hosts", "2", "-n", "3", "--stdin", who, "--", "sh", "-c", "cat >\"$DIR/$RANK\""},
        {.environment = {{"DIR", dir.path().string()}}, .input = bytes});
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(0));
    std::string readers;
    for (const char* rank : {"0", "1", "2"}) {
      const std::string got = read_file(dir / rank);
      CHECK((got.empty() || is_same(got, bytes)));
      if (!got.empty()) readers += rank;
    }
    return readers;
  };
  CHECK(read_by("all") == "012");
  CHECK(read_by("none") == "");
  CHECK(read_by("1") == "1");
}

TEST_CASE("cli: a rank that reads nothing of its stdin, or a part, keeps nobody waiting") {
  const auto finished = run_cli({"run", "-n", "2", "--stdin", "all", "--no-prefix", "--", "sh",
                                 "-c", "[ $RANK = 0 ] && exit; head -c 100000 | wc -c"},
                                {.input = random_bytes(3 << 20)});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out == "100000\n");
  // Nor does a stdin that stays open.
  Process open_input(cli({"run", "--", "true"}), {.stdin_pipe = true});
  CHECK(open_input.wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("cli: stdin is handed on as it comes, not when it ends") {
  Process cat(cli({"run", "--no-prefix", "--", "cat"}), {.stdin_pipe = true});
  cat.write_stdin("one\n");
  cat.wait_for_output("one\n", in_time);
  cat.write_stdin("two\n");
  cat.wait_for_output("two\n", in_time);
  cat.close_stdin();
  CHECK(cat.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(cat.out() == "one\ntwo\n");
}

TEST_CASE("cli: stdout and stderr stay apart, and a last line without newline is not lost") {
  const auto raw = run_cli(
      {"run", "--no-prefix", "--", "sh", "-c", R"(printf 'a\0b\n\nend'; printf 'e\377' >&2)"});
  CHECK(raw.status == ExitStatus::exited(0));
  CHECK(raw.out == std::string("a\0b\n\nend", 8));
  CHECK(raw.err == "e\377");
  const auto prefixed =
      run_cli({"run", "--name", "p", "--", "sh", "-c", R"(printf 'a\n\nend'; printf 'e' >&2)"});
  CHECK(prefixed.out == "[p/0 host=0,proc=0] a\n[p/0 host=0,proc=0] \n[p/0 host=0,proc=0] end\n");
  CHECK(prefixed.err == "[p/0 host=0,proc=0] e\n");
}

TEST_CASE("cli: lines of many ranks are never torn, and those of one stay in order") {
  const auto finished =
      run_cli({"run", "--hosts", "2", "-n", "6", "--name", "p", "--", "sh", "-c",
               R"(i=0; while [ $i -lt 500 ]; do echo "$RANK says $i"; i=$((i+1)); done)"});
  CHECK(finished.status == ExitStatus::exited(0));
  std::map<int, int> next;
  int wrong = 0;
  for (const std::string& line : lines_of(finished.out)) {
    int host = 0, proc = 0, rank = 0, number = 0;
    if (std::sscanf(line.c_str(), "[p/%*d host=%d,proc=%d] %d says %d", &host, &proc, &rank,
                    &number) != 4 ||
        rank != host * 3 + proc || number != next[rank]++)
      ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(next == std::map<int, int>{{0, 500}, {1, 500}, {2, 500}, {3, 500}, {4, 500}, {5, 500}});
}

TEST_CASE("cli: a rank that floods loses no byte, and the failure of another is told") {
  constexpr std::size_t flood = 20 << 20;
  const auto kept = run_cli({"run", "-n", "2", "--keep-going", "--no-prefix", "--", "sh", "-c",
                             "[ $RANK = 1 ] && exit 3; head -c " + std::to_string(flood) +
                                 " /dev/zero | tr '\\0' '0123456789abcde\\n'"});
  CHECK(kept.status == ExitStatus::exited(3));
  CHECK(is_same(kept.out, std::string(flood, '0')));
  CHECK(last_line(kept.err).find("first failure: rank 1 ") != std::string::npos);

  // Without end: only the failure of rank 1 stops it.
  const TempDir dir;
  const auto endless =
      run_cli({"run", "-n", "2", "--", "sh", "-c", R"([ $RANK = 0 ] && exec yes; exit 3)"});
  CHECK(endless.status == ExitStatus::exited(3));
  CHECK(last_line(endless.err).find("first failure: rank 1 ") != std::string::npos);
}

TEST_CASE("cli: what a rank wrote right before its end is there, however it ended") {
  const auto finished =
      run_cli({"run", "-n", "8", "--keep-going", "--no-prefix", "--", "sh", "-c",
               "head -c 60000 /dev/zero | tr '\\0' x; [ $((RANK % 2)) = 0 ] || kill -9 $$"});
  CHECK(finished.status == ExitStatus::exited(137));
  CHECK(is_same(finished.out, std::string(8 * 60000, 'x')));
}

TEST_CASE("cli: every argument arrives as it was, and -- is not needed") {
  const auto exact = run_cli({"run", "--no-prefix", "--", "printf", "%s|", "", "a b", "x\ny",
                              "\u00fc", "\"", "'", "$RANK", "--hosts", "--"});
  CHECK(exact.out == "|a b|x\ny|\u00fc|\"|'|$RANK|--hosts|--|");
  const auto without = run_cli({"run", "--no-prefix", "-n", "2", "echo", "-n", "hi"});
  CHECK(without.status == ExitStatus::exited(0));
  CHECK(without.out == "hihi");
  const std::string large(100'000, 'x');
  CHECK(run_cli({"run", "--no-prefix", "--", "printf", "%s", large}).out == large);
}

TEST_CASE("cli: a launcher with closed stdin, stdout or stderr runs its ranks all the same") {
  const TempDir dir;
  const auto run_with = [&](const std::string& closed) {
    std::filesystem::remove(dir / "seen");
    std::string line = "exec";
    for (const std::string& word :
         cli({"run", "--no-prefix", "--", "sh", "-c",
              "echo out; echo err >&2; cat; ls -l /proc/self/fd/ >" + (dir / "seen") + "; exit 3"}))
      line += " '" + word + "'";
    const auto finished = run({"sh", "-c", line + " " + closed}, in_time);
    INFO(closed << "\n" << finished.err);
    CHECK(finished.status == ExitStatus::exited(3));
    CHECK(finished.out == (closed.find(" >&-") == std::string::npos ? "out\n" : ""));
    if (closed.find("2>&-") == std::string::npos)
      CHECK(finished.err.find("err\n") != std::string::npos);
    CHECK(std::filesystem::exists(dir / "seen"));
  };
  for (const char* closed : {"<&-", " >&-", "2>&-", "<&-  >&- 2>&-"}) run_with(closed);
}

TEST_CASE("cli: when nobody reads the output any more, the run ends") {
  const auto finished =
      run({"bash", "-c", bin("meshbus") + " run -- yes | head -1; echo ${PIPESTATUS[0]}"}, in_time);
  INFO(finished.err);
  CHECK(finished.out == "[yes/0 host=0,proc=0] y\n141\n");
}

namespace {

/// A run whose stdout is a pipe that nobody reads until it is asked to.
class UnreadRun {
 public:
  explicit UnreadRun(const Words& words) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
    std::string line = "exec";
    for (const std::string& word : cli(words)) line += " '" + word + "'";
    const std::string number = std::to_string(writer_.get());
    process_ =
        std::make_unique<Process>(Words{"sh", "-c", line + " >&" + number + " " + number + ">&-"},
                                  ProcessOptions{.inherit = {writer_.get()}});
  }
  void wait_until_full() {
    INFO(process_->describe());
    REQUIRE(wait_until(
        [&] {
          pollfd ready{writer_.get(), POLLOUT, 0};
          return ::poll(&ready, 1, 0) == 0;
        },
        in_time));
  }
  /// Reads all that comes until the run ends.
  std::string read_all() {
    writer_.reset();
    std::string text;
    const auto is_at_end = [&] {
      std::vector<char> bytes(1 << 16);
      pollfd ready{reader_.get(), POLLIN, 0};
      while (::poll(&ready, 1, 0) == 1) {
        const ssize_t got = ::read(reader_.get(), bytes.data(), bytes.size());
        if (got <= 0) return true;
        text.append(bytes.data(), static_cast<std::size_t>(got));
      }
      return false;
    };
    CHECK(wait_until(is_at_end, in_time));
    return text;
  }
  Process& process() { return *process_; }

 private:
  meshbus::UniqueFd reader_, writer_;
  std::unique_ptr<Process> process_;
};

}  // namespace

TEST_CASE("cli: output that nobody reads does not keep a signal from ending the run") {
  const std::string word = "cli-unread-" + std::to_string(::getpid()), other = word + "-again";
  UnreadRun run({"run", "-n", "2", "--grace", "200ms", "--", "yes", word});
  run.wait_until_full();
  run.process().send_signal(SIGINT);
  // The ranks at once, the launcher when it has given its reader some time.
  CHECK(wait_until([&] { return sleepers("yes " + word).empty(); }, 5s));
  CHECK(run.process().wait_exit(20s) == ExitStatus::exited(130));

  UnreadRun again({"run", "--grace", "200ms", "--", "yes", other});
  again.wait_until_full();
  again.process().send_signal(SIGTERM);
  CHECK(wait_until([&] { return sleepers("yes " + other).empty(); }, 5s));
  again.process().send_signal(SIGTERM);
  CHECK(again.process().wait_exit(4s) == ExitStatus::exited(143));
}

TEST_CASE(
    "cli: output that nobody reads does not hold up a failure, and is all there when somebody "
    "reads again") {
  const std::string word = "cli-unread-failure-" + std::to_string(::getpid());
  const TempDir dir;
  UnreadRun run({"run", "-n", "2", "--no-prefix", "--", "sh", "-c",
                 "[ $RANK = 0 ] && exec yes " + word + "; until [ -e " + (dir / "go") +
                     " ]; do sleep 0.02; done; exit 3"});
  run.wait_until_full();
  CHECK(sleepers("yes " + word).size() == 1);
  dir.write("go", "");
  CHECK(wait_until([&] { return sleepers("yes " + word).empty(); }, 5s));
  CHECK(run.process().is_running());
  const std::string text = run.read_all();
  CHECK(run.process().wait_exit(in_time) == ExitStatus::exited(3));
  CHECK(text.size() > 100'000);
  const Words lines = lines_of(text);
  CHECK(std::count(lines.begin(), lines.end() - 1, word) == static_cast<long>(lines.size()) - 1);
}

TEST_CASE("cli: spec 12.7: colours and escapes are for terminals, and NO_COLOR turns colours off") {
  const auto on_terminal = [](const std::string& flags, std::vector<std::string> more) {
    Words words = {"env", "-u", "NO_COLOR", "TERM=xterm"};
    words.insert(words.end(), more.begin(), more.end());
    std::string command;
    for (const auto& word : cli({"run", "-n", "1"})) command += word + " ";
    command += flags + " -- printf 'a\\033[32mb\\n\\033[2Jc\\n'";
    words.insert(words.end(), {"script", "-qec", command, "/dev/null"});
    const auto finished = run(words, in_time);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(0));
    return finished.out;
  };
  const std::string prefix = "[printf/0 host=0,proc=0] ";
  CHECK(on_terminal("", {}) == "\x1b[36m" + prefix + "\x1b[0ma\x1b[32mb\x1b[0m\r\n" + "\x1b[36m" +
                                   prefix + "\x1b[0m\\u{1b}[2Jc\r\n");
  CHECK(on_terminal("", {"NO_COLOR=1"}) ==
        prefix + "a\x1b[32mb\x1b[0m\r\n" + prefix + "\\u{1b}[2Jc\r\n");
  CHECK(on_terminal("--no-prefix", {}) == "a\x1b[32mb\r\n\x1b[2Jc\r\n");
  const auto piped = run_cli({"run", "-n", "1", "--", "printf", "\\033[2Jc\\n"});
  CHECK(piped.out == prefix + "\x1b[2Jc\n");
}
