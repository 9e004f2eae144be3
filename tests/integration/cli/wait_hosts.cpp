// `meshbus run --wait-hosts`: a job waits for hosts that are not there yet, and for lost ones that
// come back (spec 18.1, 18.2).
#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// Addresses on this machine that nobody else uses, and the keys of the hosts there.
class Places {
 public:
  explicit Places(int count) {
    for (int number = 0; number < count; ++number) {
      const auto pid = ::getpid();
      ips_.push_back("127." + std::to_string(100 + pid % 100) + "." +
                     std::to_string(pid / 100 % 250) + "." + std::to_string(++last_));
      const auto made = run_cli({"keygen", "--dir", keys_.path().string(), "host", ips_.back()});
      REQUIRE(made.status == ExitStatus::exited(0));
    }
    const auto made = run_cli({"keygen", "--dir", keys_.path().string(), "operator", "alice"});
    REQUIRE(made.status == ExitStatus::exited(0));
  }

  std::string address(std::size_t place) const { return "tcp:" + ips_[place] + ":7420"; }
  std::string addresses() const {
    std::string list;
    for (std::size_t place = 0; place < ips_.size(); ++place)
      list += (place == 0 ? "" : ",") + address(place);
    return list;
  }
  std::unique_ptr<StandingHost> start(std::size_t place) const {
    return std::make_unique<StandingHost>(Words{"--bind", address(place)}, with(ips_[place]));
  }
  ProcessOptions launcher() const { return with("alice"); }

 private:
  ProcessOptions with(const std::string& key) const {
    return {.environment = {{"MESHBUS_KEYS_DIRECTORY", keys_.path().string()},
                            {"MESHBUS_KEYS_OWN", keys_ / (key + ".key")}}};
  }

  static inline int last_ = 0;
  TempDir keys_;
  Words ips_;
};

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (const auto& line : lines_of(text)) found += line == word ? 1U : 0U;
  return found;
}

bool says(Process& job, const std::string& words) {
  wait_until([&] { return has(job.err(), words) || !job.is_running(); }, in_time);
  INFO(job.describe());
  CHECK(has(job.err(), words));
  return has(job.err(), words);
}

}  // namespace

TEST_CASE("cli: run --wait-hosts waits for hosts that are not there yet") {
  const Places places(2);
  const auto first = places.start(0);
  Process job(cli({"run", "--no-prefix", "--hosts", places.addresses(), "--wait-hosts", "1m", "-n",
                   "2", "--", "sh", "-c", "echo runs"}),
              places.launcher());
  says(job, "): ");
  says(job, ": waiting, 1m at most");
  CHECK(job.is_running());
  const auto second = places.start(1);
  const auto status = job.wait_exit(in_time);
  INFO(job.describe());
  CHECK(status == ExitStatus::exited(0));
  CHECK(has(job.err(), "the hosts are there"));
  CHECK(count_of(job.out(), "runs") == 2);
}

TEST_CASE("cli: run --wait-hosts gives up when the time is over, and ends with Ctrl-C before") {
  const Places places(2);
  const auto first = places.start(0);
  const auto over =
      run_cli({"run", "--hosts", places.addresses(), "--wait-hosts", "500ms", "--", "true"},
              places.launcher());
  INFO(over.err);
  CHECK(over.status == ExitStatus::exited(125));
  CHECK(has(over.err, places.address(1)));
  Process job(
      cli({"run", "--hosts", places.addresses(), "--use", "2", "--wait-hosts", "1m", "--", "true"}),
      places.launcher());
  says(job, "waiting for hosts, 1m at most: there is 1, and 2 are wanted");
  job.send_signal(SIGINT);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
}

TEST_CASE("cli: run --use --wait-hosts starts with fewer hosts when the time is over") {
  const Places places(3);
  const auto first = places.start(0);
  const auto second = places.start(2);
  const auto done = run_cli(
      {"run", "--no-prefix", "--hosts", places.addresses(), "--use", "3", "--min-hosts", "2",
       "--wait-hosts", "500ms", "--per-host", "1", "--", "sh", "-c", "echo one of $WORLD_SIZE"},
      places.launcher());
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(count_of(done.out, "one of 2") == 2);
  CHECK(has(done.err, "host " + places.address(1) + ": "));
}

TEST_CASE("cli: a job whose only spare is lost waits for a host that comes back") {
  const Places places(2);
  const auto first = places.start(0);
  auto second = places.start(1);
  Process job(cli({"run",
                   "--no-prefix",
                   "--hosts",
                   places.addresses(),
                   "--use",
                   "2",
                   "--wait-hosts",
                   "1m",
                   "--set",
                   "delivery.limit=3s",
                   "--set",
                   "lease=3s",
                   "--grace",
                   "1s",
                   "-n",
                   "2",
                   "--",
                   "sh",
                   "-c",
                   "echo attempt $MESHBUS_JOB_ATTEMPT; [ $MESHBUS_JOB_ATTEMPT = 1 ] || exec sleep "
                   "600"}),
              places.launcher());
  CHECK(wait_until([&] { return count_of(job.out(), "attempt 0") == 2; }, in_time));
  ::kill(second->roles().warden, SIGKILL);
  says(job, "attempt 2 of the job when there are enough hosts");
  says(job, "waiting for hosts, 1m at most: there is 1, and 2 are wanted");
  second.reset();
  const auto again = places.start(1);
  const auto status = job.wait_exit(in_time);
  INFO(job.describe());
  CHECK(status == ExitStatus::exited(0));
  CHECK(count_of(job.out(), "attempt 1") == 2);
  CHECK(has(job.err(), "host " + places.address(1) + " is there"));
}

TEST_CASE("cli: run refuses to wait for hosts that it starts itself") {
  const auto refused = run_cli({"run", "--hosts", "2", "--wait-hosts", "5s", "--", "true"});
  INFO(refused.err);
  CHECK(refused.status == ExitStatus::exited(2));
  CHECK(has(refused.err, "name them by their addresses"));
}
