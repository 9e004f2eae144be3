#include <doctest/doctest.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <vector>

#include "client/src/base/handler_gate.h"
#include "client/src/base/handler_thread.h"

using meshbus::HandlerGate;
using meshbus::HandlerThread;

TEST_CASE("handler_thread: runs in order, on one thread that knows itself") {
  std::vector<int> seen;
  bool was_here = false;
  {
    HandlerThread handlers;
    for (int i = 0; i < 100; ++i) handlers.post([&seen, i] { seen.push_back(i); });
    handlers.post([&] { was_here = handlers.is_here(); });
    CHECK_FALSE(handlers.is_here());
    handlers.finish();
  }
  REQUIRE(seen.size() == 100);
  CHECK(seen.front() == 0);
  CHECK(seen.back() == 99);
  CHECK(was_here);
}

TEST_CASE(
    "handler_thread: a handler may post, and what it held is let go while it may post again") {
  HandlerThread handlers;
  std::promise<void> done;
  const std::shared_ptr<void> last(nullptr,
                                   [&](void*) { handlers.post([&] { done.set_value(); }); });
  handlers.post([&handlers, last] { handlers.post([last] {}); });
  const_cast<std::shared_ptr<void>&>(last).reset();
  CHECK(done.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready);
}

TEST_CASE("handler_thread: after the end nothing runs") {
  HandlerThread handlers;
  handlers.finish();
  bool ran = false;
  handlers.post([&] { ran = true; });
  CHECK_FALSE(ran);
}

TEST_CASE("handler_gate: what a handler throws ends nothing, and the next handler is called") {
  HandlerGate gate;
  int calls = 0;
  gate.pass([] { throw std::runtime_error("the user's mistake"); });
  gate.pass([] { throw 7; });
  gate.pass([&] { ++calls; });
  CHECK(calls == 1);
  gate.shut();
  gate.pass([&] { ++calls; });
  CHECK(calls == 1);
}
