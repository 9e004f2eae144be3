// Answers of actors that are reduced at their hosts, from a launcher that is this test program:
// procs are real processes, on hosts of their own.
#include <atomic>
#include <csignal>
#include <future>

#include "common/wire/collecting.h"
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// Two hosts with an actor in each of four procs. An actor answers what its part of the question
/// says (actor_program).
struct Asked {
  Asked()
      : context(must(Context::create())),
        hosts(must(HostMesh::process(context, extent("host=2"), of_this_build()))) {
    ProcSpec spec{.kind = ProcKind::mesh, .command = {bin("meshbus_test_actors")}};
    spec.output = OutputMode::stream;
    procs.emplace(must(hosts.spawn("asked", extent("gpu=4"), std::move(spec), heard.handlers())));
    actors.emplace(must(
        procs->spawn_actors("counter", "tally", "0", {.on_failure = [](const ActorReport&) {}})));
  }
  Accumulation ask(std::string_view parts, std::string_view reducer,
                   std::chrono::milliseconds deadline = in_time) {
    return must(actors->accumulate("answer", parts, reducer, {.deadline = deadline}));
  }
  /// The answer of `rank` becomes that error.
  bool soon_knows(std::uint64_t rank, ErrorCode code);
  bool says(std::uint64_t rank, const std::string& text) {
    return wait_until(
        [&] { return heard.output(rank, Stream::err).find(text) != std::string::npos; }, in_time);
  }

  Heard heard;
  Context context;
  HostMesh hosts;
  std::optional<ProcMesh> procs;
  std::optional<ActorMesh> actors;
};

std::string value_of(const Accumulation& reduced) {
  return reduced.value ? to_text(*reduced.value) : "nothing";
}
/// The ranks whose answers are in it: "0..3 4..8 "
std::string ranks_of(const Accumulation& reduced) {
  std::string text;
  for (const auto& run : reduced.ranks.runs())
    text += std::to_string(run.begin) + ".." + std::to_string(run.end) + " ";
  return text;
}
ErrorCode code_of(const Accumulation& reduced, std::uint64_t rank) {
  const auto found = reduced.errors.find(rank);
  return found == reduced.errors.end() ? ErrorCode::none : found->second.code();
}

bool Asked::soon_knows(std::uint64_t rank, ErrorCode code) {
  return wait_until([&] { return code_of(ask("1|1|1|1|1|1|1|1", "sum"), rank) == code; }, in_time);
}

}  // namespace

TEST_CASE(
    "accumulate: spec 3.6: answers are reduced at each host, and one message of each comes to who "
    "asks") {
  Asked asked;
  auto sum = asked.ask("1|2|3|4|5|6|7|8", "sum");
  CHECK(value_of(sum) == "36");
  CHECK(sum.is_complete());
  CHECK(sum.errors.empty());
  CHECK(sum.num_ranks == 8);
  CHECK(sum.num_messages == 2);
  CHECK(value_of(asked.ask("1.0|2.0|3.0|4.0|5.0|6.0|7.5|0.25", "max")) == "7.5");
  CHECK(value_of(asked.ask("3|1|2|-4|5|6|7|8", "min")) == "-4");
  CHECK(value_of(asked.ask("a|b|c|d|e|f|g|h", "count")) == "8");
  CHECK(value_of(asked.ask("false|false|true|false|false|false|false|false", "any")) == "true");
  CHECK(value_of(asked.ask("true|true|true|true|true|false|true|true", "all")) == "false");
  CHECK(value_of(asked.ask("0..1=a|1..2=a|2..3=a|3..4=a|4..5=b|5..6=b|6..7=b|7..8=b", "overlay")) ==
        "0..4=a,4..8=b");
  // Slices, whose ranks are not in the order of their hosts' ranks; and ordinals are those of the
  // slice.
  const auto odd = must(asked.actors->range("gpu", 1, 4, 2));
  sum = must(odd.accumulate("answer", "1|2|3|4|5|no|7|8", "sum", {.deadline = in_time}));
  CHECK(value_of(sum) == "14");
  CHECK(ranks_of(sum) == "0..2 3..4 ");
  CHECK(code_of(sum, 2) == ErrorCode::configuration_error);
  CHECK(must(must(asked.actors->at("host", 1))
                 .accumulate("answer", "1|2|3|4|5|6|7|8", "sum", {.deadline = in_time}))
            .num_messages == 1);
  // In order with what was sent before.
  for (int i = 0; i < 50; ++i) REQUIRE(asked.actors->send("add", "2").has_value());
  CHECK(value_of(must(asked.actors->accumulate(7, "", "sum", {.deadline = in_time}))) == "800");
  // Answers that come later.
  CHECK(asked.ask("later|later|later|later|later|later|later|later", "sum", 300ms).errors.size() ==
        8);
  must(asked.procs->stop());
  must(asked.hosts.shutdown(in_time));
}

