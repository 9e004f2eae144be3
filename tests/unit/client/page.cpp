// The page of a controller, as far as it needs no server.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "client/controller/http/controller_metrics.h"
#include "client/controller/http/page_files.h"
#include "client/controller/http/page_token.h"
#include "tests/support/temp_dir.h"

using namespace meshbus;
using namespace meshbus::test;

TEST_CASE("page_token: a file is made once, and only its owner can read it") {
  const TempDir dir;
  const std::string path = dir / "token";
  const auto made = read_page_token(path);
  REQUIRE(made);
  CHECK(made->size() == 64);
  struct stat file{};
  REQUIRE(::stat(path.c_str(), &file) == 0);
  CHECK((file.st_mode & 0777) == 0600);
  CHECK(read_page_token(path) == *made);
  CHECK(read_page_token(dir / "other") != *made);
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  const auto open = read_page_token(path);
  REQUIRE_FALSE(open);
  CHECK(open.error().code() == ErrorCode::configuration_error);
  CHECK(read_page_token(dir / "no/such/folder").error().code() == ErrorCode::io_error);
}

TEST_CASE("page_token: a token that can be guessed is refused") {
  const TempDir dir;
  const std::string path = dir / "token";
  std::ofstream(path) << "short\nlonger than sixteen characters\n";
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  const auto token = read_page_token(path);
  REQUIRE_FALSE(token);
  CHECK(token.error().code() == ErrorCode::configuration_error);
}

TEST_CASE("page_files: the page asks no other server and makes no markup of texts") {
  REQUIRE(page_files().size() >= 10);
  for (const auto& file : page_files()) {
    INFO(file.path);
    CHECK_FALSE(file.bytes.empty());
    CHECK(file.bytes.find("https://") == std::string_view::npos);
    for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                             "eval(", "new Function", "DOMParser", "srcdoc"})
      CHECK(file.bytes.find(word) == std::string_view::npos);
  }
}

TEST_CASE("controller_metrics: late polls and events only grow") {
  ControllerMetrics metrics;
  metrics.set({.polls = 5, .late_polls = 1, .events = 7, .unreachable = 2, .is_up = true});
  const auto text = metrics.render();
  CHECK(text.find("meshbus_controller_late_polls_total 1\n") != std::string::npos);
  CHECK(text.find("meshbus_controller_unreachable_hosts 2\n") != std::string::npos);
  CHECK(text.find("meshbus_controller_up 1\n") != std::string::npos);
  CHECK(text.find("meshbus_controller_acting 1\n") != std::string::npos);
  metrics.set({.polls = 6, .late_polls = 2, .events = 9});
  CHECK(metrics.render().find("meshbus_controller_events_total 9\n") != std::string::npos);
  metrics.set({.is_acting = false, .term = 3});
  CHECK(metrics.render().find("meshbus_controller_acting 0\n") != std::string::npos);
  CHECK(metrics.render().find("meshbus_controller_term 3\n") != std::string::npos);
}
