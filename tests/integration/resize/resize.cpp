// Meshes that grow and shrink while they run (spec 18.2), with real hosts and real procs.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/support/temp_dir.h"
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// Hosts, of which a mesh has the first ones.
struct Elastic {
  explicit Elastic(std::size_t in_all, std::size_t at_first)
      : all(must(
            HostMesh::process(context, must(Extent::make({{"host", in_all}})), of_this_build()))),
        first(must(HostMesh::attach(
            context, "first",
            {all.hosts().begin(), all.hosts().begin() + static_cast<std::ptrdiff_t>(at_first)}))) {}

  ProcMesh servers(std::string_view per_host, ProcSpec spec = {}) {
    spec.kind = ProcKind::mesh;
    if (spec.command.empty()) spec.command = {bin("meshbus_test_proc"), "serve"};
    auto handlers = heard.handlers();
    handlers.on_resize = [this](const ResizeReport& report) {
      const std::lock_guard lock(mutex);
      resizes.push_back(report.size);
    };
    return must(first.spawn("ranks", extent(per_host), std::move(spec), std::move(handlers)));
  }
  /// What each rank answers.
  std::vector<std::string> ask(const ProcMeshRef& view, std::uint32_t port,
                               std::string_view body = {}) {
    std::vector<std::string> texts;
    for (const auto& answer : must(context.call(view, port, body, in_time)))
      texts.push_back(answer ? *answer : answer.error().to_string());
    return texts;
  }
  bool all_answer(const ProcMeshRef& view) {
    const auto answers = ask(view, 1, "here");
    return std::all_of(answers.begin(), answers.end(),
                       [](const std::string& answer) { return answer == "here"; });
  }

  Context context = must(Context::create(quick()));
  HostMesh all;
  HostMesh first;
  Heard heard;
  std::mutex mutex;
  std::vector<std::uint64_t> resizes;
};

}  // namespace

TEST_CASE(
    "resize: spec 18.2: a mesh grows by a host and shrinks again; addresses of the others stay") {
  Elastic elastic(3, 2);
  auto mesh = elastic.servers("gpu=2");
  const auto before = mesh.ref();
  const auto grown = must(mesh.grow({.hosts = {elastic.all.hosts()[2]}}));
  CHECK(grown.size == 6);
  CHECK(grown.came == RankSet{{4, 6}});
  CHECK(mesh.size() == 6);
  CHECK(mesh.ref().region().to_string() == "host=3/2,gpu=2/1");
  for (std::uint64_t rank = 0; rank < 4; ++rank)
    CHECK(must(mesh.ref().proc_of(rank)) == must(before.proc_of(rank)));
  // A grown rank answers, and a cast reaches all; the slice of before names what it named.
  CHECK(elastic.ask(must(mesh.ref().at("host", 2)), 6)
            .front()
            .starts_with("4/6 at host=2/3,gpu=0/2"));
  CHECK(elastic.all_answer(mesh.ref()));
  CHECK(elastic.ask(mesh.ref(), 13).back() == "host=2/3,gpu=1/2");
  CHECK(elastic.ask(before, 1, "x").size() == 4);
  // Those that were there hear of it, and reach the new ranks by their numbers.
  REQUIRE(wait_until(
      [&] {
        const auto told = elastic.ask(before, 25);
        return std::all_of(told.begin(), told.end(), [](const std::string& text) {
          return (text.starts_with("6 at host=") && text.ends_with("/3,gpu=0/2 told 6")) ||
                 text.ends_with("/3,gpu=1/2 told 6");
        });
      },
      in_time));
  CHECK(must(must(mesh.proc(0)).call(elastic.context, 26, "5", in_time)) == "rank 0");
  CHECK(must(must(mesh.proc(5)).call(elastic.context, 26, "0", in_time)) == "rank 5");
  CHECK(must(mesh.status()).size() == 6);

  const auto shrunk = must(mesh.shrink({.blocks = 2}));
  CHECK(shrunk.size == 2);
  REQUIRE(shrunk.gone.size() == 4);
  for (const auto& rank : shrunk.gone) {
    CHECK(rank.state == ProcState::stopped);
    CHECK(rank.stop_reason == "the mesh is made smaller");
  }
  CHECK(mesh.ref().region().to_string() == "host=1/2,gpu=2/1");
  CHECK(elastic.all_answer(mesh.ref()));
  CHECK(mesh.known().ranks.size() == 2);
  CHECK(must(mesh.status()).size() == 2);
  CHECK(elastic.ask(before, 1, "x")[3].find("no_such_proc") != std::string::npos);

  // The numbers are used again, on another host.
  CHECK(must(mesh.grow({.hosts = {elastic.all.hosts()[2]}})).came == RankSet{{2, 4}});
  CHECK(elastic.all_answer(mesh.ref()));
  CHECK(must(must(mesh.proc(0)).call(elastic.context, 26, "3", in_time)) == "rank 0");
  CHECK(elastic.heard.failures().empty());
  must(mesh.stop());
  CHECK(mesh.known().ranks.size() == 4);
  const std::lock_guard lock(elastic.mutex);
  CHECK(elastic.resizes == std::vector<std::uint64_t>{6, 2, 4});
}

