// Actors, handlers and the bus share the threads of one proc.
#include <future>
#include <string>
#include <vector>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// A proc with the actors of actor_program, and a launcher.
struct OneProc {
  explicit OneProc(std::vector<std::string> arguments = {})
      : context(must(Context::create())),
        hosts(must(HostMesh::process(context, extent("host=1"), of_this_build()))) {
    ProcSpec spec{.kind = ProcKind::mesh, .command = {bin("meshbus_test_actors")}};
    spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
    spec.output = OutputMode::stream;
    mesh.emplace(must(hosts.spawn("one", extent("gpu=1"), std::move(spec), heard.handlers())));
  }
  std::string ask_handler(std::string_view text) {
    return must(must(context.call(mesh->ref(), 1, text, in_time))[0]);
  }
  std::string ask(const ActorMesh& actor, const MessageType& message, std::string_view text) {
    return must(must(actor.call(message, text, in_time))[0]);
  }

  Heard heard;
  Context context;
  HostMesh hosts;
  std::optional<ProcMesh> mesh;
};

}  // namespace

TEST_CASE("actor threads: handlers, actors and the bus go on in turns while one actor computes") {
  for (const bool has_one_thread : {false, true}) {
    OneProc proc(has_one_thread ? std::vector<std::string>{"one-thread"}
                                : std::vector<std::string>{});
    auto slow = must(proc.mesh->spawn_actors("counter", "slow", "0"));
    auto quick = must(proc.mesh->spawn_actors("counter", "quick", "0"));
    REQUIRE(slow.send("sleep", "60000").has_value());
    REQUIRE(wait_until(
        [&] { return proc.heard.output(0, Stream::err).find("sleeps") != std::string::npos; },
        in_time));
    for (int i = 1; i <= 200; ++i) {
      // Now and then the same kind again.
      for (int again = 0; again <= i % 3; ++again) CHECK(proc.ask_handler("hello") == "hello");
      CHECK(proc.ask(quick, "add", "1") == std::to_string(i));
      for (int again = 0; again <= i % 2; ++again)
        CHECK(proc.ask(quick, 7, "") == std::to_string(i));
    }
    CHECK(must(slow.states(in_time))[0].handled == 0);
    CHECK(must(quick.stop())[0].status == Status::Kind::stopped);
    must(proc.mesh->stop({.grace = 0ms}));
    must(proc.hosts.shutdown(in_time));
  }
}

TEST_CASE("actor threads: many actors are asked at once, while handlers are") {
  OneProc proc;
  constexpr int num_actors = 12;
  std::vector<ActorMesh> actors;
  for (int i = 0; i < num_actors; ++i)
    actors.push_back(
        must(proc.mesh->spawn_actors("counter", "tally" + std::to_string(i), std::to_string(i))));
  std::vector<std::future<bool>> askers;
  for (const auto& actor : actors) {
    askers.push_back(std::async(std::launch::async, [&proc, &actor] {
      bool is_right = true;
      for (int i = 1; i <= 50; ++i)
        is_right = is_right && !proc.ask(actor, "add", "1").empty() && proc.ask_handler("x") == "x";
      return is_right;
    }));
  }
  for (auto& asker : askers) CHECK(asker.get());
  for (int i = 0; i < num_actors; ++i)
    CHECK(proc.ask(actors[static_cast<std::size_t>(i)], 7, "") == std::to_string(50 + i));
  must(proc.mesh->stop());
  must(proc.hosts.shutdown(in_time));
}
