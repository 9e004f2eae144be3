// The page of a controller: its files, its API against share/openapi/controller.json, its metrics,
// and what hostile ranks and requests can do there.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include <nlohmann/json.hpp>

#include "tests/integration/controller/browser.h"
#include "tests/integration/controller/harness.h"
#include "tests/integration/needs.h"
#include "tests/support/golden.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr const char* kEvil = "<img src=x onerror=\"document.title='PWNED'\">";

json read_openapi() {
  std::ifstream in(source_dir() + "/share/openapi/controller.json");
  return json::parse(in);
}

/// Whether a value is as a schema of that file says: types, required properties, enumerations.
void check_schema(const json& api, const json& schema, const json& value, const std::string& at) {
  INFO(at, ": ", value.dump().substr(0, 200));
  if (schema.value("nullable", false) && value.is_null()) return;
  if (schema.contains("$ref")) {
    const auto path = schema.at("$ref").get<std::string>().substr(1);
    return check_schema(api, api.at(json::json_pointer(path)), value, at);
  }
  if (schema.contains("allOf")) return check_schema(api, schema.at("allOf").at(0), value, at);
  const auto type = schema.value("type", "");
  if (type == "object") {
    REQUIRE(value.is_object());
    for (const auto& name : schema.value("required", json::array())) {
      INFO(name.get<std::string>());
      CHECK(value.contains(name.get<std::string>()));
    }
    const auto properties = schema.value("properties", json::object());
    for (const auto& [name, one] : properties.items()) {
      if (value.contains(name)) check_schema(api, one, value.at(name), at + "." + name);
    }
  } else if (type == "array") {
    REQUIRE(value.is_array());
    for (const auto& one : value) check_schema(api, schema.at("items"), one, at + "[]");
  } else if (type == "integer") {
    CHECK(value.is_number_integer());
  } else if (type == "string") {
    CHECK(value.is_string());
    if (schema.contains("enum")) {
      const auto& words = schema.at("enum");
      CHECK(std::find(words.begin(), words.end(), value) != words.end());
    }
  }
}

/// A host and a controller with a page.
struct Fixture {
  explicit Fixture(const std::string& address = "tcp:127.0.0.1:0", const Words& more = {})
      : controller([&] {
          Words words{bin("meshbus-controller"),
                      "--hosts",
                      host.address(),
                      "--http",
                      address,
                      "--http-token",
                      dir / "token",
                      "--set",
                      "supervision.poll=1s"};
          words.insert(words.end(), more.begin(), more.end());
          return words;
        }()) {
    controller.wait_for_output("the page is at ", in_time);
    const auto& text = controller.err();
    const auto begin = text.find("the page is at ") + 15;
    url = text.substr(begin, text.find('\n', begin) - begin);
    std::ifstream in(dir / "token");
    std::getline(in, token);
  }
  std::vector<std::string> headers() const { return {"Authorization: Bearer " + token}; }
  json site(std::uint64_t since = 0) const {
    const auto answer = http_get(url, "/api/site?since=" + std::to_string(since), headers());
    INFO(answer.head);
    REQUIRE(answer.status == 200);
    return json::parse(answer.body);
  }
  HttpAnswer post(const std::string& path, const json& body) const {
    return post(path, body, headers());
  }
  HttpAnswer post(const std::string& path, const json& body,
                  const std::vector<std::string>& lines) const {
    const auto text = body.dump();
    std::string request = "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                          std::to_string(text.size()) + "\r\n";
    for (const auto& line : lines) request += line + "\r\n";
    HttpClient client(url);
    client.send(request + "\r\n" + text);
    return client.read_all();
  }
  /// The name of the only mesh, once that many ranks of it are ready.
  std::string mesh_of(std::size_t ranks) const {
    const auto seen = site_when([&](const json& one) {
      if (one.at("meshes").empty()) return false;
      std::size_t ready = 0;
      for (const auto& rank : one.at("meshes").at(0).at("ranks"))
        if (rank.at("status") == "ready") ++ready;
      return ready == ranks;
    });
    return seen.at("meshes").at(0).at("mesh");
  }
  /// Waits for a site of which that holds.
  json site_when(const std::function<bool(const json&)>& holds) const {
    json found;
    REQUIRE(wait_until(
        [&] {
          found = site();
          return holds(found);
        },
        in_time));
    return found;
  }
  std::vector<std::string> lines_of_metrics() const {
    return lines_of(http_get(url, "/metrics").body);
  }

