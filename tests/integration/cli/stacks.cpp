// `meshbus stacks`: where the threads of ranks are (spec 17.4).
#include <doctest/doctest.h>
#include <sched.h>

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/integration/needs.h"
#include "tests/support/open_dir.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace fs = std::filesystem;

namespace {

/// A run of a Python program, whose ranks have said "up".
Process start_python(const TempDir& folder, int ranks, const std::string& source,
                     Words options = {}) {
  const auto script = folder.path() / "hang.py";
  std::ofstream(script) << source;
  Words words{"run", "-n", std::to_string(ranks)};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "/usr/bin/python3", script.string()});
  return Process(cli(words));
}

void wait_for_up(Process& run, std::size_t ranks) {
  INFO(run.describe());
  REQUIRE(wait_until(
      [&] {
        std::size_t up = 0;
        for (const auto& line : lines_of(run.out())) {
          if (line.ends_with("up")) ++up;
        }
        return up == ranks;
      },
      in_time));
}

/// A run of test_hang, whose ranks have said "up".
Process start_hang(int ranks, const Words& what, Words options = {}) {
  Words words{"run", "-n", std::to_string(ranks)};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", bin("test_hang")});
  words.insert(words.end(), what.begin(), what.end());
  return Process(cli(words));
}

/// What `meshbus stacks --json` says when exactly one rank is odd. "up" is said a moment before the
/// wait.
nlohmann::json look_until_one_is_odd(const Words& options = {}) {
  Words words = {"stacks", "--json"};
  words.insert(words.end(), options.begin(), options.end());
  nlohmann::json json;
  const auto is_there = [&] {
    const auto finished = run_cli(words);
    INFO(finished.err);
    REQUIRE(finished.status == ExitStatus::exited(0));
    json = parse_json(finished.out);
    return json.at("odd").size() == 1;
  };
  REQUIRE_MESSAGE(wait_until(is_there, in_time), json.dump(1));
  return json;
}

std::string where(const nlohmann::json& json) {
  return json.at("odd")[0].at("where").get<std::string>();
}

void end(Process& run) {
  CHECK(run.is_running());
  run.send_signal(SIGTERM);
  CHECK(run.wait_exit(in_time) == ExitStatus::exited(143));
}

/// The functions of a stack, the innermost first.
std::string functions_of(const nlohmann::json& stack) {
  std::string text;
  for (const auto& frame : stack.at("frames"))
    text += frame.at("function").get<std::string>() + " ";
  return text;
}

/// Rank 2 waits for a pipe, the others for a lock that their other thread holds.
constexpr char kHang[] = R"(import os, threading, time
lock = threading.Lock()
class Loader:
    def load(self):
        os.read(os.pipe()[0], 1)
def holder():
    with lock:
        held.set()
        time.sleep(1000)  # sleep-ok: this is the hang
def reduce():
    with lock:
        pass
held = threading.Event()
threading.Thread(target=holder, daemon=True).start()
held.wait()
print("up", flush=True)
if os.environ["RANK"] == "2":
    Loader().load()
else:
    reduce()
)";

}  // namespace

TEST_CASE("cli: stacks names the rank that hangs elsewhere, in Python, and where" *
          doctest::test_suite(need::stacks)) {
  const TempDir folder;
  auto run = start_python(folder, 4, kHang);
  wait_for_up(run, 4);
  const auto json = look_until_one_is_odd();
  CHECK(json.at("odd")[0].at("ranks") == "2");
  CHECK(has(where(json), "Loader.load (hang.py:5)"));
  CHECK(has(where(json), "read(pipe)"));
  bool has_most = false;
  for (const auto& stack : json.at("stacks")) {
    if (stack.at("ranks") != "0-1,3") continue;
    has_most = has_most || has(functions_of(stack), "reduce <module> ");
  }
  CHECK_MESSAGE(has_most, json.dump(1));
  CHECK(has(run_cli({"stacks"}).out, "rank 2, unlike most: Loader.load (hang.py:5)"));
  const auto kernel = parse_json(run_cli({"stacks", "--kernel-only", "--json"}).out);
  for (const auto& stack : kernel.at("stacks")) CHECK(stack.at("frames").empty());
  // The ranks are none the worse for it.
  end(run);
}

