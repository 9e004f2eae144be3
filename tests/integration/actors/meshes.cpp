// Actor meshes, from a launcher that is this test program: they are made, asked, told and stopped.
#include <future>
#include <map>

#include "tests/integration/actors/actor_world.h"
#include "wire/types_generated.h"

namespace meshbus::test::actor_world {

TEST_CASE("actors: one in each proc of two hosts is made, asked, told and stopped") {
  Actors actors("host=2", "gpu=4");
  auto tally = actors.spawn("counter", "tally", "40");
  CHECK(tally.size() == 8);
  CHECK(values(must(tally.call("add", "2", in_time))) == Texts(8, "42"));
  CHECK(tally.send("add", "8").has_value());
  CHECK(values(must(tally.call(7, "", in_time))) == Texts(8, "50"));
  std::mutex mutex;
  std::map<std::uint64_t, std::string> told;  // guarded by mutex
  tally.call_async(7, "", {.deadline = in_time},
                   [&](std::uint64_t rank, const Result<std::string>& answer) {
                     const std::lock_guard lock(mutex);
                     told[rank] += answer ? *answer : answer.error().to_string();
                   });
  CHECK(wait_until(
      [&] {
        const std::lock_guard lock(mutex);
        return told.size() == 8;
      },
      in_time));
  for (const auto& [rank, answer] : told) CHECK(answer == "50");
  const auto where = must(tally.call("where", "", in_time));
  for (std::uint64_t rank = 0; rank < 8; ++rank)
    CHECK(where[rank].value() == std::to_string(rank) + " " +
                                     must(actors.procs->ref().proc_at(rank)).to_string() +
                                     ",tally[0]");
  const auto states = must(tally.states(in_time));
  REQUIRE(states.size() == 8);
  CHECK(states[5].status == Status::Kind::running);
  CHECK(states[5].type == "counter");
  CHECK(states[5].rank == 5);
  CHECK(states[5].point == "host=1/2,gpu=1/4");
  CHECK(states[5].handled == 5);
  const auto ended = must(tally.stop({.reason = "seen enough"}));
  for (const auto& report : ended) {
    CHECK(report.status == Status::Kind::stopped);
    CHECK(report.reason == "seen enough");
  }
  CHECK(must(tally.stop()).size() == 8);
  const auto late = must(tally.call(7, "", in_time));
  CHECK(late[3].error().code() == ErrorCode::no_such_port);
  CHECK(late[3].error().detail().find("has stopped: seen enough") != std::string::npos);
  CHECK(actors.heard_failures().empty());
  must(actors.procs->stop());
  must(actors.hosts.shutdown(in_time));
}

TEST_CASE(
    "actors: spec 7.1: an unknown type is an error that names those that are known; and what is no "
    "name is none") {
  Actors actors("host=1", "gpu=2");
  const auto unknown = actors.procs->spawn_actors("gauge", "g", "");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().code() == ErrorCode::actor_type_not_registered);
  CHECK(unknown.error().detail().find(
            "its program has no actor type \"gauge\"; it has bad_end, child, counter, dies") !=
        std::string::npos);
  CHECK(unknown.error().detail().find("rank") != std::string::npos);
  CHECK(actors.procs->spawn_actors("counter", "9 lives", "").error().code() ==
        ErrorCode::parse_error);
}

TEST_CASE(
    "actors: spec 7.5: messages of one sender come in order; a full mailbox is told to who sends") {
  Actors actors("host=1", "gpu=2");
  auto tally = actors.spawn("counter", "tally", "0");
  auto small = actors.spawn("small", "small", "0");
  auto social = actors.spawn("social", "social", "");
  std::string expected;
  for (int i = 0; i < 300; ++i) {
    REQUIRE(tally.send("note", std::to_string(i)).has_value());
    expected += std::to_string(i) + " ";
  }
  CHECK(values(must(tally.call("notes", "", in_time))) == Texts(2, expected));
  // From an actor of the other proc, in a row.
  const auto first = must(social.at("gpu", 0));
  const auto to = must(small.ref().actor_at(1)).to_string();
  auto asleep = std::async(std::launch::async, [&] {
    return must(must(small.at("gpu", 1)).call("sleep", "1500", in_time));
  });
  REQUIRE(actors.says(1, "sleeps"));
  CHECK(values(must(first.call("flood", "50 " + to, in_time))) == Texts{"sent"});
  CHECK(actors.says(0, "came back: queue_full: actor " + to + " is behind: 5 messages"));
  const auto full = must(must(small.at("gpu", 1)).call(7, "", in_time));
  CHECK(full[0].error().code() == ErrorCode::queue_full);
  CHECK(values(asleep.get()) == Texts{"slept"});
  CHECK(values(must(must(small.at("gpu", 1)).call("notes", "", in_time))) == Texts{"0 1 2 3 4 "});
  // So is a message to an actor that is not there, or has stopped.
  CHECK(values(must(first.call(
            "flood", "1 " + must(actors.procs->ref().proc_at(1)).to_string() + ",nobody[0]",
            in_time))) == Texts{"sent"});
  CHECK(actors.says(0,
                    "came back: no_such_port: " + must(actors.procs->ref().proc_at(1)).to_string() +
                        " has no actor with port"));
  must(small.stop());
  CHECK(values(must(first.call("flood", "1 " + to, in_time))) == Texts{"sent"});
  CHECK(actors.says(0, "came back: no_such_port: actor " + to + " has stopped: stop"));
}

