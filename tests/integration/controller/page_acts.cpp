// What a controller's page does, and what it refuses.
#include <doctest/doctest.h>

#include <csignal>

#include "tests/integration/controller/openapi.h"
#include "tests/integration/controller/page_world.h"

namespace meshbus::test::page_world {

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

  // A frozen host did nothing, and the page does not say that it did. (It may do it later, so this
  // is a signal that ends nothing.)
  const pid_t agent = at.host.ready().at("agent_pid");
  REQUIRE(::kill(agent, SIGSTOP) == 0);
  const auto silent = at.post("/api/signal", {{"mesh", name}, {"signal", "URG"}});
  ::kill(agent, SIGCONT);
  CHECK(silent.status == 502);
  CHECK(json::parse(silent.body).at("ranks") == "none");
  const auto not_done = json::parse(silent.body).at("not_done").at(0).get<std::string>();
  CHECK(not_done.starts_with("ranks 0-1 on host " + at.host.address() + ": timeout: "));
  CHECK(not_done.ends_with("; it may have done it, or do it later"));
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

}  // namespace meshbus::test::page_world