TEST_CASE("cli: stacks names the rank that hangs elsewhere, in C, in a lock, in the kernel" *
          doctest::test_suite(need::stacks)) {
  const auto check = [](const std::string& how, const Words& parts) {
    CAPTURE(how);
    auto run = start_hang(4, {"1", how});
    wait_for_up(run, 4);
    const auto json = look_until_one_is_odd();
    CHECK(json.at("odd")[0].at("ranks") == "1");
    for (const auto& part : parts) {
      CAPTURE(part);
      CHECK_MESSAGE(has(where(json), part), json.dump(1));
    }
    end(run);
  };
  check("read", {"wait_for_data (test_hang)", "read(pipe)"});
  check("spin", {"solve (test_hang)", "runs"});
  check("lock", {"update_table (test_hang)", "waits for a mutex that thread saver holds"});
  check("vfork", {"vfork", "uninterruptible"});
}

TEST_CASE("cli: stacks of ranks that do all the same has no odd ones, and shows them once" *
          doctest::test_suite(need::stacks)) {
  auto run = start_hang(16, {"-1", "none"}, {"--hosts", "2"});
  wait_for_up(run, 16);
  nlohmann::json json;
  REQUIRE(wait_until(
      [&] {
        json = parse_json(run_cli({"stacks", "--json"}).out);
        return json.at("stacks").size() == 1;
      },
      in_time));
  CHECK(json.at("odd").empty());
  CHECK(json.at("problems").empty());
  CHECK(json.at("stacks")[0].at("ranks") == "0-15");
  CHECK(has(functions_of(json.at("stacks")[0]), "reduce_all main"));
  const auto some = parse_json(run_cli({"stacks", "test_hang[3,8-9]", "--json"}).out);
  CHECK(some.at("stacks")[0].at("ranks") == "3,8-9");
  end(run);
}

TEST_CASE("cli: stacks needs the role operate, and is in the audit trail" *
          doctest::test_suite(need::stacks)) {
  const TempDir keys;
  for (const Words& who :
       {Words{"host", "127.0.0.1"}, Words{"operator", "alice"}, Words{"observer", "eve"}}) {
    Words words = {"keygen", "--dir", keys.path().string()};
    words.insert(words.end(), who.begin(), who.end());
    REQUIRE(run_cli(words).status == ExitStatus::exited(0));
  }
  const auto as = [&](const std::string& name) {
    ProcessOptions options{.environment = {{"MESHBUS_KEYS_DIRECTORY", keys.path().string()}}};
    if (!name.empty()) options.environment.emplace_back("MESHBUS_KEYS_OWN", keys / (name + ".key"));
    return options;
  };
  const StandingHost host({"--bind", "tcp:127.0.0.1:0"}, as(""));
  Process run(
      cli({"run", "--hosts", host.address(), "-n", "2", "--", bin("test_hang"), "-1", "none"}),
      as("alice"));
  wait_for_up(run, 2);
  const auto refused = run_cli({"stacks", "--hosts", host.address()}, as("eve"));
  CHECK(refused.status == ExitStatus::exited(1));
  INFO(refused.err);
  CHECK(has(refused.err, "role"));
  CHECK_FALSE(has(refused.out, "reduce_all"));
  const auto seen = run_cli({"stacks", "--hosts", host.address()}, as("alice"));
  CHECK(seen.status == ExitStatus::exited(0));
  CHECK(has(seen.out, "reduce_all (test_hang)"));
  const auto trail =
      parse_json(run_cli({"audit", "--hosts", host.address(), "--json"}, as("alice")).out);
  Words looks;
  for (const auto& entry : trail.at("entries")) {
    if (entry.at("verb") == "stacks")
      looks.push_back(entry.at("by").get<std::string>() + ": " +
                      entry.at("outcome").get<std::string>().substr(0, 7));
  }
  CHECK(looks == Words{"observer eve: refused", "operator alice: ok"});
  end(run);
}

