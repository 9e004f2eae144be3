// The page of a controller: its API against share/openapi/controller.json, its tokens, and its
// metrics.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/integration/controller/openapi.h"
#include "tests/integration/controller/page_world.h"
#include "tests/integration/needs.h"
#include "tests/support/golden.h"

namespace meshbus::test::page_world {

TEST_CASE("page: the API is as its OpenAPI file says") {
  const Fixture at;
  run_evil(at);
  const auto api = read_openapi();
  const auto site = at.site_when([](const json& one) { return !one.at("events").empty(); });
  check_schema(api, api.at("components").at("schemas").at("View"), site, "view");
  CHECK(site.at("since") == 0);
  CHECK(site.at("hosts").at(0).at("state") == "up");
  CHECK(site.at("meshes").at(0).at("ranks").at(0).at("reason") == "exit 3");
  // Only what has changed since.
  const auto later = at.site(site.at("sequence").get<std::uint64_t>());
  check_schema(api, api.at("components").at("schemas").at("View"), later, "view");
  CHECK(later.at("meshes").empty());
  // A number of another life is no number.
  CHECK_FALSE(at.site(1'000'000'000).at("hosts").empty());
  for (const auto& [path, methods] : api.at("paths").items()) {
    if (path == "/api/stream" || path == "/api/logs" || !methods.contains("get")) continue;
    INFO(path);
    CHECK(http_get(at.url, path, at.headers()).status == 200);
  }
}

TEST_CASE("page: a stream tells the site, then its changes") {
  const Fixture at;
  HttpClient stream(at.url);
  stream.send("GET /api/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + at.token +
              "\r\n\r\n");
  REQUIRE(stream.read_until("\n\n", in_time));
  CHECK(stream.received().find("Content-Type: text/event-stream") != std::string::npos);
  CHECK(stream.received().find("event: site\nid: ") != std::string::npos);
  run_cli({"run", "--hosts", at.host.address(), "-n", "1", "--name", "seen", "--", "true"});
  CHECK(stream.read_until("\"mesh\":\"seen-", in_time));
  CHECK_FALSE(stream.is_closed_within(10ms));
}

TEST_CASE("page: the API takes the token and nothing else; the page has no data of its own") {
  const Fixture at;
  struct stat file{};
  REQUIRE(::stat((at.dir / "token").c_str(), &file) == 0);
  CHECK((file.st_mode & 0777) == 0600);
  CHECK(at.token.size() == 64);
  for (const char* path : {"/api/site", "/api/stream", "/api/other"}) {
    CHECK(http_get(at.url, path).status == 401);
    CHECK(http_get(at.url, path, {"Authorization: Bearer " + at.token + "0"}).status == 401);
    CHECK(http_get(at.url, path, {"Authorization: Basic " + at.token}).status == 401);
    CHECK(http_get(at.url, std::string(path) + "?token=" + at.token).status == 401);
  }
  CHECK(http_get(at.url, "/api/other", at.headers()).status == 404);
  CHECK(http_get(at.url, "/api/site?since=-1", at.headers()).status == 400);
  const auto page = http_get(at.url, "/");
  CHECK(page.status == 200);
  CHECK(page.head.find("Content-Security-Policy: default-src 'none'; script-src 'self'") !=
        std::string::npos);
  CHECK(page.head.find("Access-Control") == std::string::npos);
  CHECK(page.body.find("https://") == std::string::npos);
  CHECK(http_get(at.url, "/main.js").head.find("text/javascript") != std::string::npos);
  CHECK(http_get(at.url, "/../main.js").status == 404);
  // A page of another site cannot be made to point here.
  HttpClient evil(at.url);
  evil.send("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  CHECK(evil.read_all().status == 421);
  HttpClient poster(at.url);
  poster.send("POST /api/site HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(poster.read_all().status == 405);
}

TEST_CASE("page: a file with a token that others can read is refused, and tcp without one") {
  const StandingHost host;
  const TempDir dir;
  std::ofstream(dir / "token") << "0123456789abcdef\n";
  REQUIRE(::chmod((dir / "token").c_str(), 0644) == 0);
  const auto started = [&](Words words) {
    words.insert(words.begin(), {bin("meshbus-controller"), "--hosts", host.address()});
    return run(words, in_time);
  };
  const auto open = started({"--http", "tcp:127.0.0.1:0", "--http-token", dir / "token"});
  CHECK(open.status == ExitStatus::exited(2));
  CHECK(open.err.find("chmod 600") != std::string::npos);
  const auto none = started({"--http", "tcp:127.0.0.1:0"});
  CHECK(none.status == ExitStatus::exited(2));
  CHECK(none.err.find("--http-token") != std::string::npos);
}

TEST_CASE("page: a unix socket needs no token, and is removed") {
  const TempDir dir;
  const std::string path = dir / "page";
  {
    Fixture at("unix:" + path);
    struct stat file{};
    REQUIRE(::stat(path.c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0600);
    CHECK(http_get(at.url, "/api/site").status == 200);
    at.controller.send_signal(SIGTERM);
    CHECK(at.controller.wait_exit(in_time) == ExitStatus::exited(0));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("page: metrics and health of the controller") {
  Fixture at;
  REQUIRE(wait_until([&] { return http_get(at.url, "/healthz").status == 200; }, in_time));
  const auto has = [&](const std::string& line) {
    return wait_until(
        [&] {
          const auto lines = at.lines_of_metrics();
          return std::find(lines.begin(), lines.end(), line) != lines.end();
        },
        in_time);
  };
  CHECK(has("meshbus_controller_up 1"));
  CHECK(has("meshbus_controller_hosts 1"));
  CHECK(has("meshbus_controller_unreachable_hosts 0"));
  CHECK(has("meshbus_controller_late_polls_total 0"));
  run_cli({"run", "--hosts", at.host.address(), "-n", "2", "--", "sh", "-c", "exit 1"});
  CHECK(has("meshbus_controller_failed_ranks 2"));
  at.host.process().send_signal(SIGTERM);
  CHECK(wait_until([&] { return http_get(at.url, "/healthz").status == 503; }, in_time));
}

TEST_CASE("page: promtool finds nothing to complain about in a controller" *
          doctest::test_suite(need::promtool)) {
  const Fixture at;
  const auto checked =
      run({"promtool", "check", "metrics"}, in_time, {.input = http_get(at.url, "/metrics").body});
  INFO(checked.out, checked.err);
  CHECK(checked.status == ExitStatus::exited(0));
  CHECK(checked.out + checked.err == "");
}

}  // namespace meshbus::test::page_world