TEST_CASE("resize: a mesh grows on the hosts that it has, and the ranks come again as attempts") {
  Elastic elastic(1, 1);
  auto mesh = elastic.servers("proc=2");
  CHECK(mesh.ref().region().to_string() == "host=1/2,proc=2/1");
  must(mesh.grow({.blocks = 2}));
  CHECK(mesh.ref().region().to_string() == "host=3/2,proc=2/1");
  CHECK(elastic.all_answer(mesh.ref()));
  must(mesh.shrink());
  CHECK(mesh.size() == 4);
  must(mesh.grow());
  CHECK(mesh.known().ranks[5].restarts == 1);
  CHECK(mesh.known().ranks[3].restarts == 0);
  CHECK(elastic.all_answer(mesh.ref()));
  // What fails now is reported, once.
  CHECK_FALSE(must(mesh.proc(5)).call(elastic.context, 5, "", in_time).has_value());
  const auto outcome = must(mesh.wait_for_failure(in_time));
  REQUIRE(outcome.first_failure.has_value());
  CHECK(outcome.first_failure->rank == 5);
  CHECK(outcome.first_failure->exit_code == 41);
  CHECK(elastic.heard.failures().size() == 1);
  must(mesh.stop());
  CHECK(elastic.heard.failures().size() == 1);
}

TEST_CASE("resize: a new rank that does not start leaves the mesh as it was, and is named") {
  Elastic elastic(3, 2);
  TempDir directory;
  const auto gate = (directory.path() / "may_start").string();
  auto mesh = elastic.servers("gpu=1", {.command = {"sh", "-c",
                                                    "test $RANK -lt 2 || test -e " + gate +
                                                        " || { echo not me >&2; exit 3; }; exec " +
                                                        bin("meshbus_test_proc") + " serve"}});
  const auto before = mesh.ref();
  const auto failed = mesh.grow({.hosts = {elastic.all.hosts()[2]}});
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().code() == ErrorCode::proc_creation_error);
  const auto words = failed.error().detail();
  CHECK_MESSAGE(words.find("rank 2") != std::string::npos, words);
  CHECK_MESSAGE(words.find(elastic.all.hosts()[2].to_string()) != std::string::npos, words);
  CHECK_MESSAGE(words.find("exit 3") != std::string::npos, words);
  CHECK_MESSAGE(words.find("not me") != std::string::npos, words);
  CHECK(mesh.ref() == before);
  CHECK(mesh.size() == 2);
  CHECK(mesh.known().ranks.size() == 2);
  CHECK(elastic.all_answer(mesh.ref()));
  CHECK(must(mesh.status()).size() == 2);
  CHECK(elastic.heard.failures().empty());
  // The procs have not heard of anything but the size that they have.
  CHECK(elastic.ask(before, 25)[0].starts_with("2 at host=0/2"));
  // It can be done later.
  std::ofstream(gate) << "yes";
  CHECK(must(mesh.grow({.hosts = {elastic.all.hosts()[2], elastic.all.hosts()[0]}})).size == 4);
  CHECK(elastic.all_answer(mesh.ref()));
  must(mesh.stop());
  CHECK(elastic.heard.failures().empty());
}