TEST_CASE("attacks: stacks: root parses nothing that a rank of another user controls" *
          doctest::test_suite(need::stacks)) {
  if (!is_met(need::root)) return;
  // As long as that user can read the program its functions have names. Root always could.
  const OpenDir folder;
  const auto& place = folder.path();
  fs::copy_file(bin("test_hang"), place / "test_hang");
  Process run(
      cli({"run", "-n", "2", "--uid", "4711", "--", (place / "test_hang").string(), "-1", "none"}));
  wait_for_up(run, 2);
  const auto seen = run_cli({"stacks"});
  INFO(seen.out << seen.err);
  CHECK(seen.status == ExitStatus::exited(0));
  CHECK(has(seen.out, "reduce_all (test_hang)"));
  REQUIRE(::chmod(place.c_str(), 0700) == 0);
  const auto closed = run_cli({"stacks"});
  INFO(closed.out << closed.err);
  CHECK(closed.status == ExitStatus::exited(0));
  CHECK_FALSE(has(closed.out, "reduce_all"));
  // A process of that user below a rank of root is left to that user, too.
  end(run);
  REQUIRE(::chmod(place.c_str(), 0755) == 0);
  Process mixed(cli({"run", "--", "sh", "-c",
                     "setpriv --reuid=4711 --regid=4711 --clear-groups " +
                         (place / "test_hang").string() + " -1 none; exit"}));
  wait_for_up(mixed, 1);
  const auto both = parse_json(run_cli({"stacks", "--json"}).out);
  CHECK(both.at("stacks").size() == 2);
  CHECK(both.dump().find("reduce_all") != std::string::npos);
  CHECK(both.dump().find("sh/test_hang") != std::string::npos);
  end(mixed);
}

TEST_CASE("cli: run --timeout and Ctrl-\\ say where the ranks are, also in the report" *
          doctest::test_suite(need::stacks)) {
  const TempDir folder;
  const auto report = (folder.path() / "report.json").string();
  auto run = start_python(folder, 3, kHang, {"--timeout", "20s", "--json", report});
  wait_for_up(run, 3);
  run.send_signal(SIGQUIT);
  REQUIRE(wait_until([&] { return run.err().find("Loader.load") != std::string::npos; }, in_time));
  CHECK(run.err().find("Ctrl-\\: this is where the ranks are") != std::string::npos);
  CHECK(run.wait_exit(in_time) == ExitStatus::exited(124));
  CHECK(run.err().find("the --timeout is over: this is where the ranks are") != std::string::npos);
  std::ifstream file(report);
  const auto json = nlohmann::json::parse(file);
  REQUIRE(json.at("stacks").size() == 2);
  CHECK(json.at("stacks")[1].at("why") == "the --timeout is over");
  CHECK(json.at("stacks")[1].at("odd")[0].at("ranks") == "2");
}

TEST_CASE("cli: run --stall-after says where a job hangs, and lets one alone whose children work" *
          doctest::test_suite(need::stacks)) {
  const TempDir folder;
  auto run = start_python(folder, 3, kHang, {"--stall-after", "3s", "--stall-stop"});
  wait_for_up(run, 3);
  CHECK(run.wait_exit(in_time) == ExitStatus::exited(124));
  INFO(run.err());
  CHECK(
      run.err().find("stalled: no rank has written anything, used CPU time or told of progress for "
                     "3000 ms; "
                     "unlike most, rank 2: Loader.load (hang.py:5)") != std::string::npos);
  // The shell sleeps in wait4 for all that time.
  const auto busy = run_cli({"run", "--stall-after", "2s", "--stall-stop", "--", "sh", "-c",
                             "timeout 7 sh -c 'while :; do :; done'; exit 5"});
  CHECK(busy.status == ExitStatus::exited(5));
  CHECK(busy.err.find("stalled") == std::string::npos);
}

