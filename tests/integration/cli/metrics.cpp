// `meshbus host --metrics`: what Prometheus reads, and what hostile peers can do there.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/integration/needs.h"
#include "tests/support/golden.h"
#include "tests/support/http_client.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

std::string source(const std::string& path) {
  return source_dir() + "/" + path;
}

/// A host with metrics.
struct Fixture {
  Fixture(const std::string& address = "tcp:127.0.0.1:0", Words more = {})
      : host(words(address, std::move(more))), url(host.ready().at("metrics").get<std::string>()) {}

  static Words words(const std::string& address, Words more) {
    more.insert(more.end(), {"--metrics", address});
    return more;
  }
  std::string metrics() const {
    const auto answer = http_get(url, "/metrics");
    INFO(answer.head);
    REQUIRE(answer.status == 200);
    return answer.body;
  }
  /// The samples by name and labels.
  std::map<std::string, double> samples() const {
    std::map<std::string, double> found;
    std::istringstream lines(metrics());
    for (std::string line; std::getline(lines, line);) {
      const auto blank = line.rfind(' ');
      if (line.empty() || line.front() == '#') continue;
      REQUIRE(blank != std::string::npos);
      found[line.substr(0, blank)] = std::stod(line.substr(blank + 1));
    }
    return found;
  }
  bool becomes(const std::string& sample, double value) const {
    return wait_until(
        [&] {
          const auto all = samples();
          const auto found = all.find(sample);
          return found != all.end() && found->second == value;
        },
        in_time);
  }
  bool becomes_healthy(int status) const {
    return wait_until([&] { return http_get(url, "/healthz").status == status; }, in_time);
  }
  pid_t exporter() {
    for (const auto& process : children_of(host.process().pid())) {
      if (process.name == "meshbus-exporte") return process.pid;
    }
    return 0;
  }

  StandingHost host;
  std::string url;
};

}  // namespace

TEST_CASE("metrics: a host tells ranks by state, failures by cause, and messages") {
  Fixture at;
  REQUIRE(at.becomes_healthy(200));
  CHECK(at.becomes("meshbus_host_ranks_started_total", 0));
  const auto failed = run_cli(
      {"run", "--hosts", at.host.address(), "-n", "3", "--", "sh", "-c", "test $RANK != 1"});
  CHECK(failed.status == ExitStatus::exited(1));
  CHECK(at.becomes("meshbus_host_rank_failures_total{cause=\"exited\"}", 1));
  CHECK(at.becomes("meshbus_host_ranks_started_total", 3));
  const auto samples = at.samples();
  // Each of them has ended by itself; "failed" are those that could not be started.
  CHECK(samples.at("meshbus_host_ranks{state=\"stopped\"}") == 3);
  CHECK(samples.at("meshbus_host_role_up{role=\"keeper\"}") == 1);
  CHECK(samples.at("meshbus_host_role_restarts_total{role=\"broker\"}") == 0);
  CHECK(wait_until([&] { return at.samples()["meshbus_broker_received_bytes_total"] > 1000; },
                   in_time));
  CHECK(samples.at("meshbus_broker_queue_limit_bytes") == 16 * 1024 * 1024);
  CHECK(samples.size() < 150);
}

TEST_CASE("metrics: promtool finds nothing to complain about" *
          doctest::test_suite(need::promtool)) {
  const Fixture at;
  REQUIRE(at.becomes_healthy(200));
  REQUIRE(at.becomes("meshbus_broker_slow_peers", 0));
  const auto checked = run({"promtool", "check", "metrics"}, 60s, {.input = at.metrics()});
  INFO(checked.out, checked.err);
  CHECK(checked.status == ExitStatus::exited(0));
  CHECK(checked.out + checked.err == "");
}

TEST_CASE("metrics: every alert fires and clears" * doctest::test_suite(need::promtool)) {
  const auto tested =
      run({"promtool", "test", "rules", source("tests/integration/cli/rules_test.yaml")}, 60s);
  INFO(tested.out, tested.err);
  CHECK(tested.status == ExitStatus::exited(0));
}

TEST_CASE("metrics: rules and dashboard ask for metrics that exist") {
  const Fixture at;
  REQUIRE(at.becomes("meshbus_broker_slow_peers", 0));
  REQUIRE(at.becomes("meshbus_host_meshes", 0));
  const std::string text = at.metrics();
  for (const char* file : {"share/prometheus/meshbus.rules.yaml", "share/grafana/meshbus.json"}) {
    std::ifstream in(source(file));
    const std::string asked((std::istreambuf_iterator<char>(in)), {});
    REQUIRE_FALSE(asked.empty());
    std::size_t found = 0;
    for (const std::string begin : {"meshbus_host_", "meshbus_broker_"}) {
      for (auto pos = asked.find(begin); pos != std::string::npos;
           pos = asked.find(begin, pos + 1)) {
        const auto end = asked.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", pos);
        const std::string name = asked.substr(pos, end - pos);
        INFO(file, ": ", name);
        CHECK(text.find("# TYPE " + name + " ") != std::string::npos);
        ++found;
      }
    }
    CHECK(found > 5);
  }
}

