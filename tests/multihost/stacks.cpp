// `meshbus stacks` of a job on several hosts (spec 17.4).
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>

#include "tests/multihost/site.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

TEST_CASE("multihost: stacks names the one of 200 ranks on four hosts that hangs elsewhere") {
  Site site(4);
  Process job = site.desk().start(site.run_words(
      {"-n", "200", "--no-prefix", "--name", "train", "--", bin("test_hang"), "137", "read"}));
  const auto count = [&] { return std::count(job.out().begin(), job.out().end(), '\n'); };
  REQUIRE(wait_until([&] { return count() == 200 || !job.is_running(); }, in_time));
  nlohmann::json json;
  const auto is_named = [&] {
    const auto finished = site.desk().run(
        {bin("meshbus"), "stacks", "--hosts", site.addresses(), "--json", "train"}, in_time);
    INFO(finished.err);
    REQUIRE(finished.status == ExitStatus::exited(0));
    json = nlohmann::json::parse(finished.out);
    return json.at("odd").size() == 1;
  };
  // "up" is said a moment before the wait.
  REQUIRE_MESSAGE(wait_until(is_named, in_time), json.dump(1));
  CHECK(json.at("odd")[0].at("ranks") == "137");
  CHECK(json.at("odd")[0].at("where").get<std::string>().find("wait_for_data (test_hang)") !=
        std::string::npos);
  CHECK(json.at("problems").empty());
  MESSAGE("200 ranks on 4 hosts were looked at in " << json.at("took_ms") << " ms");
  const auto text =
      site.desk().run({bin("meshbus"), "stacks", "--hosts", site.addresses(), "train"}, in_time);
  CHECK(text.out.find("rank 137, unlike most: wait_for_data (test_hang), in read(pipe)") !=
        std::string::npos);
  CHECK(text.elapsed < 5s);
  MESSAGE("the command took " << text.elapsed.count() << " ms:\n" << text.out);
  job.send_signal(SIGTERM);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(143));
}
