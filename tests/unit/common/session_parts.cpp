#include <doctest/doctest.h>

#include <chrono>

#include "common/bus/connect_attempts.h"
#include "common/bus/credit_account.h"
#include "common/bus/data_inbox.h"
#include "common/bus/session_heartbeat.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

const Reactor::Time kStart{10s};

/// A data frame with so many messages.
void push_frame(DataInbox& inbox, int messages) {
  FrameWriter writer(wire::Lane::data);
  wire::Envelope envelope;
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_lane(wire::Lane::data);
  for (int i = 0; i < messages; ++i) writer.add(envelope, "hello");
  auto parts = writer.finish().parts;
  const auto reader = FrameReader::open(parts);
  REQUIRE(reader.has_value());
  inbox.push(std::move(parts), *reader);
}

}  // namespace

TEST_CASE("credit_account: data beyond the window waits until the broker has taken some") {
  CreditAccount credit(/*is_link=*/false);
  CHECK(credit.may_send(2 * kWindow));  // the broker gives no credit yet
  credit.set_credited(true);
  credit.on_sent(kWindow);
  CHECK_FALSE(credit.may_send(100));
  credit.on_credit(kWindow - 1);
  CHECK(credit.under_way() == 1);
  CHECK(credit.may_send(100));
  // More than was sent cannot be taken, and credit never goes back.
  credit.on_credit(10 * kWindow);
  CHECK(credit.under_way() == 0);
  credit.on_credit(0);
  CHECK(credit.under_way() == 0);
}

TEST_CASE("credit_account: what was taken is announced by size at once, otherwise after a time") {
  CreditAccount credit(/*is_link=*/false);
  CHECK_FALSE(credit.has_news());
  credit.take_data(10);
  CHECK(credit.has_news());
  CHECK_FALSE(credit.is_due(kStart));
  CHECK_FALSE(credit.is_due(kStart + 249ms));
  CHECK(credit.is_due(kStart + 250ms));
  credit.on_announced();
  CHECK_FALSE(credit.has_news());
  credit.take_data(kCreditStep);
  CHECK(credit.is_due(kStart + 251ms));
  credit.on_announced();
  credit.take_control(1);
  CHECK_FALSE(credit.is_due(kStart + 1h));
  credit.take_control(256 * 1024);
  CHECK(credit.is_due(kStart + 1h));
}

TEST_CASE("session_heartbeat: silence is a loss, unless this process was away itself") {
  SessionHeartbeat heartbeat;
  using Verdict = SessionHeartbeat::Verdict;
  heartbeat.begin(1000ms, kStart);
  CHECK(heartbeat.due() == kStart + 500ms);
  CHECK(heartbeat.check(kStart + 500ms) == Verdict::send);
  heartbeat.on_sent();
  CHECK(heartbeat.check(kStart + 1000ms) == Verdict::nothing);
  auto now = kStart + 1000ms;
  while (now < kStart + 3000ms) CHECK(heartbeat.check(now += 500ms) != Verdict::lost);
  CHECK(heartbeat.check(kStart + 3500ms) == Verdict::lost);
  heartbeat.begin(1000ms, kStart);
  CHECK(heartbeat.check(kStart + 1h) == Verdict::send);
}

TEST_CASE("connect_attempts: attempts come later and later, and an end in silence is no accident") {
  ConnectAttempts attempts("tcp:h1:7420", /*has_keys=*/true, /*is_link=*/false);
  for (const auto most : {10ms, 20ms, 40ms, 80ms, 160ms, 320ms, 500ms, 500ms}) {
    const auto delay = attempts.next_delay();
    CHECK(delay >= most / 2);
    CHECK(delay <= most);
  }
  CHECK(attempts.next_server(2) == 0);
  for (int i = 0; i < 3; ++i)
    CHECK_FALSE(
        attempts.on_handshake_failed(BrokerSocket::Failure::silent, true, kStart).has_value());
  CHECK(attempts.next_server(2) == 1);
  CHECK_FALSE(attempts.on_handshake_failed(BrokerSocket::Failure::silent, true, kStart + 999ms)
                  .has_value());
  const auto error = attempts.on_handshake_failed(BrokerSocket::Failure::silent, true, kStart + 1s);
  REQUIRE(error.has_value());
  CHECK(error->code() == ErrorCode::identity_mismatch);
  CHECK(attempts.take_trouble("late") == error->detail());
  CHECK(attempts.take_trouble("late") == "late");
  attempts.on_up();
  CHECK(attempts.next_delay() <= 10ms);
  for (int i = 0; i < 10; ++i)
    CHECK_FALSE(
        attempts.on_handshake_failed(BrokerSocket::Failure::silent, true, kStart + 1h).has_value());
  // There may be room later.
  for (int i = 0; i < 10; ++i)
    CHECK_FALSE(attempts.on_handshake_failed(BrokerSocket::Failure::no_greeting, true, kStart + 2h)
                    .has_value());
  CHECK(attempts.take_trouble("late").find("closes the connection before it says anything") !=
        std::string::npos);
  CHECK_FALSE(
      attempts.on_handshake_failed(BrokerSocket::Failure::no_room, true, kStart).has_value());
  CHECK(attempts.take_trouble("").find("set connections.per_key higher there") !=
        std::string::npos);
  CHECK(attempts.on_handshake_failed(BrokerSocket::Failure::unauthorised, true, kStart)->code() ==
        ErrorCode::unauthorised);
}

TEST_CASE("data_inbox: held data waits, and a handler may clear the inbox") {
  using Outcome = DataInbox::Outcome;
  DataInbox inbox;
  int count = 0;
  const auto handler = [&](const FrameReader::Message& message, const auto&) {
    CHECK(message.body == "hello");
    ++count;
  };
  push_frame(inbox, 3);
  push_frame(inbox, 2);
  inbox.set_held(true);
  CHECK(inbox.hand_out(false, handler) == Outcome::done);
  CHECK(count == 0);
  CHECK(inbox.bytes() > 0);
  CHECK(inbox.hand_out(true, handler) == Outcome::done);
  CHECK(count == 5);
  CHECK(inbox.bytes() == 0);
  inbox.set_held(false);
  push_frame(inbox, 3);
  CHECK(inbox.hand_out(true, [&](const auto&, const auto&) { inbox.clear(); }) == Outcome::cleared);
  CHECK(inbox.empty());
}
