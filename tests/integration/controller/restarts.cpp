// Restarts by the owner of a mesh (spec 8.9): a launcher leaves the policy to a controller, and
// everybody is killed in turn.
#include <atomic>
#include <csignal>
#include <mutex>

#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "meshbus/controller.h"
#include "tests/integration/controller/harness.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// What a controller says of restarts, for other threads to look at.
class Followed {
 public:
  explicit Followed(Controlled& watched)
      : subscription_(
            must(Subscription::open(watched.context, watched.hosts->hosts(), {.deadline = in_time},
                                    [this](const SupervisionEvent& event) {
                                      const std::lock_guard lock(mutex_);
                                      events_.push_back(event);
                                    }))) {}

  std::vector<std::string> words(Kind kind) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> found;
    for (const auto& event : events_) {
      if (event.kind == kind) found.push_back(event.problem);
    }
    return found;
  }
  /// The rank that the last end of that rank follows from.
  std::optional<std::uint64_t> because_of(std::uint64_t rank) const {
    const std::lock_guard lock(mutex_);
    std::optional<std::uint64_t> because;
    for (const auto& event : events_) {
      if (event.kind == Kind::rank && event.rank->rank == rank && event.rank->is_terminal())
        because = event.rank->because;
    }
    return because;
  }
  std::size_t count(Kind kind) const { return words(kind).size(); }
  /// Whether that text is in the last event of that kind, which comes in time.
  bool hears(Kind kind, const std::string& text) const {
    return wait_until(
        [&] {
          const auto all = words(kind);
          return !all.empty() && all.back().find(text) != std::string::npos;
        },
        in_time);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<SupervisionEvent> events_;
  Subscription subscription_;
};

const Words kSettings{"supervision.probe=200ms", "supervision.poll=1s", "lease=20s",
                      "terminate.grace=2s"};

std::string joined(const Controlled& watched) {
  std::string list;
  for (const auto& host : watched.standing) list += (list.empty() ? "" : ",") + host.address();
  return list;
}

/// The launcher of the mesh has gone when this returns.
void spawn(const Controlled& watched, const Words& more, const std::string& script) {
  Words words{"spawn", "left", "--hosts", joined(watched), "--wait-for-controller"};
  words.insert(words.end(), more.begin(), more.end());
  if (std::find(more.begin(), more.end(), "--restart-delay") == more.end())
    words.insert(words.end(), {"--restart-delay", "100ms"});
  words.insert(words.end(), {"--", "sh", "-c", script});
  const auto done = run_cli(words);
  INFO(done.err);
  REQUIRE(done.status == ExitStatus::exited(0));
}

json ranks_in_ps(const Controlled& watched) {
  const auto listing =
      parse_json(run_cli({"ps", "--all", "--json", "--hosts", joined(watched)}).out);
  return listing.at("meshes").empty() ? json::array() : listing.at("meshes")[0].at("ranks");
}

pid_t pid_of(const Controlled& watched, std::uint64_t rank) {
  return ranks_in_ps(watched).at(rank).at("pid").get<pid_t>();
}

void kill_rank(const Controlled& watched, std::uint64_t rank) {
  REQUIRE(::kill(pid_of(watched, rank), SIGKILL) == 0);
}

/// These ranks are up, each restarted so often.
bool are_up(const Controlled& watched, const std::vector<std::uint64_t>& restarts) {
  return wait_until(
      [&] {
        const auto ranks = ranks_in_ps(watched);
        if (ranks.size() != restarts.size()) return false;
        for (std::size_t rank = 0; rank < restarts.size(); ++rank) {
          if (ranks[rank].at("status") != "ready" || ranks[rank].at("restarts") != restarts[rank])
            return false;
        }
        return true;
      },
      in_time);
}

/// What the launcher heard of failures, for a test that expects none.
std::string failures_of(const Controlled& watched) {
  std::string text;
  for (const auto& failure : watched.heard.failures()) text += failure.describe() + "\n";
  return text;
}

/// To the controller.
void give(ProcMesh& mesh, const Controlled& watched) {
  const auto given = mesh.handover(must(ProcId::parse(watched.home().to_string() + ",controller")));
  INFO((given ? std::string() : given.error().to_string()));
  REQUIRE(given.has_value());
}

}  // namespace

