// Logs of a controller's page.
#include <doctest/doctest.h>

#include <csignal>
#include <optional>

#include "tests/integration/controller/page_world.h"

namespace meshbus::test::page_world {

/// What a view of logs has shown of that stream of its only rank; fails when a byte is missing or
/// came twice. An event that has not come whole yet does not count.
inline std::string shown(const std::string& events, const std::string& stream) {
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

}  // namespace meshbus::test::page_world
