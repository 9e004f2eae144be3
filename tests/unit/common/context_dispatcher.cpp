#include "common/wire/context_dispatcher.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "wire/bus_generated.h"

using namespace meshbus;

TEST_CASE("context_dispatcher: a handler gets the context of its own message, and rows tell who may") {
  std::vector<std::string> heard;
  ContextDispatcher<int> dispatcher;
  dispatcher
      .on<wire::Bye>(Role::observe,
                     [&](int context, const Request& request, const wire::Bye& bye) {
                       heard.push_back(std::to_string(context) + " " + std::to_string(request.head.id) + " " + bye.reason()->str());
                     })
      .on<wire::Heartbeat>(Role::operate, [&](int, const Request&, const wire::Heartbeat&) { heard.push_back("beat"); });
  const auto send = [&](int context, Role role, ControlBody body) {
    const auto message = ControlMessage::decode(encode_control({.id = 5}, body));
    REQUIRE(message.has_value());
    Request request{{}, message->head()};
    request.envelope.mutate_role(role);
    return dispatcher.dispatch(context, request, *message);
  };
  wire::ByeT bye;
  bye.reason = "it ends";
  CHECK(send(1, Role::observe, bye).has_value());
  CHECK(send(2, Role::operate, bye).has_value());
  CHECK(heard == std::vector<std::string>{"1 5 it ends", "2 5 it ends"});
  CHECK(send(3, Role::none, bye).error().code() == ErrorCode::unauthorised);
  CHECK(send(3, Role::observe, wire::HeartbeatT()).error().code() == ErrorCode::unauthorised);
  CHECK(send(3, Role::operate, wire::AckT()).error().code() == ErrorCode::no_such_port);
  CHECK(heard.size() == 2);
}
