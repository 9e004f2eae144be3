// `meshbus top`: the whole site, once or live on a terminal.
#include <doctest/doctest.h>

#include <csignal>

#include "tests/integration/cli/schema_check.h"
#include "tests/support/golden.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// A mesh of three ranks on a host of its own. Each says a line, the second one something ugly.
struct Site {
  StandingHost host;
  Process run{cli({"run", "--hosts", host.address(), "-n", "3", "--name", "work", "--no-prefix",
                   "--keep-going", "--", "sh", "-c",
                   "printf 'says-%s \\033[31mred\\n' $RANK; exec sleep 120"})};
  json top() const {
    return parse_json(run_cli({"top", "--once", "--json", "--hosts", host.address()}).out);
  }
  Site() {
    INFO(run.describe());
    REQUIRE(wait_until(
        [this] {
          const json view = top();
          if (view.at("meshes").empty()) return false;
          const auto& ranks = view.at("meshes")[0].at("ranks");
          return ranks.size() == 3 && std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) {
                   return rank.at("status") == "ready" && rank.at("last_line") != nullptr;
                 });
        },
        in_time));
  }
};

/// `meshbus top` on a terminal of 80x24, whose keys the test types.
class OnTerminal {
 public:
  explicit OnTerminal(const std::string& host)
      : process_({"script", "-qefc", command(host), "/dev/null"},
                 {.environment = {{"TERM", "vt100"}, {"LINES", "24"}, {"COLUMNS", "80"}},
                  .stdin_pipe = true}) {}
  void type(const std::string& keys) { process_.write_stdin(keys); }
  /// Waits until the text is on the screen. Curses writes only what changes, so the screen is asked
  /// for as a whole, again and again.
  void wait_for(const std::string& text) {
    const auto is_shown = [&] {
      seen_ = process_.out().size();
      type("\x0c");
      return wait_until(
          [&] {
            process_.is_running();
            return process_.out().find(text, seen_) != std::string::npos;
          },
          std::chrono::milliseconds(500));
    };
    const bool is_there = wait_until(is_shown, in_time);
    INFO(process_.describe());
    REQUIRE(is_there);
  }
  Process& process() { return process_; }

 private:
  static std::string command(const std::string& host) {
    std::string line = "stty rows 24 cols 80; exec";
    for (const auto& word : cli({"top", "--period", "100ms", "--hosts", host}))
      line += " '" + word + "'";
    return line;
  }
  Process process_;
  std::size_t seen_ = 0;
};

}  // namespace

TEST_CASE("cli: top --once shows hosts, meshes and ranks, as a table and as JSON") {
  const Site site;
  const auto table = run_cli({"top", "--once", "--hosts", site.host.address()});
  CHECK(table.status == ExitStatus::exited(0));
  CHECK(table.out.find(site.host.address()) != std::string::npos);
  CHECK(table.out.find("3 ready") != std::string::npos);
  // What a rank writes is escaped.
  CHECK(table.out.find("says-1 \\u{1b}[31mred") != std::string::npos);
  CHECK(table.out.find('\x1b') == std::string::npos);

  const auto text = run_cli({"top", "--once", "--json", "--hosts", site.host.address()}).out;
  check_fits(text, "site");
  const json view = parse_json(text);
  const auto& host = view.at("hosts")[0];
  CHECK(host.at("state") == "up");
  CHECK(host.at("live") == 3);
  CHECK(host.at("started") != nullptr);
  CHECK(host.at("cpus") > 0);
  CHECK(host.at("broker").at("peers") >= 2);
  CHECK(view.at("meshes")[0].at("ranks")[1].at("last_line") == "says-1 \x1b[31mred");
  CHECK_FALSE(view.at("events").empty());
}

TEST_CASE("cli: top --once says which host does not answer, and is not slow for it") {
  const Site site;
  const auto both = site.host.address() + ",unix:/no/such/host";
  const auto shown = run_cli({"top", "--once", "--json", "--hosts", both});
  CHECK(shown.status == ExitStatus::exited(1));
  check_fits(shown.out, "site");
  const json view = parse_json(shown.out);
  CHECK(view.at("hosts")[1].at("state") == "lost");
  CHECK(view.at("hosts")[1].at("error") != nullptr);
  CHECK(view.at("meshes")[0].at("ranks").size() == 3);
}

TEST_CASE("cli: top says in a sentence what it cannot do") {
  const auto check = [](const ProcessOptions& options, const Words& words, const char* sentence) {
    const auto refused = run_cli(words, options);
    CHECK(refused.status == ExitStatus::exited(2));
    CHECK(refused.err.find(sentence) != std::string::npos);
    CHECK(lines_of(refused.err).size() == 1);
  };
  const StandingHost host;
  check({}, {"top", "--hosts", host.address()}, "top needs a terminal");
  check({}, {"top", "--json", "--hosts", host.address()}, "add --once");
  check({}, {"top", "--period", "1ms", "--once", "--hosts", host.address()}, "--period");
  for (const std::string name : {"dumb", "no-such-terminal"}) {
    const auto words = cli({"top", "--hosts", host.address()});
    std::string line = "exec";
    for (const auto& word : words) line += " '" + word + "'";
    // libncurses keeps what it has made for a terminal that it does not know.
    const auto shown = run({"script", "-qefc", line, "/dev/null"}, in_time,
                           {.environment = {{"TERM", name}, {"ASAN_OPTIONS", "detect_leaks=0"}}});
    CHECK(shown.status == ExitStatus::exited(2));
    CHECK(shown.out.find("TERM is " + name) != std::string::npos);
  }
}

TEST_CASE("cli: top on a terminal: keys move, filter, ask before they act, and quit") {
  Site site;
  OnTerminal top(site.host.address());
  top.wait_for("says-2");
  // Mesh, then the first rank: stop it.
  top.type("\x1bOB\x1bOB");
  top.type("x");
  top.wait_for("y/N");
  top.type("n");
  top.wait_for("Nothing was done");
  top.type("t");
  top.wait_for("looked at in");
  top.type("q");
  top.type("x");
  top.wait_for("y/N");
  top.type("y");
  REQUIRE(wait_until(
      [&] {
        const json view = site.top();
        const auto& ranks = view.at("meshes")[0].at("ranks");
        return ranks[0].at("status") == "stopped" && ranks[1].at("status") == "ready";
      },
      in_time));
  top.type("?");
  top.wait_for("any key");
  top.type("?");
  top.type("q");
  CHECK(top.process().wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("cli: top shows a rank that is killed, says why, and outlives its host") {
  Site site;
  OnTerminal top(site.host.address());
  top.wait_for("says-2");
  const json view = site.top();
  ::kill(view.at("meshes")[0].at("ranks")[1].at("pid").get<pid_t>(), SIGKILL);
  top.wait_for("SIGKILL");
  top.type("\x1bOB");
  top.type("w");
  top.wait_for("rank 1 (host=0");
  top.type("q");
  site.host.process().send_signal(SIGTERM);
  top.wait_for("lost");
  top.process().send_signal_to_group(SIGTERM);
  top.process().wait_exit(in_time);
}
