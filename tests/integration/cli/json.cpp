// `--json` of every command is as its schema in share/schemas says (spec 12.8).
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/integration/cli/schema_check.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// "mesh show" of meshbus-mesh-show.1, and what the page says.
std::map<std::string, std::string> manual() {
  const TempDir dir;
  const auto made = run_cli({"help", "--man", dir.path().string()});
  INFO(made.err);
  REQUIRE(made.status == ExitStatus::exited(0));
  std::map<std::string, std::string> pages;
  for (const auto& file : std::filesystem::directory_iterator(dir.path())) {
    auto name = file.path().stem().string();
    name.erase(0, name.find('-') + 1);
    std::replace(name.begin(), name.end(), '-', ' ');
    pages[name] = content_of(file.path());
  }
  return pages;
}

/// Runs commands with --json on hosts, and keeps what they print for their schemas.
class Contract {
 public:
  explicit Contract(std::string hosts) : hosts_(std::move(hosts)) {}

  /// `meshbus VERB WORDS... --json`; `verb` may be two words.
  Finished ask(const std::string& verb, const Words& words, int code = 0,
               const std::string& schema = "") {
    std::istringstream split(verb);
    Words all;
    for (std::string word; split >> word;) all.push_back(word);
    const std::string file = schema.empty() ? all.front() : schema;
    all.push_back("--json");
    all.insert(all.end(), words.begin(), words.end());
    auto finished = run_cli(all, {.environment = environment_});
    INFO(verb << "\n" << finished.out << finished.err);
    CHECK(finished.status == ExitStatus::exited(code));
    add(verb, file, finished.out);
    return finished;
  }
  Finished on_hosts(const std::string& verb, Words words, int code = 0,
                    const std::string& schema = "") {
    words.insert(words.begin(), {"--hosts", hosts_});
    return ask(verb, words, code, schema);
  }
  /// For the commands from here on.
  void set(const std::string& variable, const std::string& value) {
    environment_.emplace_back(variable, value);
  }
  void add(const std::string& verb, const std::string& schema, const std::string& text) {
    check_.add(verb, schema, text);
    seen_.insert(verb);
  }
  const SchemaCheck& check() const { return check_; }
  const std::set<std::string>& seen() const { return seen_; }

 private:
  std::string hosts_;
  decltype(ProcessOptions::environment) environment_;
  SchemaCheck check_;
  std::set<std::string> seen_;
};

/// A job that failed, and meshes that live.
void ask_about_jobs(Contract& contract, const std::string& host, const TempDir& dir) {
  const auto job =
      run_cli({"run", "--hosts", host, "-n", "2", "--name", "ended", "--bind", "core", "--json",
               dir / "run.json", "--", "sh", "-c", "echo out; echo err >&2; exit $RANK"});
  INFO(job.err);
  CHECK(job.status == ExitStatus::exited(1));
  contract.add("run", "run", content_of(dir / "run.json"));
  const auto refused = run_cli({"run", "--hosts", "unix:/nowhere/bus", "-n", "1", "--json",
                                dir / "refused.json", "--", "true"});
  CHECK(refused.status == ExitStatus::exited(125));
  contract.add("run", "run", content_of(dir / "refused.json"));
  const auto several = run_cli({"run", "--hosts", host, "--json", dir / "several.json", "--name",
                                "good", "--", "true", ":", "--name", "bad", "--", "false"});
  INFO(several.err);
  CHECK(several.status == ExitStatus::exited(1));
  contract.add("run", "run", content_of(dir / "several.json"));
  contract.on_hosts("why", {"bad"});
  contract.on_hosts("why", {"ended"});
  contract.on_hosts("why", {"end*"});
  contract.on_hosts("logs", {"ended"});
  contract.on_hosts("logs", {"ended", "--fold"});
  contract.on_hosts("status", {"ended"});
  contract.on_hosts("audit", {});

  SleepingJob live(host, "live", 2);
  contract.on_hosts("ps", {"--all"});
  contract.on_hosts("top", {"--once"}, 0, "site");
  contract.on_hosts("stacks", {"live"});
  contract.on_hosts("stacks", {"li*"});
  contract.on_hosts("signal", {"CONT", "live"});
  contract.on_hosts("chaos", {"--ranks", "live", "--kinds", "freeze", "--every", "1s", "--for",
                              "200ms", "--hold", "200ms", "--settle", "1s"});
  contract.on_hosts("exec", {"live", "--", "sh", "-c", "echo $RANK; echo err >&2; exit 3"}, 3);
  contract.on_hosts("exec", {"live[0]", "--", "sh", "-c", "kill -9 $$"}, 137);
  contract.on_hosts("exec", {"live[1]", "--", "/no/such/program"}, 127);
  std::ofstream(dir / "file") << "content";
  contract.on_hosts("cp", {dir / "file", "live:" + (dir / "copied")});
  contract.on_hosts("cp", {"live:/no/such/file", dir.path().string()}, 1);
  contract.on_hosts("grow", {"live"}, 0, "resize");
  contract.on_hosts("shrink", {"live"}, 0, "resize");
  contract.on_hosts("stop", {"live"});
}

