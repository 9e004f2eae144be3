// References made of texts, and statuses that are asked without a host mesh (spec 6.1).
#include <csignal>
#include <future>
#include <map>
#include <mutex>

#include "tests/support/stopwatch.h"
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

Error error_of(const Result<ProcRef>& made) {
  REQUIRE_FALSE(made.has_value());
  return made.error();
}

Error error_of(const Result<ActorRef>& made) {
  REQUIRE_FALSE(made.has_value());
  return made.error();
}

bool says(const Error& error, std::string_view words) {
  INFO(error.to_string());
  return error.detail().find(words) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "references: spec 6.1: of a proc from its address, from its agent's id, and from a mesh and a "
    "rank") {
  const std::string address = "tcp:h1:7420,trainers_3-13Se1Maqzryj";
  const auto proc = must(ProcRef::parse(address));
  CHECK(proc.id().to_string() == address);
  CHECK(must(ProcRef::of_agent(address + ",agent[0]")) == proc);
  CHECK(must(ProcRef::of_agent(address + ",agent")) == proc);
  const std::string mesh = "trainers-13Se1Maqzryj[8]:tcp:h1:7420,tcp:h2:7420@host=2/4,gpu=4/1";
  CHECK(must(ProcRef::of_rank(mesh, 3)) == proc);
  CHECK(must(ProcRef::of_rank(must(must(ProcMeshRef::parse(mesh)).at("gpu", 3)), 0)) == proc);

  CHECK(error_of(ProcRef::parse("tcp:h1:7420")).code() == ErrorCode::parse_error);
  CHECK(says(error_of(ProcRef::parse("tcp:h1:7420")), "expected ',' and the name of a proc"));
  CHECK(says(error_of(ProcRef::parse(address + ",agent[0]")),
             "expected HOST,PROC, found an actor, '" + address +
                 ",agent[0]'; ProcRef::of_agent() takes the id"));
  CHECK(error_of(ProcRef::of_agent(address)).code() == ErrorCode::parse_error);
  CHECK(says(error_of(ProcRef::of_agent(address)), "expected PROC,agent[0]"));
  CHECK(says(error_of(ProcRef::of_agent(address + ",tally[0]")), "found the actor tally[0]"));
  CHECK(says(error_of(ProcRef::of_agent(address + ",agent[1]")), "found the actor agent[1]"));
  CHECK(error_of(ProcRef::of_rank(mesh, 8)).code() == ErrorCode::out_of_range);
  CHECK(error_of(ProcRef::of_rank("nonsense", 0)).code() == ErrorCode::parse_error);
}

TEST_CASE("references: spec 6.1: of an actor from its id, and from a mesh and a rank") {
  const std::string id = "tcp:h1:7420,trainers_3-13Se1Maqzryj,tally[0]";
  const auto tally = must(ActorRef::parse(id));
  CHECK(tally.id().to_string() == id);
  CHECK(must(ActorRef::parse("tcp:h1:7420,trainers_3-13Se1Maqzryj,tally")) == tally);
  CHECK(tally.proc().id().to_string() == "tcp:h1:7420,trainers_3-13Se1Maqzryj");
  const std::string mesh = "tally@trainers-13Se1Maqzryj[8]:tcp:h1:7420,tcp:h2:7420@gpu=8/1";
  CHECK(must(ActorRef::of_rank(mesh, 3)) == tally);
  CHECK(error_of(ActorRef::of_rank(mesh, 8)).code() == ErrorCode::out_of_range);
  CHECK(says(error_of(ActorRef::parse("tcp:h1:7420,trainers_3-13Se1Maqzryj")),
             "actor reference: expected PROC,NAME[pid]"));
  CHECK(says(error_of(ActorRef::parse("tcp:h1:7420,trainers_3-13Se1Maqzryj,agent[0]")),
             "found the agent of the proc tcp:h1:7420,trainers_3-13Se1Maqzryj"));
}

