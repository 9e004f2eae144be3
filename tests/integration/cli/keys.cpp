// `meshbus keygen`, and hosts that are reached over tcp with keys.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

namespace fs = std::filesystem;

Words keygen(const TempDir& dir, const Words& words) {
  Words all = {"keygen", "--dir", dir.path().string()};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

void make_keys(const TempDir& dir, const Words& words) {
  const auto made = run_cli(keygen(dir, words));
  INFO(made.err);
  REQUIRE(made.status == ExitStatus::exited(0));
}

/// The secret half in a key file.
std::string secret_in(const std::string& path) {
  const auto text = read_file(path);
  const auto at = text.find("secret-key ");
  REQUIRE(at != std::string::npos);
  return text.substr(at + 11, 40);
}

/// Run with these keys, as that holder.
ProcessOptions as(const TempDir& dir, const std::string& name) {
  return {.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()},
                          {"MESHBUS_KEYS_OWN", dir / (name + ".key")}}};
}

}  // namespace

TEST_CASE("cli: keygen makes keys where hosts look for them, and shows no secret") {
  TempDir dir;
  const auto made = run_cli(keygen(dir, {"--json", "host", "h1", "10.0.0.2:7420"}));
  INFO(made.err);
  REQUIRE(made.status == ExitStatus::exited(0));
  const auto told = parse_json(made.out);
  REQUIRE(told.size() == 2);
  CHECK(told[0].at("secret") == dir / "h1.key");
  CHECK(told[1].at("public") == dir / "authorised/host/10.0.0.2:7420.pub");
  CHECK_FALSE(has(made.out + made.err, secret_in(dir / "h1.key")));
  struct stat status{};
  REQUIRE(::stat((dir / "h1.key").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const std::string first = told[0].at("keys")[0];
  CHECK(has(read_file(dir / "authorised/host/h1.pub"), "public-key " + first + "\n"));

  const auto again = run_cli(keygen(dir, {"host", "h1"}));
  CHECK(again.status == ExitStatus::exited(125));
  CHECK(has(again.err, "--if-missing leaves it, --rotate"));
  make_keys(dir, {"--if-missing", "host", "h1", "h3"});
  CHECK(has(read_file(dir / "authorised/host/h1.pub"), first));
  CHECK(fs::exists(dir / "h3.key"));

  make_keys(dir, {"--rotate", "host", "h1"});
  const auto both = lines_of(read_file(dir / "authorised/host/h1.pub"));
  REQUIRE(both.size() == 3);
  CHECK(both[2] == "public-key " + first);
  make_keys(dir, {"--retire", "host", "h1"});
  const auto one = lines_of(read_file(dir / "authorised/host/h1.pub"));
  REQUIRE(one.size() == 2);
  CHECK(one[1] == both[1]);

  for (const Words& wrong : {Words{"king", "alice"},
                             {"operator"},
                             {"operator", "../alice"},
                             {"--rotate", "--retire", "host", "h1"}})
    CHECK(run_cli(keygen(dir, wrong)).status == ExitStatus::exited(2));
  CHECK(has(run_cli(keygen(dir, {"--rotate", "operator", "alice"})).err,
            "there is no key to replace"));
  // A key of that name that was made elsewhere.
  make_keys(dir, {"operator", "zoe"});
  fs::remove(dir / "zoe.key");
  CHECK(has(run_cli(keygen(dir, {"operator", "zoe"})).err, "made elsewhere"));
}

TEST_CASE(
    "cli: hosts with keys run jobs for operators; observers look; strangers are told why not") {
  TempDir dir, elsewhere;
  make_keys(dir, {"host", "127.0.0.1", "127.0.0.2"});
  make_keys(dir, {"operator", "alice"});
  make_keys(dir, {"observer", "eve"});
  const ProcessOptions here{.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()}}};
  StandingHost one({"--bind", "tcp:127.0.0.1:0"}, here), two({"--bind", "tcp:127.0.0.2:0"}, here);
  const std::string hosts = one.address() + "," + two.address();
  REQUIRE(one.address().starts_with("tcp:127.0.0.1:"));

  const auto run = [&](const ProcessOptions& who) {
    return run_cli({"run", "--hosts", hosts, "-n", "4", "--", "echo", "done"}, who);
  };
  auto done = run(as(dir, "alice"));
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(lines_of(done.out).size() == 4);

  done = run(as(dir, "eve"));
  CHECK(done.status == ExitStatus::exited(125));
  CHECK(has(done.err, "unauthorised"));
  CHECK(has(done.err, "needs role operator, the sender has role observer"));
  const auto seen = run_cli({"ps", "--hosts", hosts}, as(dir, "eve"));
  CHECK(seen.status == ExitStatus::exited(0));
  // Nobody was asked, so nobody is said to be silent.
  for (const char* verb : {"ping", "ps"}) {
    const auto undecided = run_cli({verb, "--hosts", hosts}, here);
    INFO(undecided.out << undecided.err);
    CHECK(undecided.status == ExitStatus::exited(1));
    CHECK(has(undecided.out + undecided.err, "which of the 4 secret keys"));
    CHECK_FALSE(has(undecided.out + undecided.err, "does not answer"));
  }
  {
    // Nor may she end what others run.
    const auto sleep = own_sleep();
    Process job(cli({"run", "--hosts", hosts, "--name", "work", "-n", "2", "--", "sh", "-c",
                     "exec " + sleep}),
                as(dir, "alice"));
    REQUIRE(time_until([&] { return sleepers(sleep).size() == 2 || !job.is_running(); }, in_time));
    for (const Words& words : {Words{"stop", "work", "--hosts", hosts},
                               {"drain", "--hosts", hosts},
                               {"shutdown", "--hosts", hosts}}) {
      const auto refused = run_cli(words, as(dir, "eve"));
      INFO(refused.out << refused.err);
      CHECK(refused.status == ExitStatus::exited(1));
      CHECK(has(refused.out + refused.err, "the sender has role observer"));
    }
    CHECK(sleepers(sleep).size() == 2);
    CHECK(has(run_cli({"logs", "work", "--hosts", hosts}, as(dir, "eve")).err, "unauthorised") ==
          false);
    job.send_signal(SIGINT);
    CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
  }

  make_keys(elsewhere, {"operator", "mallory"});
  fs::copy(dir / "authorised/host", elsewhere / "authorised/host", fs::copy_options::recursive);
  done = run(as(elsewhere, "mallory"));
  CHECK(done.status == ExitStatus::exited(125));
  CHECK(has(done.err, "does not take the key " + (elsewhere / "mallory.key")));
  CHECK(done.elapsed < 5s * 4);

  done = run({.environment = {{"MESHBUS_KEYS_DIRECTORY", "/dev/null"}}});
  CHECK(done.status == ExitStatus::exited(125));
  CHECK(has(done.err, "connections with keys only"));

  fs::permissions(elsewhere / "mallory.key", fs::perms::owner_read | fs::perms::group_read);
  done = run(as(elsewhere, "mallory"));
  CHECK(has(done.err, "chmod 600 " + (elsewhere / "mallory.key")));

  // Thrown out, while hosts run.
  fs::remove(dir / "authorised/operator/alice.pub");
  CHECK(time_until([&] { return has(run(as(dir, "alice")).err, "or not any more"); }, in_time));

  // Secrets are in files, and nowhere else.
  for (StandingHost* host : {&one, &two}) {
    for (const pid_t pid : host->roles().all()) {
      const auto shown = read_file("/proc/" + std::to_string(pid) + "/cmdline") +
                         read_file("/proc/" + std::to_string(pid) + "/environ");
      REQUIRE_FALSE(shown.empty());
      for (const char* name : {"127.0.0.1", "127.0.0.2", "alice", "eve"})
        CHECK_FALSE(has(shown, secret_in(dir / (std::string(name) + ".key"))));
    }
    CHECK(has(host->process().err(), "is refused: its key"));
    CHECK_FALSE(has(host->process().err(), secret_in(dir / "127.0.0.1.key")));
    CHECK_FALSE(has(host->process().err(), "WARNING: --insecure"));
  }
}