TEST_CASE("accumulate: whoever has no part has an error, and the others have a sum") {
  Asked asked;
  auto sum = asked.ask("1|fail|abc|4|5|6,5|large|8", "sum");
  CHECK(value_of(sum) == "18");
  CHECK(ranks_of(sum) == "0..1 3..5 7..8 ");
  CHECK(sum.errors.size() == 4);
  CHECK(code_of(sum, 1) == ErrorCode::call_error);
  CHECK(sum.errors.at(1).detail().find("out_of_range: not that much") != std::string::npos);
  CHECK(sum.errors.at(2).to_string().find("reducer sum: expected a number, found \"abc\"") !=
        std::string::npos);
  CHECK(code_of(sum, 5) == ErrorCode::configuration_error);
  CHECK(code_of(sum, 6) == ErrorCode::too_large);
  CHECK(sum.num_messages == 2);
  // An actor that fails, and one that has failed; and no actor at all.
  sum = asked.ask("1|1|1|throw|1|1|1|1", "sum");
  CHECK(value_of(sum) == "7");
  CHECK(sum.errors.at(3).detail().find("has failed: boom") != std::string::npos);
  sum = asked.ask("1|1|1|1|1|1|1|1", "sum");
  CHECK(value_of(sum) == "7");
  CHECK(code_of(sum, 3) == ErrorCode::no_such_port);
  const auto nobody = must(ActorView::attach(
      asked.context, ActorMeshRef(asked.procs->ref(), must(Name::plain("nobody")))));
  sum = must(nobody.accumulate("answer", "", "sum", {.deadline = in_time}));
  CHECK(value_of(sum) == "nothing");
  CHECK(sum.errors.size() == 8);
  CHECK(code_of(sum, 0) == ErrorCode::no_such_port);
  CHECK(code_of(must(asked.actors->accumulate("no such message", "", "sum", {.deadline = in_time})),
                0) == ErrorCode::no_such_port);
  // A deadline.
  sum = asked.ask("1|1|1|1|1|sleep|1|1", "sum", 1s);
  CHECK(value_of(sum) == "6");
  CHECK(code_of(sum, 5) == ErrorCode::timeout);
  CHECK(asked.actors->accumulate("answer", "1", "mean").error().code() == ErrorCode::not_exist);
  // A question that does not fit into one message.
  sum = asked.ask("1|1|1|1|1|1|1|1|" + std::string(2 * 1024 * 1024, 'x'), "sum");
  CHECK(value_of(sum) == "7");
  CHECK(code_of(sum, 3) == ErrorCode::no_such_port);
  CHECK(sum.errors.size() == 1);
  must(asked.procs->stop({.grace = 0ms}));
  // One that has just ended may have heard the question.
  sum = asked.ask("1|1|1|1|1|1|1|1", "sum");
  CHECK(code_of(sum, 7) == ErrorCode::fate_unknown);
  CHECK(asked.soon_knows(7, ErrorCode::no_such_proc));
  must(asked.hosts.shutdown(in_time));
}

TEST_CASE(
    "accumulate: a proc, or a host, that dies meanwhile is of unknown fate, and holds nobody up") {
  Asked asked;
  auto sum = asked.ask("1|2|die|4|5|6|7|8", "sum");
  CHECK(value_of(sum) == "33");
  CHECK(ranks_of(sum) == "0..2 3..8 ");
  CHECK(code_of(sum, 2) == ErrorCode::fate_unknown);
  CHECK(sum.errors.at(2).detail().find("SIGKILL") != std::string::npos);
  CHECK(asked.soon_knows(2, ErrorCode::no_such_proc));
  auto waits = std::async(std::launch::async,
                          [&] { return asked.ask("1|2|3|4|sleep|sleep|sleep|sleep", "sum"); });
  for (std::uint64_t rank = 4; rank < 8; ++rank) REQUIRE(asked.says(rank, "sleeps"));
  const auto begin = std::chrono::steady_clock::now();
  const auto agent = must(asked.hosts.states())[1].pid;
  for (const auto warden : wardens_of(::getpid())) {
    if (const auto roles = find_roles(warden); roles && roles->agent == agent)
      ::kill(warden, SIGKILL);
  }
  sum = waits.get();
  CHECK(std::chrono::steady_clock::now() - begin < 30s);  // not the deadline
  CHECK(value_of(sum) == "7");
  for (std::uint64_t rank = 4; rank < 8; ++rank)
    CHECK(code_of(sum, rank) == ErrorCode::fate_unknown);
}

