// Messages of a launcher that come back (spec 9.1).
#include <doctest/doctest.h>

#include <future>
#include <stdexcept>

#include "client/src/base/returned_messages.h"

using namespace meshbus;
using namespace std::chrono_literals;

TEST_CASE("returned_messages: the handler hears of each, and all are counted") {
  HandlerThread thread;
  std::promise<ReturnedMessage> heard;
  int calls = 0;
  ReturnedMessages returned(thread, [&](const ReturnedMessage& message) {
    if (++calls == 1) throw std::runtime_error("the user's mistake");
    heard.set_value(message);
  });
  const auto to = *ProcId::parse("unix:/a,m_0-111111111112");
  returned.add({.to = to, .port = 7, .error = Error(ErrorCode::no_such_proc, "gone")}, {});
  returned.add({.to = to, .port = 8, .error = Error(ErrorCode::queue_full, "full")}, {});
  const auto message = heard.get_future().get();
  CHECK(message.to == to);
  CHECK(message.port == 8);
  CHECK(message.error.code() == ErrorCode::queue_full);
  CHECK(returned.count() == 2);
  thread.finish();
}

TEST_CASE("returned_messages: the line says how many, for whom and why") {
  const ReturnedMessage last{.port = 7, .error = Error(ErrorCode::no_such_port, "none")};
  CHECK(ReturnedMessages::describe(12, last) ==
        "12 messages of this launcher have not arrived; the last one was for a proc that this "
        "launcher did not start, "
        "port 7: no_such_port: none");
}
