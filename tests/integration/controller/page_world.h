// A host and its controller with a page, and what the tests of the page have in common.
#pragma once

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/integration/controller/harness.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_dir.h"

namespace meshbus::test::page_world {

using namespace std::chrono_literals;
using nlohmann::json;

inline constexpr const char* kEvil = "<img src=x onerror=\"document.title='PWNED'\">";

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

/// A mesh of one rank whose command, name of a file and last words are markup and escapes.
inline std::string run_evil(const Fixture& at) {
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

}  // namespace meshbus::test::page_world