TEST_CASE("cli: progress beats keep --stall-after silent, from a shell, C and the command" *
          doctest::test_suite(need::stacks)) {
  // Each says that it makes progress for 8 s, and does not do much else.
  const std::string shell = "for i in $(seq 20); do : > \"$MESHBUS_PROGRESS\"; sleep 0.4; done";
  const std::string command =
      "for i in $(seq 10); do " + bin("meshbus") + " progress; sleep 0.4; done";
  for (const auto& words : {Words{"sh", "-c", shell}, Words{"sh", "-c", command},
                            Words{bin("test_hang"), "0", "beat"}}) {
    Words all = {"run", "--stall-after", "2s", "--stall-stop", "--"};
    all.insert(all.end(), words.begin(), words.end());
    const auto finished = run_cli(all);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(0));
    CHECK_FALSE(has(finished.err, "stalled"));
  }
  const auto none = run_cli({"progress"});
  CHECK(none.status == ExitStatus::exited(2));
  CHECK(has(none.err, "this is no rank of a mesh"));
}

TEST_CASE("cli: run says where a rank is that its host has found frozen" *
          doctest::test_suite(need::stacks)) {
  const TempDir dir;
  const auto report = (dir.path() / "report.json").string();
  Process run(cli({"run", "--mesh", "-n", "2", "--json", report, "--set", "heartbeat=500ms",
                   "--set", "session.away=4s", "--", bin("echo_proc"), dir.path().string()}));
  nlohmann::json ranks;
  const auto are_ready = [&] {
    const auto listed = run_cli({"ps", "--json"});
    if (listed.status != ExitStatus::exited(0)) return false;
    const auto meshes = parse_json(listed.out).at("meshes");
    if (meshes.size() != 1) return false;
    ranks = meshes[0].at("ranks");
    return ranks.size() == 2 && ranks[0].at("status") == "ready" &&
           ranks[1].at("status") == "ready";
  };
  REQUIRE(wait_until(are_ready, in_time));
  const auto pid = ranks[1].at("pid").get<pid_t>();
  REQUIRE(::kill(pid, SIGSTOP) == 0);
  const auto is_told = [&] { return has(run.err(), "this is where the ranks are"); };
  REQUIRE(wait_until(is_told, in_time));
  CHECK(has(run.err(), "rank 1 is frozen: stopped by a signal"));
  CHECK(::kill(pid, SIGCONT) == 0);
  end(run);
  CHECK(parse_json(read_file(report)).at("stacks").size() == 1);
}

TEST_CASE("cli: --stall-after gives no false alarm on a loaded machine" *
          doctest::test_suite(need::stacks)) {
  // Each rank gets a small part of a CPU, writes nothing, and waits for its children only.
  const auto finished = run_cli({"run", "-n", "24", "--stall-after", "1s", "--stall-stop", "--",
                                 "sh", "-c", "timeout 8 nice sh -c 'while :; do :; done'; exit 0"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK_FALSE(has(finished.err, "stalled"));
}

TEST_CASE("cli: stacks of a rank that hardly gets a CPU are shown" *
          doctest::test_suite(need::real_time)) {
  if (!is_met(need::stacks)) return;
  auto run = start_hang(1, {"0", "none"}, {"--cpu-set", "1"});
  wait_for_up(run, 1);
  // CPU 1 is taken for 200 ms, and free for 10 ms.
  Process other({"perl", "-MTime::HiRes=time,sleep", "-e",
                 "alarm 60; while (1) { my $end = time + 0.2; 1 while time < $end; sleep 0.01 }"});
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(1, &one);
  REQUIRE(::sched_setaffinity(other.pid(), sizeof one, &one) == 0);
  const sched_param first{.sched_priority = 1};
  REQUIRE(::sched_setscheduler(other.pid(), SCHED_FIFO, &first) == 0);
  for (int i = 0; i < 5; ++i) {
    const auto looked = run_cli({"stacks"});
    INFO(looked.out, looked.err);
    CHECK(looked.status == ExitStatus::exited(0));
    CHECK(has(looked.out, "main"));
    CHECK_FALSE(has(looked.out, "does not stop"));
  }
  ::kill(other.pid(), SIGKILL);
  end(run);
}