TEST_CASE("metrics: counters do not go back when the broker is killed, and healthz tells it") {
  Fixture at;
  REQUIRE(at.becomes_healthy(200));
  run_cli({"run", "--hosts", at.host.address(), "-n", "2", "--", "true"});
  REQUIRE(wait_until([&] { return at.samples()["meshbus_broker_messages_received_total"] > 10; },
                     in_time));
  REQUIRE(at.becomes("meshbus_host_ranks_started_total", 2));
  auto before = at.samples();
  for (int i = 1; i <= 3; ++i) {
    std::optional<Roles> roles;
    REQUIRE(wait_until(
        [&] {
          roles = find_roles(at.host.process().pid());
          return roles.has_value();
        },
        in_time));
    ::kill(roles->broker, SIGKILL);
    REQUIRE(at.becomes("meshbus_host_role_restarts_total{role=\"broker\"}", i));
    REQUIRE(at.becomes_healthy(200));
    const auto after = at.samples();
    for (const auto& [name, value] : before) {
      INFO(name, " ", value);
      if (name.find("_total") == std::string::npos) continue;
      REQUIRE(after.contains(name));
      CHECK(after.at(name) >= value);
    }
    before = after;
  }
  // So do those of the agent.
  ::kill(at.host.roles().agent, SIGKILL);
  REQUIRE(at.becomes("meshbus_host_role_restarts_total{role=\"agent\"}", 1));
  REQUIRE(at.becomes_healthy(200));
  CHECK(at.samples().at("meshbus_host_ranks_started_total") == 2);
}

TEST_CASE("metrics: healthz is 503 while a role does not answer") {
  Fixture at;
  REQUIRE(at.becomes_healthy(200));
  ::kill(at.host.roles().agent, SIGSTOP);
  REQUIRE(at.becomes_healthy(503));
  CHECK(http_get(at.url, "/healthz").body == "the agent does not answer\n");
  ::kill(at.host.roles().agent, SIGCONT);
  CHECK(at.becomes_healthy(200));
}

TEST_CASE("metrics: the exporter is restarted, and its end ends nothing") {
  Fixture at;
  REQUIRE(at.becomes_healthy(200));
  const pid_t first = at.exporter();
  REQUIRE(first > 0);
  ::kill(first, SIGKILL);
  REQUIRE(wait_until([&] { return at.exporter() != first && at.exporter() != 0; }, in_time));
  CHECK(at.becomes_healthy(200));
  at.host.process().send_signal(SIGTERM);
  CHECK(at.host.process().wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("metrics: a unix socket is for this user alone, and is removed") {
  const TempDir dir;
  const std::string path = dir / "metrics";
  {
    Fixture at("unix:" + path);
    CHECK(at.url == "unix:" + path);
    struct stat file{};
    REQUIRE(::stat(path.c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0600);
    CHECK(at.becomes_healthy(200));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("metrics: an address in use, or none, is refused before anything starts") {
  const Fixture at;
  const auto port = at.url.substr(at.url.rfind(':') + 1);
  for (const std::string& address :
       {"tcp:127.0.0.1:" + port, std::string("tcp:no.such.name:1"), std::string("local:1")}) {
    const auto refused = run_cli({"host", "--metrics", address});
    INFO(refused.err);
    CHECK(refused.status == ExitStatus::exited(2));
    CHECK(refused.err.find("--metrics") != std::string::npos);
  }
}

TEST_CASE("metrics: hostile requests cost nothing but themselves") {
  Fixture at;
  REQUIRE(at.becomes_healthy(200));
  const auto status_of = [&](const std::string& bytes) {
    HttpClient client(at.url);
    client.send(bytes);
    return client.read_all().status;
  };
  CHECK(status_of("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") == 404);
  CHECK(status_of("GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n") == 404);
  CHECK(status_of("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") == 405);
  CHECK(status_of("POST /metrics HTTP/1.1\r\nContent-Length: 9999\r\n\r\n") == 413);
  CHECK(status_of("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n") == 421);
  CHECK(status_of("GET /metrics HTTP/1.1\r\n\r\n") == 421);
  CHECK(status_of("\r\n\r\n") == 400);
  CHECK(status_of(std::string(20'000, 'A')) == 431);
  CHECK(status_of("GET /" + std::string(10'000, '/') + " HTTP/1.1\r\n\r\n") == 431);
  CHECK(status_of(std::string("\0\0\0\0\r\n\r\n", 8)) == 400);
  // Many that say nothing, or half of it, keep nobody out.
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<HttpClient>(at.url));
    idle.back()->send("GET /metrics HTTP/1.1\r\nX: ");
    if (i % 10 == 0) CHECK(http_get(at.url, "/healthz").status == 200);
  }
  CHECK(http_get(at.url, "/metrics").status == 200);
  // They are closed, also those that send a byte now and then.
  CHECK(wait_until(
      [&] {
        idle.back()->send("x");
        return idle.back()->is_closed_within(100ms);
      },
      in_time));
  CHECK(at.exporter() > 0);
  CHECK(at.samples().at("meshbus_host_role_restarts_total{role=\"agent\"}") == 0);
}