TEST_CASE("resize: a host that is lost while new ranks start there leaves the mesh as it was") {
  StandingHost standing;
  StandingHost doomed;
  auto context = must(Context::create(quick({{"spawn.ready", "4s"},
                                             {"spawn.idle", "5s"},
                                             {"stop.idle", "2s"},
                                             {"terminate.grace", "1s"}})));
  auto hosts =
      must(HostMesh::attach(context, "hosts", {must(HostAddr::parse(standing.address()))}));
  Heard heard;
  auto mesh = must(hosts.spawn(
      "ranks", extent("gpu=1"),
      {.kind = ProcKind::mesh,
       .command = {"sh", "-c",
                   "test $RANK -lt 1 || sleep 1000; exec " + bin("meshbus_test_proc") + " serve"}},
      heard.handlers()));
  std::optional<Result<ResizeReport>> grown;
  std::thread growing(
      [&] { grown.emplace(mesh.grow({.hosts = {must(HostAddr::parse(doomed.address()))}})); });
  const auto is_started = [&] {
    const auto states = heard.states();
    return std::any_of(states.begin(), states.end(), [](const RankReport& rank) {
      return rank.rank == 1 && rank.state == ProcState::running;
    });
  };
  REQUIRE(wait_until(is_started, in_time));
  CHECK_FALSE(mesh.grow().has_value());  // one at a time
  doomed.process().send_signal(SIGKILL);
  growing.join();
  REQUIRE_FALSE(grown->has_value());
  const auto words = grown->error().detail();
  CHECK_MESSAGE(words.find("rank 1") != std::string::npos, words);
  CHECK_MESSAGE(words.find(doomed.address()) != std::string::npos, words);
  CHECK(mesh.size() == 1);
  CHECK(must(must(mesh.proc(0)).call(context, 1, "still", in_time)) == "still");
  CHECK(heard.failures().empty());
  must(mesh.stop());
}

TEST_CASE("resize: ranks that are restarted find the new size, and the new ranks are restarted") {
  Elastic elastic(2, 1);
  auto mesh = elastic.servers(
      "proc=2", {.restart = {.on = RestartPolicy::On::failure, .delay = 10ms, .max_delay = 50ms}});
  must(mesh.grow({.hosts = {elastic.all.hosts()[1]}}));
  for (const std::uint64_t rank : {std::uint64_t{0}, std::uint64_t{3}}) {
    const auto proc = must(mesh.proc(rank));
    CHECK_FALSE(proc.call(elastic.context, 5, "", in_time).has_value());
    REQUIRE(wait_until(
        [&] {
          const auto report = mesh.known().ranks[rank];
          return report.restarts == 1 && report.state == ProcState::ready;
        },
        in_time));
    CHECK(must(proc.call(elastic.context, 6, "", in_time))
              .starts_with(std::to_string(rank) + "/4 at "));
  }
  CHECK(must(mesh.shrink()).gone.size() == 2);
  const auto proc = must(mesh.proc(1));
  CHECK_FALSE(proc.call(elastic.context, 5, "", in_time).has_value());
  REQUIRE(wait_until(
      [&] {
        return mesh.known().ranks[1].restarts == 1 &&
               mesh.known().ranks[1].state == ProcState::ready;
      },
      in_time));
  CHECK(must(proc.call(elastic.context, 6, "", in_time)).starts_with("1/2 at "));
  must(mesh.stop());
  CHECK(elastic.heard.failures().empty());
}

TEST_CASE("resize: an agent that takes over knows the size of the mesh") {
  StandingHost first;
  StandingHost second;
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::attach(
      context, "hosts",
      {must(HostAddr::parse(first.address())), must(HostAddr::parse(second.address()))}));
  auto one = must(HostMesh::attach(context, "one", {must(HostAddr::parse(first.address()))}));
  Heard heard;
  auto mesh = must(one.spawn(
      "ranks", extent("gpu=1"),
      {.kind = ProcKind::mesh, .command = {bin("meshbus_test_proc"), "serve"}}, heard.handlers()));
  must(mesh.grow({.hosts = {must(HostAddr::parse(second.address()))}}));
  for (auto* const host : {&first, &second}) {
    const auto agent = host->roles().agent;
    REQUIRE(::kill(agent, SIGKILL) == 0);
    REQUIRE(wait_until(
        [&] {
          const auto roles = find_roles(host->roles().warden);
          return roles && roles->agent != agent;
        },
        in_time));
  }
  const auto listing = must(hosts.meshes(in_time));
  REQUIRE(listing.meshes.size() == 1);
  CHECK(must(listing.meshes[0].ref()).region().to_string() == "host=2/1,gpu=1/1");
  CHECK(must(mesh.shrink()).size == 1);
  CHECK(must(hosts.meshes(in_time)).meshes[0].ranks.size() == 1);
  must(mesh.stop());
  CHECK(heard.failures().empty());
}