TEST_CASE(
    "accumulate: snapshots grow; one may end it early, and a reducer of one's own works here") {
  Asked asked;
  std::vector<Accumulation> seen;
  std::atomic<bool> has_seen{false};
  auto waits = std::async(std::launch::async, [&] {
    return must(asked.actors->accumulate(
        "answer", "1|2|3|4|5|6|7|later", "sum",
        {.deadline = in_time, .on_snapshot = [&](const Accumulation& so_far) {
           seen.push_back(so_far);
           has_seen = true;
           return true;
         }}));
  });
  // Before the last answer there is a snapshot of the others.
  REQUIRE(wait_until([&] { return has_seen.load(); }, in_time));
  const auto last = must(asked.actors->at("host", 1));
  REQUIRE(wait_until(
      [&] {
        return must(last.call("answer", "|||||||now", in_time)).size() == 4 &&
               waits.wait_for(0s) == std::future_status::ready;
      },
      in_time));
  const auto sum = waits.get();
  CHECK(sum.num_ranks == 8);
  std::uint64_t before = 0;
  for (const auto& one : seen) {
    CHECK(one.ranks.num_ranks() >= before);
    CHECK(one.value.has_value());
    before = one.ranks.num_ranks();
  }
  CHECK(before >= 1);
  CHECK(value_of(sum) == "29");
  // Enough.
  const auto early = must(asked.actors->accumulate(
      "answer", "1|2|3|4|5|6|7|later", "sum",
      {.deadline = in_time,
       .on_snapshot = [](const Accumulation& so_far) { return so_far.ranks.num_ranks() < 7; }}));
  CHECK(value_of(early) == "28");
  CHECK(early.errors.empty());
  std::stop_source stop;
  stop.request_stop();
  CHECK_FALSE(must(asked.actors->accumulate("answer", "1|2|3|4|5|6|7|later", "sum",
                                            {.deadline = in_time, .stop = stop.get_token()}))
                  .is_complete());
  Reducers own;
  REQUIRE(own.add("longest",
                  [](std::string into, const std::string& update) {
                    return into.size() < update.size() ? update : into;
                  })
              .has_value());
  const auto longest = must(asked.actors->accumulate("answer", "a|bb|c|fail|e|f|g|h", "longest",
                                                     {.deadline = in_time, .reducers = &own}));
  CHECK(value_of(longest) == "bb");
  CHECK(code_of(longest, 3) == ErrorCode::call_error);
  CHECK(longest.num_messages == 8);
}

TEST_CASE("accumulate: each answer that trickles in makes a snapshot of its own") {
  Asked asked;
  std::atomic<std::uint64_t> num_answered = 0;
  std::vector<std::string> seen;
  auto waits = std::async(std::launch::async, [&] {
    return must(asked.actors->accumulate(
        "answer", "later|later|later|later|later|later|later|later", "sum",
        {.deadline = in_time, .on_snapshot = [&](const Accumulation& so_far) {
           seen.push_back(ranks_of(so_far) + value_of(so_far));
           num_answered = so_far.ranks.num_ranks();
           return true;
         }}));
  });
  for (std::uint64_t rank = 0; rank < 8; ++rank) {
    const auto one = must(must(asked.actors->at("host", rank / 4)).at("gpu", rank % 4));
    // Again if the question had not come yet.
    REQUIRE(wait_until(
        [&] {
          must(one.call("answer", std::string(rank, '|') + "now", in_time));
          return num_answered > rank ||
                 (rank == 7 && waits.wait_for(0s) == std::future_status::ready);
        },
        in_time));
  }
  const auto sum = waits.get();
  CHECK(value_of(sum) == "8");
  CHECK(sum.is_complete());
  CHECK(seen == std::vector<std::string>{"0..1 1", "0..2 2", "0..3 3", "0..4 4", "0..5 5", "0..6 6",
                                         "0..7 7"});
  CHECK(sum.num_messages == 8);
}