  TempDir dir;
  StandingHost host;
  Process controller;
  std::string url;
  std::string token;
};

/// What a view of logs has shown of that stream of its only rank; fails when a byte is missing or
/// came twice. An event that has not come whole yet does not count.
std::string shown(const std::string& events, const std::string& stream) {
  std::string text;
  std::optional<std::uint64_t> next;
  for (const auto& line : lines_of(events.substr(0, events.rfind('\n') + 1))) {
    if (!line.starts_with("data: {\"pieces\":")) continue;
    const auto event = json::parse(line.substr(6));
    for (const auto& piece : event.at("pieces")) {
      if (piece.at("stream") != stream) continue;
      const std::uint64_t offset = piece.at("offset");
      REQUIRE(next.value_or(offset) == offset);
      next = offset + piece.at("bytes").get<std::uint64_t>();
      text += piece.at("text");
    }
  }
  return text;
}

/// A mesh of one rank whose command, name of a file and last words are markup and escapes.
std::string run_evil(const Fixture& at) {
  const auto finished = run_cli(
      {"run", "--hosts", at.host.address(), "-n", "1", "--name", "evil", "--", "sh", "-c",
       "head -c 1000000 /dev/zero | tr '\\0' x >&2; printf '\\n%s\\033[31mred\\n' \"$1\" >&2; "
       "exit 3",
       "sh", kEvil});
  CHECK(finished.status == ExitStatus::exited(3));
  std::string name;
  at.site_when([&](const json& site) {
    for (const auto& mesh : site.at("meshes")) {
      if (mesh.at("ranks").size() == 1 && !mesh.at("ranks").at(0).at("ended").is_null())
        name = mesh.at("mesh");
    }
    return !name.empty();
  });
  return name;
}

}  // namespace

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

