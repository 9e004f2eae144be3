// Spec 2.3, 6.1, 6.3, 7.4: meshes of no rank, of one host twice, beside each other, and with dead
// ranks.
#include <csignal>

#include "tests/conformance/procs.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

TEST_CASE("spec 6.1: with no rank at all spawn, wait, cast, call and stop succeed at once, empty") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  Heard heard;
  for (const auto kind : {ProcKind::plain, ProcKind::mesh}) {
    auto spec = self({"serve"});
    spec.kind = kind;
    auto mesh = must(hosts.spawn("nobody", extent("gpu=0"), spec, heard.handlers()));
    CHECK(mesh.size() == 0);
    CHECK(must(ProcMeshRef::parse(mesh.ref().to_string())) == mesh.ref());
    CHECK(
        must(mesh.wait_status(Status::Kind::stopped, {.deadline = 0ms, .idle = {}})).num_ranks() ==
        0);
    CHECK(must(hosts.wait_status(mesh.ref(), Status::Kind::stopped, {.deadline = 0ms, .idle = {}}))
              .num_ranks() == 0);
    CHECK(must(hosts.statuses(mesh.ref())).num_ranks() == 0);
    CHECK(must(mesh.status()).empty());
    CHECK(must(context.call(mesh.ref(), Port::echo, "anyone?", 0ms)).empty());
    CHECK(context.cast(mesh.ref(), Port::echo, "anyone?").has_value());
    auto actors = must(mesh.spawn_actors("adder", "adder", "0"));
    CHECK(actors.size() == 0);
    CHECK(must(actors.call("add", "1", 0ms)).empty());
    CHECK(actors.send("add", "1").has_value());
    CHECK(must(actors.states()).empty());
    CHECK(must(actors.stop()).empty());
    CHECK(must(mesh.wait(in_time)).exit_code() == 0);
    CHECK(must(mesh.wait_for_failure(in_time)).ranks.empty());
    CHECK(must(mesh.stop()).ranks.empty());
    CHECK(mesh.proc(0).error().code() == ErrorCode::out_of_range);
  }
  auto none = must(hosts.spawn_n("none", 0, shell("true"), heard.handlers()));
  CHECK(must(none.wait(in_time)).ranks.empty());
  CHECK(heard.ends() == 3);
  CHECK(heard.failures().empty());
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 2.3: one host may stand in a mesh several times; each time it has ranks of its own, and "
    "it is asked once") {
  const StandingHost host, other;
  auto context = must(Context::create());
  const auto twice = must(HostAddr::parse(host.address()));
  auto hosts = must(
      HostMesh::attach(context, "same", {twice, must(HostAddr::parse(other.address())), twice}));
  CHECK(must(hosts.states()).size() == 3);
  Heard heard;
  auto mesh = must(hosts.spawn("twins", extent("gpu=2"), self({"serve"}), heard.handlers()));
  REQUIRE(mesh.size() == 6);
  Words expected;
  for (int rank = 0; rank < 6; ++rank) {
    const auto point =
        "host=" + std::to_string(rank / 2) + "/3,gpu=" + std::to_string(rank % 2) + "/2";
    expected.push_back("twins " + std::to_string(rank) + " at " + point + " as " + point);
  }
  CHECK(texts(must(context.call(mesh.ref(), Port::place, "", in_time))) == expected);
  CHECK(texts(must(context.call(mesh.ref(), Port::environ_of, "NODE_RANK", in_time))) ==
        Words{"0", "0", "1", "1", "2", "2"});
  CHECK(texts(must(context.call(mesh.ref(), Port::environ_of, "LOCAL_RANK", in_time))) ==
        Words{"0", "1", "0", "1", "0", "1"});
  CHECK(texts(must(context.call(must(mesh.ref().at("host", 2)), Port::environ_of, "RANK",
                                in_time))) == Words{"4", "5"});
  {
    auto actors = must(mesh.spawn_actors("adder", "adder", "1"));
    CHECK(texts(must(actors.call("add", "1", in_time))) == Words(6, "2"));
    CHECK(texts(must(must(actors.at("host", 2)).call("add", "1", in_time))) == Words(2, "3"));
    must(actors.stop());
  }
  const auto listing = must(hosts.meshes());
  REQUIRE(listing.meshes.size() == 1);
  REQUIRE(listing.meshes[0].ranks.size() == 6);
  for (std::uint64_t rank = 0; rank < 6; ++rank) {
    const auto& one = listing.meshes[0].ranks[rank];
    CHECK(one.rank == rank);
    CHECK(one.host_index == rank / 2);
    CHECK(one.host == hosts.hosts()[rank / 2]);
  }
  CHECK(to_string(must(hosts.statuses(mesh.ref()))) == "Running=0..6");

  // Its ranks can be stopped place by place, and a death is that of one of them.
  CHECK(must(mesh.stop({.reason = "smaller", .ranks = {{0, 2}}})).ranks[1].is_terminal());
  CHECK(to_string(must(hosts.statuses(mesh.ref()))) == "Running=2..6;Stopped=0..2");
  CHECK(mesh.signal({{5, 7}}, SIGKILL).error().code() == ErrorCode::out_of_range);
  CHECK(mesh.signal({{5, 5}}, SIGKILL).error().code() == ErrorCode::configuration_error);
  CHECK(mesh.stop({.ranks = {{9, 10}}}).error().code() == ErrorCode::out_of_range);
  REQUIRE(mesh.signal({{5, 6}}, SIGKILL).has_value());
  CHECK(must(mesh.wait_for_failure(in_time)).first_failure->rank == 5);
  CHECK(codes(must(context.call(must(mesh.ref().at("gpu", 1)), Port::echo, "", in_time))) ==
        std::vector{ErrorCode::no_such_proc, ErrorCode::none, ErrorCode::no_such_proc});
  CHECK(must(hosts.stop_mesh(mesh.ref().mesh().to_string())).size() == 6);
  CHECK(must(mesh.wait(in_time)).is_ended());
  CHECK(heard.failures().size() == 1);
  int ends = 0;
  for (const auto& event : must(hosts.events(mesh.ref().mesh().to_string())).events)
    ends += event.kind == EventKind::proc_ended;
  CHECK(ends == 6);
  int stops = 0;
  for (const auto& event : must(hosts.events(mesh.ref().mesh().to_string())).events)
    stops += event.kind == EventKind::stop_asked && event.text.find("smaller") != std::string::npos;
  CHECK(stops == 1);

  auto second =
      must(hosts.spawn("more", extent("gpu=1"), shell("exec " + own_sleep()), heard.handlers()));
  const auto drained = must(hosts.drain({.reason = "room"}));
  CHECK(drained.attempted == 3);
  CHECK(drained.ok == 3);
  auto third =
      must(hosts.spawn("last", extent("gpu=1"), shell("exec " + own_sleep()), heard.handlers()));
  const auto summary = must(hosts.shutdown(in_time));
  CHECK(summary.hosts == 2);
  CHECK(summary.attempted == 3);
  CHECK(summary.ok == 3);
}