void ask_ranks(Contract& contract, const std::string& host) {
  Process run(cli({"run", "--hosts", host, "-n", "2", "--name", "talk", "--mesh", "--",
                   bin("meshbus_test_actors")}));
  INFO(run.describe());
  REQUIRE(wait_until(
      [&] {
        return run_cli({"status", "--hosts", host, "talk", "--wait", "running"}).status ==
               ExitStatus::exited(0);
      },
      in_time));
  contract.on_hosts("call", {"talk", "1", "hello"});
  contract.on_hosts("call", {"talk", "4711", "hello"}, 1);
  contract.on_hosts("call", {"talk", "--actor", "none", "--reduce", "sum", "7"}, 1);
  contract.on_hosts("cast", {"talk", "1", "hello"});
  contract.on_hosts("config", {"talk"});
  run.send_signal(SIGTERM);
  run.wait_exit(in_time);
}

void ask_controllers(Contract& contract, const StandingHost& host) {
  Process controller({bin("meshbus-controller"), "--hosts", host.address()});
  StandingHost other;
  const std::string both = other.address() + "," + host.address();
  Process second({bin("meshbus-controller"), "--hosts", both});
  contract.on_hosts("spawn", {"--wait-for-controller", "kept", "-n", "2", "--", "sleep", "300"});
  Process watch(cli({"watch", "--json", "--hosts", host.address(), "kept"}));
  REQUIRE(wait_until([&] { return watch.out().find("\"rank\":1") != std::string::npos; }, in_time));
  contract.on_hosts("controller list", {});
  contract.on_hosts("controller show", {});
  contract.ask("controller own",
               {"--hosts", both, "--to", other.address(), "--detach", "--wait-for-controller"});
  contract.ask("controller handover", {"kept", "--hosts", both, "--to", other.address()});
  contract.on_hosts("stop", {"kept"});
  REQUIRE(wait_until([&] { return watch.out().find("\"ended\"") != std::string::npos; }, in_time));
  watch.wait_exit(in_time);
  contract.ask("controller stop", {other.address(), "--hosts", both});
  contract.add("watch", "watch", watch.out());
  contract.add("watch", "watch", controller.out());
}

void ask_without_hosts(Contract& contract, const TempDir& dir) {
  contract.ask("keygen", {"--dir", dir.path().string(), "operator", "alice"});
  contract.ask("keygen", {"--dir", dir.path().string(), "host", "127.0.0.1"});
  contract.ask("config", {});
  contract.ask("version", {});
  contract.ask("mesh show", {"host=2/4,gpu=4/1"});
  contract.ask("mesh ranks", {"host=2/4,gpu=4/1"});
  contract.ask("mesh group", {"host=2/4,gpu=4/1", "gpu"});
  contract.ask("mesh slice", {"m:local:1,local:2@host=2/1", "host=1"});
  contract.ask("mesh merge", {"0..5=A,5..10=B", "3..7=C"});
  contract.set("XDG_CONFIG_HOME", dir.path().string());
  CHECK(run_cli({"context", "add", "lab", "--hosts", "tcp:h[1-2]:7420", "--set", "lease=5m"},
                {.environment = {{"XDG_CONFIG_HOME", dir.path().string()}}})
            .status == ExitStatus::exited(0));
  contract.ask("context list", {});
  contract.ask("context show", {"lab"});
  for (const std::string verb : {"rtt", "throughput", "fanout", "link", "peers", "cast"}) {
    Words words;
    if (verb == "throughput" || verb == "link") words = {"--duration", "50ms"};
    if (verb == "rtt" || verb == "link" || verb == "fanout" || verb == "cast")
      words.insert(words.end(), {"--count", "5"});
    if (verb == "fanout" || verb == "cast") words.insert(words.end(), {"--peers", "3"});
    if (verb == "peers")
      words = {"20"};
    else
      words.insert(words.end(), {"--sizes", "64"});
    contract.ask("bench " + verb, words);
  }
}

}  // namespace

TEST_CASE("cli: --json of every command is as its schema says") {
  const TempDir dir;
  StandingHost host({"--set", "chaos.allowed=true"});
  Contract contract(host.address());
  Process tap(cli({"tap", "--json", "--host", host.address(), "--count", "20", "--bodies", "16"}));
  REQUIRE(wait_until([&] { return tap.err().find("tapping") != std::string::npos; }, in_time));
  contract.on_hosts("ping", {});
  ask_about_jobs(contract, host.address(), dir);
  tap.wait_exit(in_time);
  contract.add("tap", "tap", tap.out());
  ask_ranks(contract, host.address());
  ask_controllers(contract, host);
  ask_without_hosts(contract, dir);
  contract.on_hosts("doctor", {});
  contract.on_hosts("upgrade", {});
  contract.on_hosts("upgrade", {"--programs", "/no/such/folder"}, 1);
  contract.on_hosts("drain", {});
  contract.on_hosts("shutdown", {});
  contract.check().finish();

  // No command with --json is left out.
  std::set<std::string> all;
  for (const auto& [name, page] : manual()) {
    if (page.find("\n.B \\-\\-json") != std::string::npos) all.insert(name);
  }
  std::string missing;
  for (const auto& name : all) {
    if (!contract.seen().contains(name)) missing += name + "\n";
  }
  CHECK(missing == "");
  CHECK(all.size() > 30);
}