TEST_CASE(
    "restarts: a controller restarts the ranks of a mesh whose launcher is gone, goes on with the "
    "budget after it was killed, and says once when that is used up") {
  Controlled watched(1, kSettings);
  spawn(watched, {"-n", "2", "--restart", "on-failure:2"}, "exec sleep 300");
  const Followed followed(watched);
  REQUIRE(are_up(watched, {0, 0}));
  const auto other = pid_of(watched, 0);
  kill_rank(watched, 1);
  CHECK(followed.hears(Kind::restarting, "(restart 1 of 2): killed by SIGKILL"));
  REQUIRE(are_up(watched, {0, 1}));

  watched.kill();
  kill_rank(watched, 1);
  // Nobody answers for the mesh at the moment, and nobody restarts anything.
  REQUIRE(wait_until([&] { return ranks_in_ps(watched).at(1).at("status") != "ready"; }, in_time));
  watched.start();
  // The subscription may find the new controller only when this one is done.
  REQUIRE(are_up(watched, {0, 2}));

  kill_rank(watched, 1);
  CHECK(followed.hears(Kind::given_up,
                       "rank 1 is not restarted: its budget of 2 restarts is used "
                       "up; its last end: killed by SIGKILL"));
  CHECK(followed.count(Kind::restarting) <= 2);
  CHECK(followed.count(Kind::given_up) == 1);
  CHECK(followed.count(Kind::ended) == 0);
  // A rank alone is its own affair.
  CHECK(pid_of(watched, 0) == other);
  CHECK_FALSE(is_gone(other));

  const auto stopped = run_cli({"stop", "left", "--hosts", joined(watched)});
  INFO(stopped.err);
  CHECK(stopped.status == ExitStatus::exited(0));
  CHECK(wait_until([&] { return followed.count(Kind::ended) == 1; }, in_time));
  CHECK(is_gone(other));
  CHECK(followed.count(Kind::given_up) == 1);
}

TEST_CASE(
    "restarts: a controller whose own host is lost goes on from another one, and restarts the "
    "ranks that it answers for") {
  Controlled watched(2, kSettings);
  spawn(watched, {"-n", "2", "--restart", "on-failure:2"}, "exec sleep 300");
  REQUIRE(are_up(watched, {0, 0}));
  const auto pid = pid_of(watched, 1);
  REQUIRE(::kill(watched.standing[0].roles().warden, SIGKILL) == 0);
  REQUIRE(::kill(pid, SIGKILL) == 0);
  const auto is_back = [&] {
    const auto listing = parse_json(
        run_cli({"ps", "--all", "--json", "--hosts", watched.standing[1].address()}).out);
    if (listing.at("meshes").empty()) return false;
    for (const auto& rank : listing.at("meshes")[0].at("ranks")) {
      if (rank.at("rank") == 1) return rank.at("status") == "ready" && rank.at("restarts") == 1;
    }
    return false;
  };
  CHECK(wait_until(is_back, in_time));
}

TEST_CASE(
    "restarts: a controller restarts a gang over several hosts, and ends it when the budget is "
    "used up") {
  Controlled watched(2, kSettings);
  spawn(watched, {"-n", "4", "--restart", "on-failure:1", "--gang", "all"}, "exec sleep 300");
  const Followed followed(watched);
  REQUIRE(are_up(watched, {0, 0, 0, 0}));
  kill_rank(watched, 3);
  CHECK(followed.hears(Kind::restarting,
                       "ranks 0-3 are restarted in 0.1 s (restart 1 of 1) because of rank 3"));
  REQUIRE(are_up(watched, {1, 1, 1, 1}));
  kill_rank(watched, 0);
  CHECK(followed.hears(Kind::given_up, "rank 0 is not restarted: its budget of 1 restart"));
  // The hosts know that nothing follows.
  CHECK(wait_until([&] { return followed.count(Kind::ended) == 1; }, in_time));
  for (const auto rank : {1U, 2U, 3U}) CHECK(followed.because_of(rank) == 0U);
  CHECK(followed.count(Kind::restarting) == 1);
}

TEST_CASE(
    "restarts: a stop at the hosts ends restarts, also of a rank that waits for its next "
    "incarnation") {
  Controlled watched(1, kSettings);
  spawn(watched, {"-n", "2", "--restart", "on-failure", "--restart-delay", "60s"},
        "exec sleep 300");
  const Followed followed(watched);
  REQUIRE(are_up(watched, {0, 0}));
  kill_rank(watched, 1);
  CHECK(followed.hears(Kind::restarting, "rank 1 is restarted in "));
  const auto stopped = run_cli({"stop", "left", "--hosts", joined(watched)});
  INFO(stopped.err);
  CHECK(stopped.status == ExitStatus::exited(0));
  CHECK(wait_until([&] { return followed.count(Kind::ended) == 1; }, in_time));
  CHECK(followed.count(Kind::restarting) == 1);
}