TEST_CASE(
    "accumulate: an agent that takes another's place has forgotten what was asked, and takes the "
    "next question") {
  Asked asked;
  std::promise<void> has_five;
  bool is_told = false;
  auto waits = std::async(std::launch::async, [&] {
    return must(asked.actors->accumulate(
        "answer", "1|2|3|4|5|later|later|later", "sum",
        {.deadline = in_time, .on_snapshot = [&](const Accumulation& so_far) {
           if (so_far.ranks.num_ranks() == 5 && !std::exchange(is_told, true)) has_five.set_value();
           return true;
         }}));
  });
  REQUIRE(has_five.get_future().wait_for(in_time) == std::future_status::ready);
  const auto agent = must(asked.hosts.states())[1].pid;
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(::kill(static_cast<pid_t>(agent), SIGKILL) == 0);
  const auto sum = waits.get();
  CHECK(std::chrono::steady_clock::now() - begin < 30s);  // not the deadline
  CHECK(value_of(sum) == "15");
  CHECK(ranks_of(sum) == "0..5 ");
  CHECK(sum.errors.size() == 3);
  for (std::uint64_t rank = 5; rank < 8; ++rank)
    CHECK(code_of(sum, rank) == ErrorCode::fate_unknown);
  REQUIRE(wait_until(
      [&] {
        const auto states = asked.hosts.states();
        return states && (*states)[1].code == ErrorCode::none && (*states)[1].pid != agent;
      },
      in_time));
  // What is answered to the one that is gone is nobody's.
  must(asked.actors->call("answer", "1|2|3|4|5|now|now|now", in_time));
  CHECK(value_of(asked.ask("1|2|3|4|5|6|7|8", "sum")) == "36");
}

TEST_CASE("accumulate: who asked may be gone when ranks answer, and nobody else hears of it") {
  Asked asked;
  std::string addresses;
  for (const auto& host : asked.procs->ref().hosts())
    addresses += (addresses.empty() ? "" : ",") + host.to_string();
  Process asker(cli({"call", "--hosts", addresses, "--actor", "tally", "--reduce", "sum", "asked",
                     "answer", "later|later|later|later|later|later|later|sleep"}));
  REQUIRE(asked.says(7, "sleeps"));
  asker.send_signal(SIGKILL);
  asker.wait_exit(in_time);
  const auto others = must(asked.actors->range("gpu", 0, 3));
  CHECK(must(others.call("answer", "now|now|now|now|now|now|now|now", in_time))[0].has_value());
  CHECK(value_of(must(
            others.accumulate("answer", "1|2|3|4|5|6|7|8", "sum", {.deadline = in_time}))) == "24");
  must(asked.procs->stop({.grace = 0ms}));
}

TEST_CASE(
    "accumulate: spec 13.3: what strangers send to an agent is refused in words, and bounded") {
  Asked asked;
  const auto agent = host_service(asked.procs->ref().hosts()[0]);
  const auto tell = [&](const CollectOrder& order) {
    return asked.context.call(agent, 1, encode(order), in_time).error();
  };
  CHECK(asked.context.call(agent, 1, "nonsense", in_time).error().code() ==
        ErrorCode::malformed_message);
  CHECK(asked.context.call(agent, 99, "", in_time).error().code() == ErrorCode::no_such_port);
  CollectOrder order{.ticket = 1,
                     .mesh = asked.procs->ref().mesh().to_string(),
                     .reducer = "sum",
                     .ranks = {{0, 4}},
                     .asker = agent.to_string(),
                     .limit = 60s};
  CHECK(tell(order).code() == ErrorCode::identity_mismatch);
  order.asker = "nobody";
  CHECK(tell(order).code() == ErrorCode::parse_error);
  // Answers of nobody, for nothing; and ends of what is not there.
  for (const std::uint32_t port : {2U, 4U, 7U}) {
    for (const std::string& body :
         {std::string(), std::string("abc"), std::string(16, '\xff'), std::string(400 * 1024, 'x')})
      CHECK(asked.context.send(agent, port, body).has_value());
  }
  CHECK(value_of(asked.ask("1|2|3|4|5|6|7|8", "sum")) == "36");
  // So many at once of one launcher.
  std::vector<std::future<Accumulation>> many;
  for (int i = 0; i < 40; ++i)
    many.push_back(
        std::async(std::launch::async, [&] { return asked.ask("1|2|3|4|5|6|7|8", "sum"); }));
  for (auto& one : many) CHECK(value_of(one.get()) == "36");
}