TEST_CASE("resize: what would move a rank, or cannot be answered for, is refused with the reason") {
  Elastic elastic(2, 2);
  const auto refused = [](const auto& done, std::string_view why) {
    REQUIRE_FALSE(done.has_value());
    CHECK(done.error().code() == ErrorCode::refused);
    CHECK_MESSAGE(done.error().detail().find(why) != std::string::npos, done.error().detail());
  };
  auto uneven = must(elastic.first.spawn_n("uneven", 3, shell("exec sleep 100")));
  refused(uneven.grow(), "lie unevenly");
  must(uneven.stop());
  refused(uneven.grow(), "all its ranks have ended");
  auto mesh = elastic.servers("gpu=1");
  refused(mesh.shrink({.blocks = 2}), "no rank would be left");
  CHECK(mesh.grow({.blocks = 0}).error().code() == ErrorCode::configuration_error);
  // More than a host runs at most, before anything is made for each of them.
  const auto many = mesh.grow({.blocks = 40'000});
  REQUIRE_FALSE(many.has_value());
  CHECK(many.error().detail().find("which runs at most 16384 of a mesh") != std::string::npos);
  const auto most = elastic.first.spawn("most", extent("gpu=4000000000"), shell("true"));
  REQUIRE_FALSE(most.has_value());
  CHECK(most.error().detail().find("which run at most 16384 each") != std::string::npos);
  // A host that is not there.
  const auto nowhere = mesh.grow({.hosts = {must(HostAddr::parse("unix:/tmp/no/such/host"))}});
  REQUIRE_FALSE(nowhere.has_value());
  CHECK(nowhere.error().detail().find("unix:/tmp/no/such/host") != std::string::npos);
  CHECK(elastic.all_answer(mesh.ref()));
  CHECK(mesh.size() == 2);
}

TEST_CASE("resize: actors of ranks that are taken away have ended, and those of the others go on") {
  Elastic elastic(1, 1);
  auto mesh = elastic.servers("proc=1", {.command = {bin("meshbus_test_actors")}});
  must(mesh.grow());
  {
    std::atomic<int> failures = 0;
    auto actors = must(mesh.spawn_actors("counter", "counters", "0",
                                         {.on_failure = [&](const ActorReport&) { ++failures; }}));
    REQUIRE(must(mesh.shrink()).size == 1);
    REQUIRE(wait_until([&] { return must(actors.states(in_time))[1].proc.has_value(); }, in_time));
    CHECK(must(actors.states(in_time)).size() == 2);
    must(mesh.grow());
    CHECK(failures == 0);
  }
  must(mesh.stop());
}

TEST_CASE("resize: what ranks wrote before they are taken away is handed out") {
  Elastic elastic(1, 1);
  auto mesh = must(elastic.first.spawn(
      "talkers", extent("proc=1"),
      {.command = {"sh", "-c",
                   "trap 'i=0; while [ $i -lt 2000 ]; do echo line $i of $RANK; i=$((i+1)); done; "
                   "exit 0' TERM; echo up; while :; do sleep 0.05; done"},
       .output = OutputMode::stream},
      elastic.heard.handlers()));
  must(mesh.grow({.blocks = 2}));
  REQUIRE(wait_until([&] { return elastic.heard.output(2) == "up\n"; }, in_time));
  must(mesh.shrink({.blocks = 1}));
  CHECK(elastic.heard.output(2).ends_with("line 1999 of 2\n"));
  CHECK(elastic.heard.output(1) == "up\n");
  must(mesh.stop());
  must(mesh.wait(in_time));
  CHECK(elastic.heard.failures().empty());
  CHECK(elastic.heard.ends() == 1);
}