TEST_CASE("actors: ask each other, answer later, and never wait") {
  Actors actors("host=2", "gpu=1");
  auto social = actors.spawn("social", "social", "");
  CHECK(values(must(social.call("ask right", "hello", in_time))) ==
        Texts{"0 heard 1 hello from a peer", "1 heard 0 hello from a peer"});
  CHECK(must(social.call("ask nobody", "", in_time))[0].error().detail().find(
            "has no actor nobody") != std::string::npos);
  CHECK(must(social.call("sing", "", in_time))[0].error().detail().find(
            "has no handler for message sing; it has ask nobody, ask right, ") !=
        std::string::npos);
  auto social_now = std::move(social);
  // NOLINTNEXTLINE(bugprone-use-after-move): what was moved from still says whose it was.
  CHECK(social.ref() == social_now.ref());
  // NOLINTNEXTLINE(bugprone-use-after-move)
  CHECK(social.call("forget", "", in_time).error().code() == ErrorCode::refused);
  social = std::move(social_now);
  CHECK(must(social.call("forget", "", in_time))[0].error().detail() ==
        "the actor let go of the call without an answer");
  CHECK(must(social.call("wait for myself", "", in_time))[0].error().detail().find("would_block") !=
        std::string::npos);
}

TEST_CASE("actors: delayed messages to oneself come, unless they are cancelled, and are bounded") {
  Actors actors("host=1", "gpu=1");
  auto social = actors.spawn("social", "social", "");
  CHECK(values(must(social.call("tick", "x", in_time))) == Texts{"0"});
  CHECK(wait_until([&] { return values(must(social.call("tocks", "", in_time))) == Texts{"x"}; },
                   in_time));
  CHECK(values(must(social.call("exhaust", "y", in_time))) == Texts{"100"});
  // None of them keeps the actor from stopping.
  CHECK(must(social.stop())[0].status == Status::Kind::stopped);
}

TEST_CASE(
    "actors: spawning again gets the same actors when all is the same, and is refused otherwise") {
  Actors actors("host=1", "gpu=2");
  auto first = actors.spawn("counter", "tally", "1");
  CHECK(values(must(first.call("add", "1", in_time))) == Texts(2, "2"));
  {
    auto again = actors.spawn("counter", "tally", "1");
    CHECK(values(must(again.call(7, "", in_time))) == Texts(2, "2"));
    const auto other = actors.procs->spawn_actors("counter", "tally", "2");
    CHECK(other.error().code() == ErrorCode::refused);
    CHECK(other.error().detail().find(
              "exists with another spec (type counter, rank 0); take another name") !=
          std::string::npos);
    must(again.stop());
  }
  CHECK(wait_until([&] { return first.known()[1].status == Status::Kind::stopped; }, in_time));
  CHECK(actors.procs->spawn_actors("counter", "tally", "1")
            .error()
            .detail()
            .find("a name is used once in the life of a proc") != std::string::npos);
  auto fresh = actors.spawn("counter", must(Name::make("tally")).to_string(), "1");
  CHECK(values(must(fresh.call(7, "", in_time))) == Texts(2, "1"));
}

