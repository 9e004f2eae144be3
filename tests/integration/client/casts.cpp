// Casting to real procs on real hosts, from a launcher and from a proc.
#include <algorithm>
#include <csignal>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

struct Ranks {
  Ranks()
      : context(must(Context::create())),
        hosts(must(HostMesh::process(context, extent("host=2"), of_this_build()))) {
    mesh.emplace(
        must(hosts.spawn("ranks", extent("gpu=3"),
                         {.kind = ProcKind::mesh, .command = {bin("meshbus_test_proc"), "serve"}},
                         heard.handlers())));
  }
  std::vector<Result<std::string>> ask(const ProcMeshRef& view, std::uint32_t port,
                                       std::string_view body = {}) {
    return must(context.call(view, port, body, in_time));
  }
  Context context;
  HostMesh hosts;
  Heard heard;
  std::optional<ProcMesh> mesh;
};

}  // namespace

TEST_CASE(
    "client: spec 7.6: a call to a view of a mesh is answered by each of its ranks, which know "
    "their places in it") {
  Ranks ranks;
  const auto ref = ranks.mesh->ref();
  auto answers = ranks.ask(ref, 13);
  REQUIRE(answers.size() == 6);
  CHECK(must(answers[0]) == "host=0/2,gpu=0/3");
  CHECK(must(answers[5]) == "host=1/2,gpu=2/3");
  answers = ranks.ask(must(must(ref.at("gpu", 1)).range("host", 1)), 13);
  REQUIRE(answers.size() == 1);
  CHECK(must(answers[0]) == "host=0/1");
  CHECK(must(must(ranks.mesh->proc(0)).call(ranks.context, 13, "")) == "not cast");
  // Large bodies ride by reference, larger ones in chunks.
  const std::string large(900 * 1024, 'x');
  for (const auto& answer : ranks.ask(ref, 1, large)) CHECK(must(answer) == large);
  const std::string larger(1024 * 1024, 'x');
  for (const auto& answer : ranks.ask(ref, 1, larger)) CHECK((must(answer) == larger));
  for (const auto& answer : ranks.ask(ref, 99))
    CHECK(answer.error().code() == ErrorCode::no_such_port);
  for (const auto& answer : ranks.ask(ref, 3, "thrown"))
    CHECK(answer.error().to_string().find("thrown") != std::string::npos);

  // A dead rank is an error of its own, and slices beside it go on.
  REQUIRE(ranks.mesh->signal({RankBlock{4, 5}}, SIGKILL).has_value());
  must(ranks.mesh->wait_for_failure(in_time));
  answers = ranks.ask(ref, 1, "still");
  for (std::size_t rank = 0; rank < 6; ++rank) CHECK(answers[rank].has_value() == (rank != 4));
  CHECK(answers[4].error().code() == ErrorCode::no_such_proc);
  must(ranks.mesh->stop({.grace = 5s}));
  for (const auto& answer : ranks.ask(ref, 1))
    CHECK(answer.error().code() == ErrorCode::no_such_proc);
  must(ranks.hosts.shutdown(in_time));
}

TEST_CASE("client: spec 7.5: procs cast too, in order with their other messages") {
  Ranks ranks;
  const auto ref = ranks.mesh->ref();
  CHECK(must(ranks.context.call(must(ref.proc_at(0)), 14, "", in_time)) ==
        "host=0/2,gpu=0/2;host=0/2,gpu=1/2;host=1/2,gpu=0/2;host=1/2,gpu=1/2;");
  CHECK(must(ranks.context.call(must(ref.proc_at(0)), 15, "", in_time)) == "would_block");
  const std::string letters = "abcdefghijklmnopqrstuvwxyz";
  CHECK(must(ranks.context.call(must(ref.proc_at(2)), 17, letters, in_time)) == "cast");
  const auto end = std::chrono::steady_clock::now() + in_time;
  std::vector<Result<std::string>> heard;
  do {
    REQUIRE(std::chrono::steady_clock::now() < end);
    heard = ranks.ask(ref, 16);
  } while (std::any_of(heard.begin(), heard.end(),
                       [&](const auto& one) { return must(one).size() < letters.size(); }));
  for (const auto& one : heard) CHECK(must(one) == letters);
  REQUIRE(ranks.context.cast(must(ref.at("host", 1)), 16, "!").has_value());
  heard = ranks.ask(ref, 16);
  for (std::size_t rank = 0; rank < 6; ++rank)
    CHECK(must(heard[rank]) == letters + (rank < 3 ? "" : "!"));
  must(ranks.mesh->stop({.grace = 5s}));
  must(ranks.hosts.shutdown(in_time));
}
