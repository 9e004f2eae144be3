#include "agent/warden/run_dir.h"

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/support/temp_dir.h"

using namespace meshbus;

TEST_CASE("run_dir: a host can be made while another one looks for what was left there") {
  const test::TempDir dir;
  const std::string base = dir / "base";
  REQUIRE(warden::prepare_base_dir(base).has_value());
  std::atomic<bool> is_over = false;
  std::atomic<std::size_t> stale = 0;
  const auto look = [&] {
    while (!is_over) stale += warden::find_stale_hosts(base).size();
  };
  std::thread first(look), second(look);
  for (int i = 0; i < 1000; ++i) {
    const auto made = warden::make_host_dir(base);
    CHECK_MESSAGE(made.has_value(), (made ? "" : made.error().detail()));
    if (made) std::filesystem::remove_all(made->path);
  }
  is_over = true;
  first.join();
  second.join();
  CHECK(stale == 0);
}