TEST_CASE(
    "restarts: a launcher that has handed its mesh over hears of the end that is final, and of no "
    "other") {
  Controlled watched(1, kSettings);
  const Followed followed(watched);
  auto spec = shell("exec sleep 300");
  spec.restart = {.on = RestartPolicy::On::failure, .budget = 2, .delay = 100ms, .jitter = 0};
  std::atomic<int> restarts{0};
  auto handlers = watched.heard.handlers();
  handlers.on_restart = [&](const RestartReport&) { ++restarts; };
  auto mesh = must(watched.hosts->spawn("left", extent("gpu=1"), std::move(spec), handlers));
  const auto kill_and_wait = [&](std::uint64_t attempt) {
    meshbus::test::kill_rank(mesh, 0);
    return wait_until(
        [&] {
          const auto rank = mesh.known().ranks[0];
          return rank.restarts == attempt && rank.state == ProcState::ready;
        },
        in_time);
  };
  REQUIRE(kill_and_wait(1));
  REQUIRE(
      mesh.handover(must(ProcId::parse(watched.home().to_string() + ",controller"))).has_value());
  give(mesh, watched);
  CHECK(mesh.is_handed_over());
  // The launcher's restart counts.
  REQUIRE(kill_and_wait(2));
  CHECK(followed.hears(Kind::restarting, "(restart 2 of 2)"));
  CHECK(watched.heard.failures().empty());
  CHECK(watched.heard.ends() == 0);
  meshbus::test::kill_rank(mesh, 0);
  CHECK(wait_until([&] { return watched.heard.ends() == 1; }, in_time));
  REQUIRE(watched.heard.failures().size() == 1);
  CHECK(watched.heard.failures()[0].restarts == 2);
  CHECK(restarts == 1);
  CHECK(followed.count(Kind::given_up) == 1);
  CHECK(mesh.wait(in_time).has_value());
}

TEST_CASE(
    "restarts: a rank that waits for its restart when its mesh is handed over, and is stopped "
    "then, has failed") {
  Controlled watched(1, kSettings);
  // It returns when the controller is there.
  const Followed followed(watched);
  auto spec = shell("exec sleep 300");
  spec.restart = {.on = RestartPolicy::On::failure, .budget = 2, .delay = 60s, .jitter = 0};
  std::atomic<int> restarts{0};
  auto handlers = watched.heard.handlers();
  handlers.on_restart = [&](const RestartReport&) { ++restarts; };
  auto mesh = must(watched.hosts->spawn("waits", extent("gpu=2"), std::move(spec), handlers));
  meshbus::test::kill_rank(mesh, 0);
  REQUIRE(wait_until([&] { return restarts == 1; }, in_time));
  give(mesh, watched);
  CHECK(watched.heard.failures().empty());
  CHECK(run_cli({"stop", "--hosts", watched.home().to_string(), "waits"}).status ==
        ExitStatus::exited(0));
  REQUIRE(wait_until([&] { return watched.heard.ends() == 1; }, in_time));
  REQUIRE(watched.heard.failures().size() == 1);
  CHECK(watched.heard.failures()[0].rank == 0);
  CHECK_FALSE(watched.heard.failures()[0].is_restarting);
  CHECK(must(mesh.wait(in_time)).exit_code() == 128 + SIGKILL);
}

