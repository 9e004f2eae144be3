#include "meshbus/accumulator.h"

#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/mesh/property.h"
#include "tests/unit/mesh/random.h"

using namespace meshbus;
using namespace std::chrono_literals;
using Deliver = Accumulator::Deliver;

namespace {

constexpr Accumulator::Time t0{100s};

Reducer reducer(std::string_view name) {
  return Reducers::builtin().find(name).value();
}

ReplyValue number(std::int64_t value) {
  return value;
}

std::int64_t number_of(const Partial& partial) {
  return std::get<std::int64_t>(partial.value);
}

ReplyValue reduced(std::string_view name, std::vector<ReplyValue> replies) {
  const Reducer by = reducer(name);
  ReplyValue into = by.lift(replies.at(0)).value();
  for (std::size_t i = 1; i < replies.size(); ++i)
    REQUIRE(by.combine(into, by.lift(replies[i]).value()).has_value());
  return into;
}

}  // namespace

TEST_CASE("reducer: what the built-in ones do") {
  CHECK(reduced("sum", {number(3), number(-5), number(9)}) == number(7));
  CHECK(reduced("sum", {1.5, 2.0}) == ReplyValue(3.5));
  CHECK(reduced("min", {number(3), number(-5), number(9)}) == number(-5));
  CHECK(reduced("max", {number(3), number(-5), number(9)}) == number(9));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(reduced("max", {nan, 2.0, nan, 1.0}) == ReplyValue(2.0));
  CHECK(reduced("min", {2.0, nan, 1.0}) == ReplyValue(1.0));
  CHECK(reduced("count", {true, number(7), std::string("x")}) == number(3));
  CHECK(reduced("any", {false, true, false}) == ReplyValue(true));
  CHECK(reduced("any", {false, false}) == ReplyValue(false));
  CHECK(reduced("all", {true, true}) == ReplyValue(true));
  CHECK(reduced("all", {true, false}) == ReplyValue(false));
  CHECK(reduced("overlay", {parse_overlay("0..5=A").value(), parse_overlay("3..7=B").value()}) ==
        ReplyValue(parse_overlay("0..3=A,3..7=B").value()));
  CHECK(reduced("overlay",
                {parse_statuses("Running=0..5").value(), parse_statuses("Failed=4..5").value()}) ==
        ReplyValue(parse_statuses("Running=0..4;Failed=4..5").value()));
}

TEST_CASE("reducer: what does not go together is an error and changes nothing") {
  const Reducer sum = reducer("sum");
  CHECK(sum.lift(true).error().to_string() ==
        "configuration_error: reducer sum: expected numbers, found bool");
  ReplyValue into = number(1);
  CHECK(sum.combine(into, 1.5).error().to_string() ==
        "configuration_error: reducer sum: int64 and double do not go together");
  CHECK(sum.combine(into, number(std::numeric_limits<std::int64_t>::max())).error().code() ==
        ErrorCode::too_large);
  CHECK(into == number(1));
  CHECK(reducer("any").lift(number(1)).error().code() == ErrorCode::configuration_error);
  CHECK(reducer("overlay").lift(std::string("x")).error().code() == ErrorCode::configuration_error);
}

TEST_CASE("reducer: users' own, by name") {
  Reducers reducers;
  REQUIRE(reducers
              .add("join",
                   [](std::string into, const std::string& update) { return into + "+" + update; })
              .has_value());
  const Reducer join = reducers.find("join").value();
  ReplyValue into = std::string("a");
  REQUIRE(join.combine(into, std::string("b")).has_value());
  CHECK(into == ReplyValue(std::string("a+b")));
  CHECK(reducers.find("sum").has_value());
  const auto keep = [](std::string mine, const std::string&) { return mine; };
  CHECK(reducers.add("join", keep).error().code() == ErrorCode::configuration_error);
  CHECK(reducers.add("sum", keep).error().code() == ErrorCode::configuration_error);
  CHECK(reducers.add("no good", keep).error().code() == ErrorCode::configuration_error);
  CHECK(reducers.find("avg").error().to_string() ==
        "not_exist: reducer \"avg\": there are all, any, count, max, min, overlay, sum, join");
  CHECK(Reducers::builtin().find("join").error().code() == ErrorCode::not_exist);
}