TEST_CASE(
    "references: spec 6.1: statuses of procs and actors are asked without a host mesh, by any "
    "launcher") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  Heard heard;
  auto mesh = must(hosts.spawn("looked_at", extent("gpu=2"),
                               {.kind = ProcKind::mesh, .command = {bin("meshbus_test_actors")}},
                               heard.handlers()));
  auto tally =
      must(mesh.spawn_actors("counter", "tally", "3", {.on_failure = [](const ActorReport&) {}}));
  const auto text = mesh.ref().to_string();
  // Another launcher, which knows the texts only.
  auto other = must(Context::create());
  const auto ref = must(ProcMeshRef::parse(text));
  auto now = must(MeshStatuses::ask(other, ref, in_time));
  CHECK(to_string(now.statuses) == "Running=0..4");
  CHECK(now.unreachable.empty());
  const auto proc = must(ProcRef::of_rank(text, 2));
  CHECK(must(proc.status(other, in_time)) == Status::Kind::running);
  const auto actor = must(ActorRef::of_rank(tally.ref().to_string(), 2));
  CHECK(must(actor.status(other, in_time)) == Status::Kind::running);
  CHECK(must(must(ActorRef::parse(proc.id().to_string() + ",nobody")).status(other, in_time)) ==
        Status::Kind::not_exist);
  // A call needs a way that stays; that of a question goes in a moment.
  CHECK(wait_until(
      [&] {
        const auto answer = actor.call(other, 7, "", in_time);
        return !answer && answer.error().code() == ErrorCode::unroutable;
      },
      in_time));
  CHECK(must(actor.call(context, 7, "", in_time)) == "3");
  REQUIRE(actor.send(context, "add", "2").has_value());
  CHECK(must(actor.call(context, 7, "", in_time)) == "5");
  std::promise<Result<std::string>> later;
  actor.call_async(context, 7, "", {.deadline = in_time},
                   [&](Result<std::string> answer) { later.set_value(std::move(answer)); });
  CHECK(must(later.get_future().get()) == "5");

  must(mesh.stop({.grace = 1s, .ranks = {{2, 3}}}));
  CHECK(must(proc.status(other, in_time)) == Status::Kind::stopped);
  CHECK(actor.status(other, in_time).error().code() == ErrorCode::no_such_proc);
  now = must(MeshStatuses::ask(other, must(ref.at("host", 1)), in_time));
  CHECK(to_string(now.statuses) == "Running=1..2;Stopped=0..1");
  const auto stranger =
      must(ProcMeshRef::make(must(Name::make("nobody")), hosts.hosts(), extent("x=2")));
  CHECK(to_string(must(MeshStatuses::ask(other, stranger, in_time)).statuses) == "NotExist=0..2");
  CHECK(must(must(ProcRef::of_rank(stranger, 1)).status(other, in_time)) ==
        Status::Kind::not_exist);
  const auto service = ProcRef(host_service(hosts.hosts()[0])).status(other, in_time);
  REQUIRE_FALSE(service.has_value());
  CHECK(service.error().code() == ErrorCode::configuration_error);
  CHECK(says(service.error(), "expected a rank of a mesh"));
  must(mesh.stop({.grace = 1s}));
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "references: spec 12.6: a host that does not answer is told as such, and takes nothing from "
    "the others") {
  auto context = must(Context::create());
  const StandingHost here;
  const StandingHost frozen;
  const auto host = must(HostAddr::parse(here.address()));
  const auto silent = must(HostAddr::parse(frozen.address()));
  const auto gone = must(HostAddr::parse("unix:" + (environment_root() / "nobody").string()));
  REQUIRE(::kill(frozen.roles().agent, SIGSTOP) == 0);
  // The first one is gone, the second one silent: the way leads over the third.
  const auto ref = must(
      ProcMeshRef::make(must(Name::make("three")), {gone, silent, host}, extent("host=3,gpu=2")));
  const auto now = must(MeshStatuses::ask(context, ref, 2s));
  CHECK(to_string(now.statuses) == "Unknown=0..4;NotExist=4..6");
  REQUIRE(now.unreachable.size() == 2);
  CHECK(now.unreachable.at(gone).code() == ErrorCode::host_unreachable);
  CHECK(says(now.unreachable.at(gone), "nothing listens there"));
  INFO(now.unreachable.at(silent).to_string());
  CHECK(now.unreachable.at(silent).code() == ErrorCode::host_unreachable);
  REQUIRE(::kill(frozen.roles().agent, SIGCONT) == 0);

  // Hosts of which none is there: that is an answer, too, and soon.
  const auto nowhere =
      must(ProcMeshRef::make(must(Name::make("none")), {gone, gone}, extent("host=2")));
  const Stopwatch watch;
  const auto none = must(MeshStatuses::ask(context, nowhere, 60s));
  CHECK(watch.elapsed() < 30s);
  CHECK(to_string(none.statuses) == "Unknown=0..2");
  CHECK(says(none.unreachable.at(gone), "nothing listens there"));
  const auto rank = must(ProcRef::of_rank(nowhere, 0)).status(context, 60s);
  REQUIRE_FALSE(rank.has_value());
  CHECK(rank.error().code() == ErrorCode::host_unreachable);
  CHECK(must(MeshStatuses::ask(
                 context, must(ProcMeshRef::make(must(Name::make("empty")), {}, extent("x=0")))))
            .statuses.num_ranks() == 0);
}