TEST_CASE(
    "restarts: a launcher that takes a mesh over goes on with the budget of the controller, and "
    "hears of the failure that is final") {
  Controlled watched(2, kSettings);
  spawn(watched, {"-n", "2", "--restart", "on-failure:2"}, "exec sleep 300");
  const Followed followed(watched);
  REQUIRE(are_up(watched, {0, 0}));
  const auto other = pid_of(watched, 0);
  kill_rank(watched, 1);
  REQUIRE(are_up(watched, {0, 1}));
  const auto name = parse_json(run_cli({"ps", "--json", "--hosts", joined(watched)}).out)
                        .at("meshes")[0]
                        .at("mesh")
                        .get<std::string>();

  auto handlers = watched.heard.handlers();
  std::mutex mutex;
  std::vector<std::uint64_t> restarts;
  handlers.on_restart = [&](const RestartReport& restart) {
    const std::lock_guard lock(mutex);
    restarts.push_back(restart.restart);
  };
  {
    auto mesh = must(watched.hosts->take_over(name, handlers));
    CHECK(mesh.known().ranks[1].restarts == 1);
    // The controller only watches it now, and may go.
    watched.kill();
    kill_rank(watched, 1);
    REQUIRE(are_up(watched, {0, 2}));
    kill_rank(watched, 1);
    REQUIRE(wait_until([&] { return watched.heard.failures().size() == 1; }, in_time));
    CHECK(watched.heard.failures()[0].rank == 1);
    CHECK(watched.heard.failures()[0].restarts == 2);
    const std::lock_guard lock(mutex);
    CHECK(restarts == std::vector<std::uint64_t>{2});
    CHECK_FALSE(is_gone(other));
  }
  // It ends with its owner.
  CHECK(wait_until([&] { return is_gone(other); }, in_time));
  CHECK(followed.count(Kind::restarting) == 1);
  CHECK(watched.hosts->take_over("none-13Se1Maqzryj").error().code() == ErrorCode::not_exist);
}

TEST_CASE(
    "restarts: a rank that waits and is stopped alone is not restarted, which is told once; the "
    "same by a drain of its host") {
  Controlled watched(2, kSettings);
  spawn(watched, {"-n", "4", "--restart", "on-failure", "--restart-delay", "60s"},
        "exec sleep 300");
  const Followed followed(watched);
  REQUIRE(are_up(watched, {0, 0, 0, 0}));
  kill_rank(watched, 1);
  kill_rank(watched, 3);
  REQUIRE(wait_until([&] { return followed.count(Kind::restarting) == 2; }, in_time));
  Words order{"stop", "left[1]", "--hosts", joined(watched)};
  const auto stopped = run_cli(order);
  INFO(stopped.err);
  CHECK(stopped.status == ExitStatus::exited(0));
  CHECK(followed.hears(Kind::given_up, "rank 1 is not restarted: somebody has stopped it"));
  // Asked again it changes nothing.
  CHECK(run_cli(order).status == ExitStatus::exited(0));
  REQUIRE(run_cli({"drain", "--hosts", watched.standing[1].address()}).status ==
          ExitStatus::exited(0));
  CHECK(followed.hears(Kind::given_up, "rank 3 is not restarted: somebody has stopped it"));
  for (const auto rank : {1U, 3U}) CHECK(ranks_in_ps(watched).at(rank).at("restarts") == 0);
  CHECK(followed.count(Kind::given_up) == 2);
  CHECK(ranks_in_ps(watched).at(0).at("status") == "ready");
  CHECK(run_cli({"stop", "left", "--hosts", joined(watched)}).status == ExitStatus::exited(0));
}

TEST_CASE(
    "restarts: a launcher hears that somebody has stopped a rank of its mesh that waits, or the "
    "whole mesh") {
  Controlled watched(1, kSettings);
  auto spec = shell("exec sleep 300");
  spec.restart = {.on = RestartPolicy::On::failure, .delay = 60s, .max_delay = 60s, .jitter = 0};
  std::atomic<int> restarts{0};
  auto handlers = watched.heard.handlers();
  handlers.on_restart = [&](const RestartReport&) { ++restarts; };
  auto mesh = must(watched.hosts->spawn("left", extent("gpu=3"), std::move(spec), handlers));
  meshbus::test::kill_rank(mesh, 0);
  meshbus::test::kill_rank(mesh, 1);
  REQUIRE(wait_until([&] { return restarts == 2; }, in_time));
  const auto name = mesh.ref().mesh().to_string();
  must(watched.hosts->stop_mesh(name, {.ranks = {{0, 1}}}));
  REQUIRE(wait_until([&] { return watched.heard.failures().size() == 1; }, in_time));
  CHECK(watched.heard.failures()[0].rank == 0);
  must(watched.hosts->stop_mesh(name, {.ranks = {{0, 1}}}));
  CHECK(watched.heard.ends() == 0);
  must(watched.hosts->stop_mesh(name));
  CHECK(wait_until([&] { return watched.heard.ends() == 1; }, in_time));
  CHECK(watched.heard.failures().size() == 2);
  CHECK(restarts == 2);
}