TEST_CASE(
    "accumulator: snapshots come 1 ms after the first news, then less and less often, at most "
    "every 50 ms") {
  Accumulator replies(reducer("sum"), 1000, Deliver::snapshots);
  CHECK_FALSE(replies.next_due().has_value());
  std::vector<std::chrono::microseconds> taken;
  std::int64_t sum = 0;
  for (auto now = t0; now < t0 + 400ms; now += 500us) {
    REQUIRE(replies.add(static_cast<std::uint64_t>(sum % 999), number(1), now).has_value());
    ++sum;
    if (const auto snapshot = replies.take(now)) {
      CHECK(number_of(*snapshot) == sum);
      taken.push_back(std::chrono::duration_cast<std::chrono::microseconds>(now - t0));
    }
  }
  // The first one 1 ms after its first news, which comes 0.5 ms after the one before.
  const std::vector<std::chrono::microseconds> expected = {
      1000us,   2500us,   4500us,   8500us,   16500us,  32500us, 64500us,
      114500us, 164500us, 214500us, 264500us, 314500us, 364500us};
  CHECK(taken == expected);
  // After a silence the next news need not wait for long; without news there is nothing to tell.
  CHECK(replies.take(t0 + 1s).has_value());
  CHECK_FALSE(replies.take(t0 + 2s).has_value());
  REQUIRE(replies.add(0, number(1), t0 + 3s).has_value());
  CHECK(replies.next_due() == t0 + 3s + 1ms);
  CHECK_FALSE(replies.take(t0 + 3s).has_value());
}

TEST_CASE("accumulator: once means all of it, when every rank is in") {
  Accumulator replies(reducer("max"), 3, Deliver::once);
  REQUIRE(replies.add(2, number(5), t0).has_value());
  REQUIRE(replies.add(0, number(9), t0).has_value());
  REQUIRE(replies.add(0, number(7), t0).has_value());
  CHECK_FALSE(replies.next_due().has_value());
  CHECK_FALSE(replies.take(t0 + 1h).has_value());
  CHECK(replies.missing() == Overlay<bool>::of({{1, 2, true}}));
  REQUIRE(replies.add(1, number(1), t0 + 1h).has_value());
  CHECK(replies.next_due() <= t0 + 1h);
  const auto all = replies.take(t0 + 1h);
  REQUIRE(all.has_value());
  CHECK(number_of(*all) == 9);
  CHECK(all->is_complete);
  CHECK(all->ranks == Overlay<bool>::of({{0, 3, true}}));
  CHECK_FALSE(replies.take(t0 + 2h).has_value());
}

TEST_CASE("accumulator: the last rank is told at once") {
  Accumulator replies(reducer("count"), 2, Deliver::snapshots);
  REQUIRE(replies.add(0, true, t0).has_value());
  REQUIRE(replies.take(t0 + 1ms).has_value());
  REQUIRE(replies.add(1, true, t0 + 1ms).has_value());
  const auto all = replies.take(t0 + 1ms);
  REQUIRE(all.has_value());
  CHECK(all->is_complete);
  CHECK(number_of(*all) == 2);
}

TEST_CASE("accumulator: no ranks, unknown ranks and replies that cannot be reduced") {
  Accumulator none(reducer("sum"), 0, Deliver::once);
  CHECK(none.is_complete());
  CHECK_FALSE(none.take(t0).has_value());
  CHECK(none.add(0, number(1), t0).error().code() == ErrorCode::out_of_range);
  Accumulator replies(reducer("sum"), 2, Deliver::snapshots);
  CHECK(replies.add(2, number(1), t0).error().to_string() ==
        "out_of_range: replies: expected ranks below 2, found one of rank 2");
  CHECK(replies.add(1, true, t0).error().to_string() ==
        "configuration_error: reply of rank 1: reducer sum: expected numbers, found bool");
  CHECK(replies.add(Partial{true, Overlay<bool>::of({{0, 1, true}}), false}, t0).error().code() ==
        ErrorCode::configuration_error);
  CHECK(replies.add(Partial{number(1), Overlay<bool>::of({{0, 3, true}}), false}, t0)
            .error()
            .code() == ErrorCode::out_of_range);
  CHECK_FALSE(replies.next_due().has_value());
  CHECK(replies.missing().num_ranks() == 2);
}