TEST_CASE("spec 6.1: two meshes on one host mesh: every port of theirs reaches every other") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  auto first = must(hosts.spawn("first", extent("gpu=2"), self({"serve"})));
  auto second = must(hosts.spawn("second", extent("gpu=1"), self({"serve"})));
  const std::vector<ProcMeshRef> meshes{first.ref(), second.ref()};
  struct To {
    ProcId proc;
    Port port;
    std::string says;
  };
  std::vector<To> ports;
  for (const auto& mesh : meshes) {
    for (std::uint64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
      const auto who = " of " + std::string(mesh.mesh().base()) + " " + std::to_string(rank);
      ports.push_back({must(mesh.proc_at(rank)), Port::left, "left" + who});
      ports.push_back({must(mesh.proc_at(rank)), Port::right, "right" + who});
    }
  }
  REQUIRE(ports.size() == 12);
  int reached = 0, own = 0;
  for (const auto& to : ports) {
    for (const auto port : {Port::left, Port::right}) {
      for (const auto& mesh : meshes) {
        const auto answers = must(
            context.call(mesh, port, to.proc.to_string() + " " + std::to_string(to.port), in_time));
        for (std::uint64_t rank = 0; rank < answers.size(); ++rank) {
          CAPTURE(rank);
          if (must(mesh.proc_at(rank)) == to.proc) {
            // A handler does not wait for its own proc.
            REQUIRE_FALSE(answers[rank].has_value());
            CHECK(answers[rank].error().to_string().find("would_block") != std::string::npos);
            ++own;
          } else {
            CHECK(must(answers[rank]) == to.says);
            ++reached;
          }
        }
      }
    }
  }
  CHECK(reached == 12 * 10);
  CHECK(own == 12 * 2);
  // The end of one is nothing to the other.
  CHECK(must(first.stop()).is_ended());
  CHECK(codes(must(context.call(second.ref(), Port::echo, "", in_time))) ==
        std::vector(2, ErrorCode::none));
  CHECK(codes(must(context.call(first.ref(), Port::echo, "", in_time))) ==
        std::vector(4, ErrorCode::no_such_proc));
  must(second.stop());
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 6.3: slices next to dead ranks are called, cast to, asked, waited for and stopped as "
    "any") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  Heard heard;
  auto mesh = must(hosts.spawn("ranks", extent("gpu=3"), self({"serve"}), heard.handlers()));
  auto actors =
      must(mesh.spawn_actors("adder", "adder", "0", {.on_failure = [](const ActorReport&) {}}));
  // Rank 0 among them, and all of a column.
  REQUIRE(mesh.signal({{0, 1}, {2, 3}, {5, 6}}, SIGKILL).has_value());
  REQUIRE(wait_until([&] { return heard.failures().size() == 3; }, in_time));
  const auto alive = must(mesh.ref().at("gpu", 1));
  const auto dead = must(mesh.ref().at("gpu", 2));
  const auto mixed = must(mesh.ref().at("gpu", 0));
  CHECK(
      texts(must(context.call(alive, Port::place, "", in_time))) ==
      Words{"ranks 1 at host=0/2,gpu=1/3 as host=0/2", "ranks 4 at host=1/2,gpu=1/3 as host=1/2"});
  CHECK(codes(must(context.call(dead, Port::echo, "", in_time))) ==
        std::vector(2, ErrorCode::no_such_proc));
  CHECK(codes(must(context.call(mixed, Port::echo, "", in_time))) ==
        std::vector{ErrorCode::no_such_proc, ErrorCode::none});
  CHECK(context.cast(mesh.ref(), Port::echo, "whoever is there").has_value());
  CHECK(to_string(must(hosts.statuses(alive))) == "Running=0..2");
  CHECK(must(hosts.statuses(dead)).get(1)->is_failure());
  CHECK(texts(must(must(actors.at("gpu", 1)).call("add", "4", in_time))) == Words(2, "4"));
  const auto of_mixed = must(must(actors.at("gpu", 0)).states(in_time));
  CHECK(of_mixed[0].status.kind() == Status::Kind::failed);
  CHECK(of_mixed[1].status == Status::Kind::running);
  CHECK(must(mesh.stop({.reason = "half", .ranks = {{1, 2}}})).ranks[1].state ==
        ProcState::stopped);
  CHECK(to_string(must(
            hosts.wait_status(alive, Status::Kind::running, {.deadline = in_time, .idle = {}}))) ==
        "Running=1..2;Stopped=0..1");
  must(actors.stop());
  CHECK(must(mesh.stop()).is_ended());
  CHECK(heard.failures().size() == 3);
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 7.5: a shared body arrives whole and in its turn wherever it is sent to, and is let go "
    "then") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  Heard heard;
  auto spec = self({"several"});
  spec.output = OutputMode::stream;
  auto mesh = must(hosts.spawn("readers", extent("gpu=1"), spec, heard.handlers()));
  for (const std::size_t size : {std::size_t{0}, std::size_t{32 * 1024}, std::size_t{32 * 1024 + 1},
                                 std::size_t{1024 * 1024}, std::size_t{3 * 1024 * 1024}}) {
    CAPTURE(size);
    auto text = std::make_shared<const std::string>(size, 'x');
    const std::weak_ptr<const std::string> watched = text;
    auto body = std::make_optional<SharedBody>(*text, std::move(text));
    const std::string before = heard.output(0);
    for (const std::uint64_t rank : {0U, 1U}) {
      CHECK(must(mesh.proc(rank)).send(context, Port::say, "first\n").has_value());
      CHECK(must(mesh.proc(rank)).send(context, Port::say, *body).has_value());
      CHECK(context.send(must(mesh.ref().proc_at(rank)), Port::say, "last\n").has_value());
    }
    body.reset();
    for (const std::uint64_t rank : {0U, 1U})
      CHECK(wait_until(
          [&] {
            return heard.output(rank) == before + "first\n" + std::string(size, 'x') + "last\n";
          },
          in_time));
    CHECK(wait_until([&] { return watched.expired(); }, in_time));
  }
  must(mesh.stop());
  must(hosts.shutdown(in_time));
}