TEST_CASE(
    "restarts: a handover that was done on one host only is repeated, and meanwhile the launcher "
    "restarts the ranks of both") {
  Controlled watched(2, kSettings);
  const Followed followed(watched);
  const auto controller = must(ProcId::parse(watched.home().to_string() + ",controller"));
  auto spec = shell("exec sleep 300");
  spec.lease = 20s;
  spec.restart = {.on = RestartPolicy::On::failure, .budget = 3, .delay = 50ms, .jitter = 0};
  auto mesh = must(
      watched.hosts->spawn("left", extent("gpu=1"), std::move(spec), watched.heard.handlers()));
  // What a launcher is left with whose order did not reach the second host.
  {
    auto& core = *watched.context.core();
    auto way = must(core.find_connection(watched.context.core(), watched.home()));
    const auto half =
        hand_over(core, *way.get(), mesh.ref().mesh().to_string(), {watched.hosts->hosts()[0]},
                  controller, {}, [](const HostAddr&) { return false; });
    REQUIRE(half.has_value());
  }
  CHECK_FALSE(mesh.is_handed_over());
  for (const std::uint64_t rank : {0U, 1U}) {
    meshbus::test::kill_rank(mesh, rank);
    const auto is_back = [&] {
      const auto known = mesh.known().ranks[rank];
      return known.restarts == 1 && known.state == ProcState::ready;
    };
    CAPTURE(failures_of(watched));
    CHECK(wait_until(is_back, in_time));
  }
  CHECK(watched.heard.failures().empty());
  const auto done = mesh.handover(controller);
  INFO((done ? std::string() : done.error().to_string()));
  REQUIRE(done.has_value());
  CHECK(mesh.is_handed_over());
  CHECK(mesh.handover(controller).has_value());
  const auto other =
      mesh.handover(must(ProcId::parse(watched.hosts->hosts()[1].to_string() + ",controller")));
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().code() == ErrorCode::refused);
  CHECK(other.error().detail().find("handed over already: " + controller.to_string() +
                                    " answers for it") != std::string::npos);
  // What the launcher used counts, on both hosts.
  kill_rank(watched, 0);
  CHECK(followed.hears(Kind::restarting, "rank 0 is restarted in "));
  CHECK(followed.hears(Kind::restarting, "(restart 2 of 3)"));
  kill_rank(watched, 1);
  REQUIRE(are_up(watched, {2, 2}));
  CHECK(run_cli({"stop", "left", "--hosts", joined(watched)}).status == ExitStatus::exited(0));
}

TEST_CASE(
    "restarts: a mesh that a launcher takes over is not lost when the answer of its controller "
    "comes too late") {
  Controlled watched(
      1, {"supervision.probe=200ms", "supervision.poll=1s", "lease=3s", "terminate.grace=2s"});
  spawn(watched, {"-n", "2", "--restart", "on-failure"}, "exec sleep 300");
  REQUIRE(are_up(watched, {0, 0}));
  const auto pid = pid_of(watched, 0);
  const auto name = parse_json(run_cli({"ps", "--json", "--hosts", joined(watched)}).out)
                        .at("meshes")[0]
                        .at("mesh")
                        .get<std::string>();
  watched.controller->send_signal(SIGSTOP);
  const auto late =
      watched.hosts->take_over(name, watched.heard.handlers(), {.lease = 3s, .deadline = 1s});
  watched.controller->send_signal(SIGCONT);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code() == ErrorCode::timeout);
  CHECK(late.error().detail().find("take it over again to know") != std::string::npos);
  // It has given it away meanwhile.
  const auto owner = [&] {
    for (const auto& mesh : must(watched.hosts->meshes()).meshes) {
      if (mesh.name == name) return mesh.owner;
    }
    return std::string();
  };
  const auto controller = watched.home().to_string() + ",controller";
  REQUIRE(wait_until([&] { return owner() != controller; }, in_time));
  // Two leases and more.
  CHECK_FALSE(wait_until([&] { return is_gone(pid); }, 7s));
  {
    auto mesh = must(watched.hosts->take_over(name, watched.heard.handlers(), {.lease = 3s}));
    // The controller does not count it among its own, and leaves it alone when it ends.
    watched.controller->send_signal(SIGTERM);
    CHECK(watched.controller->wait_exit(in_time) == ExitStatus::exited(0));
    CHECK_FALSE(wait_until([&] { return is_gone(pid); }, 7s));
  }
  CHECK(wait_until([&] { return is_gone(pid); }, in_time));
}