TEST_CASE("accumulator: reduced on the way at hosts, nothing is lost and nothing counts twice") {
  test::for_cases(
      300,
      [](test::Random& random) {
        const std::uint64_t ranks = 1 + random() % 40;
        const std::uint64_t hosts = 1 + random() % 4;
        const std::string_view name = random() % 2 == 0 ? "sum" : "count";
        std::vector<Accumulator> on_hosts(hosts, Accumulator(reducer(name), ranks, Deliver::parts));
        Accumulator whole(reducer(name), ranks, Deliver::snapshots);
        Accumulator statuses_here(reducer("overlay"), ranks, Deliver::parts);
        Accumulator statuses(reducer("overlay"), ranks, Deliver::once);
        std::map<std::uint64_t, Status> model;
        std::int64_t expected = 0;
        std::optional<Partial> last;
        auto now = t0;
        const auto pass_on = [&] {
          for (Accumulator& host : on_hosts) {
            if (const auto part = host.take(now)) REQUIRE(whole.add(*part, now).has_value());
          }
          if (const auto part = statuses_here.take(now))
            REQUIRE(statuses.add(*part, now).has_value());
          if (auto news = whole.take(now)) last = std::move(news);
        };
        for (std::uint64_t n = 0; n < 3 * ranks;
             ++n, now += std::chrono::microseconds(random() % 3000)) {
          const std::uint64_t rank = n < ranks ? n : random() % ranks;
          const auto value = static_cast<std::int64_t>(random() % 100);
          expected += name == "sum" ? value : 1;
          REQUIRE(on_hosts[rank % hosts].add(rank, number(value), now).has_value());
          const Status status = random() % 2 == 0 ? Status(Status::Kind::running)
                                                  : Status::failed("exit " + std::to_string(value));
          model[rank] = status;
          REQUIRE(statuses_here.add(rank, StatusOverlay::of({{rank, rank + 1, status}}), now)
                      .has_value());
          pass_on();
        }
        now += 1s;
        pass_on();
        now += 1s;
        pass_on();
        REQUIRE(last.has_value());
        REQUIRE(number_of(*last) == expected);
        REQUIRE(last->is_complete);
        REQUIRE(last->ranks == Overlay<bool>::of({{0, ranks, true}}));
        const auto all = statuses.take(now);
        REQUIRE(all.has_value());
        for (const auto& [rank, status] : model)
          REQUIRE(*std::get<StatusOverlay>(all->value).find(rank) == status);
      },
      40);
}

TEST_CASE("reducer: an answer is read as the text that to_text() writes") {
  const auto read = [](std::string_view name, std::string_view answer) {
    return reducer(name).read(answer);
  };
  for (const ReplyValue& value :
       {ReplyValue(std::int64_t{0}), ReplyValue(std::numeric_limits<std::int64_t>::min()),
        ReplyValue(0.1), ReplyValue(2.0), ReplyValue(-1e300),
        ReplyValue(std::numeric_limits<double>::infinity())})
    CHECK(read("sum", to_text(value)).value() == value);
  CHECK(to_text(ReplyValue(2.0)) == "2.0");
  CHECK(kind_of(read("max", "nan").value()) == "double");
  CHECK(kind_of(read("max", "-0.0").value()) == "double");
  CHECK(read("any", to_text(ReplyValue(true))).value() == ReplyValue(true));
  CHECK(read("all", "false").value() == ReplyValue(false));
  CHECK(to_text(read("overlay", "0..3=A,5..6=\"two words\"").value()) ==
        "0..3=A,5..6=\"two words\"");
  CHECK(read("count", "whatever").has_value());
  for (const char* wrong : {"", "abc", "1 ", " 1", "0x10", "1,5", "--1", "9223372036854775808",
                            "12345678901234567890123"}) {
    INFO(wrong);
    CHECK(read("sum", wrong).error().code() == ErrorCode::configuration_error);
  }
  CHECK(read("any", "1").error().detail() == "reducer any: expected true or false, found \"1\"");
  CHECK(read("overlay", "0..3").error().code() == ErrorCode::configuration_error);
  Reducers own;
  REQUIRE(own.add("join", [](std::string into, const std::string& update) { return into + update; })
              .has_value());
  CHECK(own.find("join").value().read("bytes").value() == ReplyValue(std::string("bytes")));
}