TEST_CASE("actors: whoever lets go of them stops them; a slice that is left keeps none alive") {
  Actors actors("host=1", "gpu=2");
  std::optional<ActorView> slice;
  {
    auto tally = actors.spawn("counter", "tally", "1");
    slice = must(tally.range("gpu", 0, 1));
  }
  CHECK(wait_until([&] { return must(slice->states(in_time))[0].status == Status::Kind::stopped; },
                   in_time));
  CHECK(must(slice->states(in_time))[0].reason == "the launcher let go of the actors");
}

TEST_CASE("actors: nonsense for an actor, or about one, is refused in words and hurts nobody") {
  Actors actors("host=1", "gpu=1");
  auto tally = actors.spawn("counter", "tally", "1");
  const auto id = must(tally.ref().actor_at(0));
  CHECK(actors.context.call(id.proc(), actor_port(id), "short", in_time).error().code() ==
        ErrorCode::malformed_message);
  CHECK(actors.context.send(id.proc(), actor_port(id), "short").has_value());
  CHECK(actors.context.call(id.proc(), actor_port(must(Name::plain("nobody"))), "", in_time)
            .error()
            .code() == ErrorCode::no_such_port);
  wire::KeyValueT pair;
  pair.key = "loss";
  pair.value = "0.5";
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::KeyValue::Pack(builder, &pair));
  const std::string table(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                          builder.GetSize());
  CHECK(values(must(tally.call("table", table, in_time))) == Texts{"loss is 0.5"});
  for (std::size_t size = 0; size < table.size(); ++size) {
    CAPTURE(size);
    const auto answer = must(tally.call("table", table.substr(0, size), in_time))[0];
    // What is missing may be padding.
    if (answer) {
      CHECK(*answer == "loss is 0.5");
      CHECK(size + 4 > table.size());
    } else {
      CHECK(answer.error().detail().find("malformed_message: message table of") == 0);
    }
  }
  const auto none =
      must(must(ActorView::attach(actors.context,
                                  ActorMeshRef(actors.procs->ref(), must(Name::plain("nobody")))))
               .states(in_time));
  CHECK(none[0].status == Status::Kind::not_exist);
  const auto slice = must(tally.range("gpu", 0, 1));
  CHECK(values(must(slice.call(7, "", in_time))) == Texts{"1"});
  CHECK(tally.range("rack", 0).error().code() != ErrorCode::none);
}

TEST_CASE("actors: spec 9.2: what an actor sends keeps its order, large messages included") {
  Actors actors("host=2", "gpu=2");
  auto tally = actors.spawn("counter", "tally", "0");
  const std::string size = std::to_string(3 * 1024 * 1024);
  // Rank 0 sends to a rank of its host, rank 1 to one of the other.
  CHECK(values(must(tally.call("send right", size, in_time))) == Texts(4, "sent"));
  const std::string heard = "a " + size + " b " + size + " c ";
  CHECK(wait_until(
      [&] { return values(must(tally.call("notes", "", in_time))) == Texts(4, heard); }, in_time));
  // A message that is too large is refused at once, and so is one that would wait without a bound.
  for (const auto& changed : must(actors.context.change_settings(
           actors.procs->ref(), {{"message.limit", "5MiB"}}, in_time)))
    REQUIRE(changed.has_value());
  const auto refusals = [&](const std::string& bytes, const std::string& why) {
    for (const auto& one : must(tally.call("send right", bytes, in_time))) {
      REQUIRE_FALSE(one.has_value());
      CAPTURE(one.error().to_string());
      CHECK(one.error().to_string().find(why) != std::string::npos);
    }
  };
  refusals(std::to_string(6 * 1024 * 1024),
           "a body of 6291472 bytes; the limit is 5242880 (setting message.limit)");
  must(actors.procs->stop());
  must(actors.hosts.shutdown(in_time));
}

TEST_CASE("actors: spec 9.2: large messages that wait behind others leave before their proc ends") {
  Actors actors("host=1", "gpu=2");
  auto tally = actors.spawn("counter", "tally", "0");
  const std::string size = std::to_string(3 * 1024 * 1024);
  const auto right = must(tally.at("gpu", 1));
  CHECK(values(must(must(tally.at("gpu", 0)).call("send right", size, in_time))) == Texts{"sent"});
  must(actors.procs->stop({.reason = "the end", .ranks = {{0, 1}}}));
  const std::string heard = "a " + size + " b " + size + " c ";
  CHECK(wait_until([&] { return values(must(right.call("notes", "", in_time))) == Texts{heard}; },
                   in_time));
}

}  // namespace meshbus::test::actor_world
