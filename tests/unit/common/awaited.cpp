#include "common/loop/awaited.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>

using namespace meshbus;

namespace {

using Waiting = Awaited<std::string>;

std::shared_ptr<Waiting::Bringer> bringer_of(const std::shared_ptr<Waiting>& waiting) {
  return std::make_shared<Waiting::Bringer>(waiting, [] { return std::string("nobody"); });
}

}  // namespace

TEST_CASE("awaited: an answer is there once it was brought, and the first one counts") {
  const auto waiting = std::make_shared<Waiting>();
  const auto bringer = bringer_of(waiting);
  CHECK_FALSE(waiting->is_here());
  bringer->bring("first");
  CHECK(waiting->is_here());
  bringer->bring("second");
  CHECK(waiting->take() == "first");
}

TEST_CASE("awaited: what was never brought has an answer, too") {
  const auto waiting = std::make_shared<Waiting>();
  auto bringer = bringer_of(waiting);
  auto copy = bringer;
  bringer.reset();
  CHECK_FALSE(waiting->is_here());
  copy.reset();
  REQUIRE(waiting->is_here());
  CHECK(waiting->take() == "nobody");
}

TEST_CASE("awaited: a thread waits for what another one brings") {
  for (int i = 0; i < 200; ++i) {
    const auto waiting = std::make_shared<Waiting>();
    std::thread other([bringer = bringer_of(waiting), i] { bringer->bring(std::to_string(i)); });
    CHECK(waiting->take() == std::to_string(i));
    other.join();
  }
}