TEST_CASE(
    "cli: a host on tcp does not start without keys that can be trusted, and says what to do") {
  TempDir dir;
  const auto refused = [&](const ProcessOptions& options) {
    const auto done = run_cli({"host", "--bind", "tcp:127.0.0.1:0"}, options);
    CHECK(done.status == ExitStatus::exited(69));
    return done.err;
  };
  CHECK(has(refused({}), "meshbus keygen host NAME"));
  const ProcessOptions here{.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()}}};
  CHECK(has(refused(here), "meshbus keygen host 127.0.0.1"));
  make_keys(dir, {"host", "127.0.0.1"});
  fs::permissions(dir / "127.0.0.1.key", fs::perms::owner_read | fs::perms::others_read);
  CHECK(has(refused(here), "chmod 600 " + (dir / "127.0.0.1.key")));
  fs::permissions(dir / "127.0.0.1.key", fs::perms::owner_read);
  fs::permissions(dir / "authorised", fs::perms::all);
  CHECK(has(refused(here), "chmod go-w " + (dir / "authorised")));
  fs::permissions(dir / "authorised", fs::perms::owner_all);
  StandingHost host({"--bind", "tcp:127.0.0.1:0"}, here);
  CHECK(host.address().starts_with("tcp:127.0.0.1:"));
}

TEST_CASE("cli: a reader of logs whose key is taken back is told so, and ends") {
  TempDir dir;
  make_keys(dir, {"host", "127.0.0.1"});
  make_keys(dir, {"operator", "alice"});
  make_keys(dir, {"observer", "eve"});
  StandingHost host({"--bind", "tcp:127.0.0.1:0"},
                    {.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()}}});
  Process job(cli({"run", "--hosts", host.address(), "--name", "job", "--", "sh", "-c",
                   "while :; do echo line; sleep 0.05; done"}),
              as(dir, "alice"));
  job.wait_for_output("line", in_time);
  Process logs(cli({"logs", "-f", "job", "--hosts", host.address()}), as(dir, "eve"));
  logs.wait_for_output("line", in_time);
  REQUIRE(fs::remove(dir / "authorised/observer/eve.pub"));
  CHECK(logs.wait_exit(in_time) == ExitStatus::exited(1));
  INFO(logs.describe());
  CHECK(has(logs.err(), "does not take the key " + (dir / "eve.key")));
  // The job is another one's.
  CHECK(job.is_running());
  job.send_signal(SIGTERM);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(143));
}