TEST_CASE("page: logs are live, and a mesh or rank that does not exist has none") {
  const Fixture at;
  CHECK(http_get(at.url, "/api/logs?mesh=none-1", at.headers()).status == 404);
  CHECK(http_get(at.url, "/api/logs?mesh=none-1").status == 401);
  Process running(cli({"run", "--hosts", at.host.address(), "-n", "2", "--name", "talk", "--", "sh",
                       "-c", "echo begun; read line; echo \"heard $line\""}),
                  {.stdin_pipe = true});
  std::string name;
  at.site_when([&](const json& site) {
    for (const auto& mesh : site.at("meshes")) name = mesh.at("mesh");
    return !name.empty();
  });
  CHECK(http_get(at.url, "/api/logs?rank=x&mesh=" + name, at.headers()).status == 400);
  CHECK(http_get(at.url, "/api/logs?rank=7&mesh=" + name, at.headers()).status == 404);
  HttpClient stream(at.url);
  stream.send("GET /api/logs?rank=0&mesh=" + name +
              " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + at.token + "\r\n\r\n");
  REQUIRE(stream.read_until("\"text\":\"begun\\n\"", in_time));
  running.write_stdin("you\n");
  CHECK(stream.read_until("\"text\":\"heard you\\n\"", in_time));
  running.close_stdin();
  CHECK(stream.read_until("event: end\ndata: {\"host\":", in_time));
  CHECK(stream.received().find("\"error\":null") != std::string::npos);
}

TEST_CASE("page: a view of logs goes on when agent and broker are started again, byte for byte") {
  const Fixture at;
  // It writes to both streams all the time, and says at the end how often.
  const Process running(cli(
      {"run", "--hosts", at.host.address(), "-n", "1", "--name", "talk", "--", "sh", "-c",
       "cd \"$0\"; i=0; until [ -e end ]; do i=$((i+1)); echo $i; echo $i >&2; sleep 0.01; done; "
       "echo in all $i",
       at.dir.path()}));
  std::string name;
  at.site_when([&](const json& site) {
    for (const auto& mesh : site.at("meshes")) name = mesh.at("mesh");
    return !name.empty();
  });
  HttpClient stream(at.url);
  stream.send("GET /api/logs?mesh=" + name +
              " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + at.token + "\r\n\r\n");
  REQUIRE(stream.read_until("event: pieces", in_time));
  for (const std::string victim : {"agent_pid", "broker_pid"}) {
    REQUIRE(::kill(at.host.ready().at(victim), SIGKILL) == 0);
    const auto before = shown(stream.received(), "stdout").size();
    CHECK(wait_until(
        [&] {
          stream.is_closed_within(50ms);
          return shown(stream.received(), "stdout").size() > before + 300;
        },
        in_time));
  }
  std::ofstream(at.dir / "end").put('x');
  CHECK(stream.read_until("event: end\ndata: {\"host\":", in_time));
  CHECK(stream.received().find("\"error\":null") != std::string::npos);
  const auto out = lines_of(shown(stream.received(), "stdout"));
  const auto err = lines_of(shown(stream.received(), "stderr"));
  REQUIRE(out.size() > 2);
  REQUIRE(err.size() > 1);
  CHECK(out.back() == "in all " + out.end()[-2]);
  CHECK(err.back() == out.end()[-2]);
  for (std::size_t i = 1; i < out.size() - 1; ++i)
    REQUIRE(std::stoi(out[i]) == std::stoi(out[i - 1]) + 1);
  for (std::size_t i = 1; i < err.size(); ++i)
    REQUIRE(std::stoi(err[i]) == std::stoi(err[i - 1]) + 1);
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

TEST_CASE("page: it acts when the controller lets it, and says what was done") {
  const Fixture at("tcp:127.0.0.1:0", {"--http-write"});
  const auto api = read_openapi();
  const auto check_answer = [&](const HttpAnswer& answer, const std::string& schema) {
    INFO(answer.head, answer.body);
    REQUIRE(answer.status == 200);
    const auto said = json::parse(answer.body);
    check_schema(api, api.at("components").at("schemas").at(schema), said, schema);
    CHECK(said.at("not_done").empty());
    return said;
  };
  Process job(
      cli({"run", "--hosts", at.host.address(), "-n", "3", "--name", "job", "--", "sh", "-c",
           "trap 'echo \"heard in $RANK\"' USR1; echo begun; while :; do sleep 0.05; "
           "done"}));
  REQUIRE(wait_until(
      [&] {
        // Reading is what is_running() does besides.
        REQUIRE(job.is_running());
        const auto lines = lines_of(job.out());
        return std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
                 return line.find("begun") != std::string::npos;
               }) == 3;
      },
      in_time));
  const auto name = at.mesh_of(3);
  CHECK(json::parse(http_get(at.url, "/api/rights", at.headers()).body) == json{{"write", true}});

  const auto signalled = check_answer(
      at.post("/api/signal", {{"mesh", name}, {"ranks", "0,2"}, {"signal", "USR1"}}), "Outcome");
  CHECK(signalled.at("ranks") == "0,2");
  job.wait_for_output("heard in 0", in_time);
  job.wait_for_output("heard in 2", in_time);
  const auto looked = check_answer(at.post("/api/stacks", {{"mesh", name}}), "Stacks");
  CHECK(looked.at("ranks") == "0-2");
  CHECK_FALSE(looked.at("stacks").empty());
  const auto stopped = check_answer(
      at.post("/api/stop",
              {{"mesh", name}, {"ranks", "1"}, {"grace_s", 0}, {"reason", "it is enough"}}),
      "Outcome");
  CHECK(stopped.at("ranks") == "1");
  const auto ended = at.site_when([](const json& site) {
    const auto& ranks = site.at("meshes").at(0).at("ranks");
    return !ranks.at(1).at("ended").is_null();
  });
  const auto& stop = ended.at("meshes").at(0).at("ranks").at(1).at("stop");
  CHECK(stop.at("reason") == "it is enough");
  CHECK(stop.at("by") == "the page at tcp:127.0.0.1:0");
  CHECK(job.out().find("heard in 1") == std::string::npos);
  // What has ended can be neither signalled nor stopped again.
  CHECK(at.post("/api/signal", {{"mesh", name}, {"ranks", "1"}, {"signal", "HUP"}}).status == 409);
  CHECK(at.post("/api/stop", {{"mesh", name}, {"ranks", "1"}}).status == 409);
  // The launcher ends the others.
  job.wait_exit(in_time);
  // The trail of the host has the orders.
  const auto trail = run_cli({"audit", "--hosts", at.host.address(), "--mesh", name});
  for (const std::string verb : {"signal", "stacks", "stop"}) {
    INFO(verb, trail.out);
    CHECK(trail.out.find(" " + verb) != std::string::npos);
  }
}

TEST_CASE("page: orders that are wrong, of strangers or of other pages do nothing") {
  const Fixture at("tcp:127.0.0.1:0", {"--http-write"});
  Process job(cli(
      {"run", "--hosts", at.host.address(), "-n", "2", "--name", "job", "--", "sleep", "1000"}));
  const auto name = at.mesh_of(2);
  const auto said = [&](const json& body, const std::string& path = "/api/stop") {
    const auto answer = at.post(path, body);
    return std::to_string(answer.status) + " " + answer.body;
  };
  CHECK(said(json::array()) == "400 the body of this request is a JSON object\n");
  CHECK(said({{"rank", 1}}) == "400 mesh: expected the name of a mesh\n");
  CHECK(said({{"mesh", 7}}) == "400 mesh: expected a text\n");
  CHECK(said({{"mesh", name}, {"rank", "1"}}) ==
        "400 there is no field 'rank' here; there are grace_s, mesh, ranks, reason\n");
  CHECK(said({{"mesh", name}, {"ranks", "1-"}}) == "400 ranks: expected ranks like \"0-5,7\"\n");
  CHECK(said({{"mesh", name}, {"grace_s", -1}}) ==
        "400 grace_s: expected seconds from 0 to 86400\n");
  CHECK(said({{"mesh", name}, {"grace_s", "1"}}) == "400 grace_s: expected a number\n");
  CHECK(said({{"mesh", name}, {"reason", std::string(201, 'x')}}) ==
        "400 reason: expected at most 200 bytes of text\n");
  CHECK(said({{"mesh", name}}, "/api/signal") ==
        "400 signal: expected a name like USR1, or a number as a text\n");
  CHECK(
      said({{"mesh", name}, {"signal", "NONE"}}, "/api/signal").starts_with("400 signal: 'NONE'"));
  CHECK(said({{"mesh", name}, {"kernel_only", 1}}, "/api/stacks") ==
        "400 kernel_only: expected true or false\n");
  CHECK(said({{"mesh", name}, {"ranks", "1-2"}}) == "404 the mesh has 2 ranks\n");
  CHECK(said({{"mesh", "job"}}) == "404 this site has no such mesh\n");
  CHECK(said({{"mesh", name}}, "/api/shutdown") == "404 the API has no such path\n");

  const json all{{"mesh", name}};
  CHECK(at.post("/api/stop", all, {}).status == 401);
  CHECK(at.post("/api/stop", all, {"Authorization: Bearer " + at.token + "0"}).status == 401);
  auto foreign = at.headers();
  foreign.emplace_back("Origin: http://evil.example");
  CHECK(at.post("/api/stop", all, foreign).status == 403);
  HttpClient large(at.url);
  large.send("POST /api/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17000\r\n\r\n");
  CHECK(large.read_all().status == 413);
  HttpClient cut(at.url);
  cut.send("POST /api/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  CHECK(cut.is_closed_within(in_time));
  const auto ranks = at.site().at("meshes").at(0).at("ranks");
  for (const auto& rank : ranks) CHECK(rank.at("stop").is_null());

  // A frozen host did nothing, and the page does not say that it did.
  const pid_t agent = at.host.ready().at("agent_pid");
  REQUIRE(::kill(agent, SIGSTOP) == 0);
  const auto silent = at.post("/api/signal", {{"mesh", name}, {"signal", "HUP"}});
  ::kill(agent, SIGCONT);
  CHECK(silent.status == 502);
  CHECK(json::parse(silent.body).at("ranks") == "none");
  CHECK(json::parse(silent.body)
            .at("not_done")
            .at(0)
            .get<std::string>()
            .starts_with("ranks 0-1 on host " + at.host.address() + ": "));
  CHECK(wait_until([&] { return at.post("/api/stop", all).status == 200; }, in_time));
  job.wait_exit(in_time);
}

TEST_CASE("page: a page that only reads does nothing, and a page is needed to act") {
  const Fixture at;
  const auto answer = at.post("/api/stop", {{"mesh", "job"}});
  CHECK(answer.status == 405);
  CHECK(answer.body == "this page only reads; meshbus-controller --http-write lets it act\n");
  CHECK(json::parse(http_get(at.url, "/api/rights", at.headers()).body) == json{{"write", false}});
  const auto without =
      run({bin("meshbus-controller"), "--hosts", at.host.address(), "--http-write"}, in_time);
  CHECK(without.status == ExitStatus::exited(2));
  CHECK(without.err.find("--http-write needs a page: add --http ADDRESS") != std::string::npos);
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

TEST_CASE("page: a browser shows what hostile ranks write as text" *
          doctest::test_suite(need::chromedriver)) {
  const Fixture at;
  const auto name = run_evil(at);
  const std::string mesh = "/mesh/" + name;
  for (const std::string& view : {std::string("/"), mesh, mesh + "/why", mesh + "/rank/0"}) {
    INFO(view);
    Browser browser;
    browser.open(at.url + "/#token=" + at.token + "&view=" + view);
    browser.find("main", name);
    // What ranks wrote is on these.
    const bool has_words = view.size() > mesh.size();
    if (has_words) browser.find("main", "<img src=x onerror=");
    const auto shown = browser.run("return document.documentElement.outerHTML").get<std::string>();
    CHECK(shown.find(at.token) == std::string::npos);
    CHECK(browser.run("return location.href").get<std::string>().find(at.token) ==
          std::string::npos);
    CHECK(shown.find("<img") == std::string::npos);
    if (has_words) CHECK(shown.find("&lt;img src=x onerror=") != std::string::npos);
    CHECK(shown.find("PWNED</title>") == std::string::npos);
    CHECK(browser.complaints() == "");
  }
}

TEST_CASE("page: no view keeps out who sees little or has a keyboard only, light, dark or narrow" *
          doctest::test_suite(need::chromedriver)) {
  const Fixture at;
  const auto name = run_evil(at);
  const std::string mesh = "/mesh/" + name;
  std::ifstream file(source_dir() + "/tests/integration/controller/accessible.js");
  const std::string check((std::istreambuf_iterator<char>(file)), {});
  REQUIRE_FALSE(check.empty());
  Browser browser;
  browser.open(at.url + "/#token=" + at.token + "&view=/");
  browser.find("#link", "live");
  // The check does find something.
  browser.run("document.querySelector('h1').style.color = 'rgb(200,200,200)'");
  CHECK(browser.run(check).get<std::string>().find("its contrast is") != std::string::npos);
  for (const auto& [width, is_dark] : {std::pair(1200, false), {1200, true}, {390, false}}) {
    browser.look(width, is_dark);
    for (const std::string& view : {std::string("/hosts"), "/hosts/" + at.host.address(),
                                    "/grid/" + name, mesh, mesh + "/why", mesh + "/logs",
                                    mesh + "/rank/0", std::string("/events"), std::string("/")}) {
      INFO(view, " ", width, is_dark ? " dark" : "");
      browser.run(
          "document.querySelector('main').replaceChildren();"
          "location.hash = " +
          json("#" + view).dump() + ".replace(/^#.hosts.(.+)/, (all, host) => " +
          "'#/hosts/' + encodeURIComponent(host))");
      browser.find("main h1");
      CHECK(browser.run(check) == "");
    }
  }
}

TEST_CASE("page: a user clicks through all of it" * doctest::test_suite(need::chromedriver)) {
  const Fixture at;
  Process job(cli({"run", "--hosts", at.host.address(), "-n", "3", "--name", "job", "--restart",
                   "on-failure:1", "--", "sh", "-c",
                   "echo begun; [ $RANK = 1 ] || exec sleep 100; echo '<b>no</b>' >&2; "
                   "exit 3"}));
  std::string name;
  at.site_when([&](const json& site) {
    for (const auto& mesh : site.at("meshes")) {
      for (const auto& rank : mesh.at("ranks")) {
        if (rank.at("exit_code") == 3) name = mesh.at("mesh");
      }
    }
    return !name.empty();
  });

  Browser browser;
  browser.open(at.url);
  browser.find("h1", "Token");
  browser.type("input[name=token]", at.token + "0");
  browser.click("button", "Open");
  browser.find("#link", "no access");
  browser.type("input[name=token]", at.token);
  browser.click("button", "Open");
  browser.find("#link", "live");

  browser.click("td a", "why?");
  browser.find("strong", "Rank 1 was first");
  browser.find("pre", "<b>no</b>");
  browser.click("main a", "Ranks");
  browser.find(".timeline svg", "rank 1");
  browser.type("input[type=search]", "failed");
  browser.find("p.quiet", "1 ranks");
  browser.click("td.number a", "1");
  browser.find("h1", "Rank 1 of " + name);
  browser.find("td", "exit 3");
  browser.click("main a", "Logs of this rank");
  browser.find(".log .err", "<b>no</b>");
  browser.type("input[type=search]", "BEGUN");
  browser.find(".log mark", "begun");
  browser.click("main a", "Grid");
  browser.find("p.quiet", "3 ranks on 1 hosts");
  browser.run("document.querySelector('canvas').focus()");
  browser.press("\uE014");  // Right
  browser.find(".tip", "rank 0");
  browser.press("\uE007");  // Enter
  browser.find("h1", "Rank 0 of " + name);

  // What has the focus keeps it while data comes in.
  browser.press("o");
  browser.find("h1", "Overview");
  browser.run("document.querySelector('td a').focus()");
  const auto before = browser.run("return document.documentElement.dataset.sequence");
  run_cli({"run", "--hosts", at.host.address(), "-n", "1", "--name", "zz_later", "--", "false"});
  browser.find("td a", "zz_later");
  CHECK(browser.run("return document.documentElement.dataset.sequence") != before);
  CHECK(browser.run("return document.activeElement.matches('td a')") == true);
  browser.press("h");
  browser.find("h1", "Hosts");
  browser.click("td a", at.host.address());
  browser.find("h2", "Links to other hosts");
  browser.press("e");
  browser.find("h1", "Events");
  browser.press("?");
  browser.click("dialog button", "Close");
  CHECK(browser.run("return document.querySelectorAll('b b, td b').length") == 0);
  // Nothing was asked of another server, and the policy stopped nothing.
  CHECK(browser.run("return performance.getEntriesByType('resource').every((one) => "
                    "one.name.startsWith(location.origin))") == true);
  auto complaints = browser.complaints();
  // The wrong token above.
  const auto refused = complaints.find("401");
  CHECK(refused != std::string::npos);
  CHECK(std::count(complaints.begin(), complaints.end(), '\n') == 2);
  INFO(complaints);
}

TEST_CASE("page: a user looks at stacks, signals a rank and stops a mesh" *
          doctest::test_suite(need::chromedriver)) {
  const Fixture at("tcp:127.0.0.1:0", {"--http-write"});
  Process job(cli({"run", "--hosts", at.host.address(), "-n", "2", "--name", "job", "--", "sh",
                   "-c", "trap 'echo \"heard in $RANK\"' USR1; while :; do sleep 0.05; done"}));
  const auto name = at.mesh_of(2);
  std::ifstream file(source_dir() + "/tests/integration/controller/accessible.js");
  const std::string check((std::istreambuf_iterator<char>(file)), {});
  Browser browser;
  browser.open(at.url + "/#token=" + at.token + "&view=/mesh/" + name);
  browser.find("#link", "live");
  browser.click("main a", "Stacks");
  browser.find("main p", "Ranks 0-1, looked at in");
  browser.find("main h2", "Ranks 0");
  CHECK(browser.run(check) == "");
  browser.click("main a", "Ranks");
  browser.click("td.number a", "1");
  browser.click("button", "Signal…");
  browser.find("dialog h2", "Send a signal to rank 1 of " + name);
  CHECK(browser.run(check) == "");
  browser.click("dialog button", "Send");
  browser.find("dialog p", "The signal was sent: ranks 1.");
  job.wait_for_output("heard in 1", in_time);
  browser.click("dialog button", "Close");
  browser.click("main a", "Ranks");
  browser.click("button", "Stop…");
  browser.type("dialog input[name=reason]", "enough of it");
  browser.type("dialog input[name=grace_s]", "0");
  browser.click("dialog button", "Cancel");
  CHECK(job.is_running());
  browser.click("button", "Stop…");
  browser.type("dialog input[name=reason]", "enough of it");
  browser.type("dialog input[name=grace_s]", "0");
  browser.click("dialog button", "Stop");
  browser.find("dialog p", "They were asked to stop: ranks 0-1.");
  job.wait_exit(in_time);
  browser.click("dialog button", "Close");
  browser.click("main a", "Why");
  browser.find("main", "enough of it");
  CHECK(browser.complaints() == "");
}