TEST_CASE(
    "references: spec 6.3: what a proc wrote is handed back to who has its reference, the kept "
    "part "
    "and what follows, without a host mesh") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  Heard heard;
  auto spec = shell("echo one $RANK; read line; echo two $line; echo three >&2");
  spec.input_ranks = {{0, 4}};
  auto mesh = must(hosts.spawn("talks", extent("gpu=2"), spec, heard.handlers()));
  auto other = must(Context::create());
  std::mutex mutex;
  std::map<std::uint64_t, std::string> read;
  std::promise<Result<void>> end;
  const LogHandlers handlers{.on_piece =
                                 [&](const LogPiece& piece) {
                                   const std::lock_guard lock(mutex);
                                   read[piece.rank] += piece.bytes;
                                 },
                             .on_end = [&](const Result<void>& how) { end.set_value(how); }};
  const auto has_read = [&](std::uint64_t rank, const std::string& text) {
    return wait_until(
        [&] {
          const std::lock_guard lock(mutex);
          return read[rank] == text;
        },
        in_time);
  };
  const auto proc = must(ProcRef::of_rank(mesh.ref().to_string(), 2));
  {
    const auto stream = must(proc.logs(other, {.err = false, .follow = true}, handlers));
    CHECK(has_read(2, "one 2\n"));
    CHECK(mesh.write_input(2, "more\n", in_time).has_value());
    CHECK(has_read(2, "one 2\ntwo more\n"));
    CHECK(end.get_future().get().has_value());
  }
  // A slice, what is kept alone.
  end = {};
  read.clear();
  const auto half = must(LogStream::open(other, must(mesh.ref().at("host", 0)), {}, handlers));
  CHECK(end.get_future().get().has_value());
  CHECK(read == std::map<std::uint64_t, std::string>{{0, "one 0\n"}, {1, "one 1\n"}});
  CHECK(LogStream::open(other, mesh.ref(), {.ranks = {{3, 5}}}, handlers).error().code() ==
        ErrorCode::not_exist);
  CHECK(LogStream::open(other, mesh.ref(), {.out = false, .err = false}, handlers).error().code() ==
        ErrorCode::configuration_error);
  const auto gone = must(HostAddr::parse("unix:" + (environment_root() / "nobody").string()));
  const auto none = must(ProcMeshRef::make(must(Name::make("none")), {gone}, extent("x=1")));
  const auto refused = LogStream::open(other, none, {}, handlers);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::host_unreachable);
  CHECK(says(refused.error(), "host " + gone.to_string() + ": nothing listens there"));
  must(mesh.stop({.grace = 1s}));
  must(hosts.shutdown(in_time));
}

TEST_CASE("references: spec 6.3: a rank reads its own output") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Heard heard;
  auto mesh = must(hosts.spawn(
      "narcissus", extent("gpu=2"),
      {.kind = ProcKind::mesh, .command = {bin("meshbus_test_own_output")}}, heard.handlers()));
  for (const auto& rank : must(mesh.wait(in_time)).ranks) {
    INFO(rank.stderr_tail);
    CHECK(rank.exit_code == 0);
  }
  must(hosts.shutdown(in_time));
}
