// Orders for another size of a mesh, from one launcher to another (spec 18.2).
#include <atomic>
#include <future>
#include <mutex>
#include <stdexcept>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// Two hosts, the launcher of a mesh on the first one, and another launcher.
struct Ordered {
  using Handler = std::function<Result<ResizeReport>(const ResizeOrder&)>;

  ProcMesh spawn(Handler handler, ProcSpec spec = shell("exec sleep 100")) {
    auto handlers = heard.handlers();
    handlers.on_resize_order = std::move(handler);
    auto first = must(HostMesh::attach(owner, "first", {hosts.hosts()[0]}));
    return must(first.spawn("ranks", extent("gpu=2"), std::move(spec), std::move(handlers)));
  }
  static Result<ResizeReport> obey(const ResizeOrder& order) { return order.carry_out(); }

  Context owner = must(Context::create(quick()));
  HostMesh hosts = must(HostMesh::process(owner, extent("host=2"), of_this_build()));
  Context other = must(Context::create(quick()));
  HostMesh seen = must(HostMesh::attach(other, "seen", hosts.hosts()));
  Heard heard;
};

std::string name_of(const ProcMesh& mesh) {
  return mesh.ref().mesh().to_string();
}

bool says(const Error& error, std::string_view words) {
  return error.detail().find(words) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "resize: another launcher orders a mesh to grow and to shrink, and hears what came of it") {
  Ordered world;
  std::mutex mutex;
  std::vector<std::string> orders;
  auto mesh = world.spawn([&](const ResizeOrder& order) {
    const std::lock_guard lock(mutex);
    orders.push_back((order.is_growth() ? "grow " : "shrink ") + std::to_string(order.blocks()) +
                     " leaving " + to_string(order.leaving()));
    CHECK(has(order.requester(), "client-"));
    return order.carry_out();
  });
  const auto name = name_of(mesh);
  const auto grown =
      must(world.seen.grow_mesh(name, {.hosts = {world.hosts.hosts()[1], world.hosts.hosts()[0]}}));
  CHECK(grown.size == 6);
  CHECK(grown.ranks == RankSet{{2, 6}});
  CHECK(grown.hosts == std::vector<HostAddr>{world.hosts.hosts()[1], world.hosts.hosts()[0]});
  CHECK(mesh.size() == 6);
  CHECK(must(mesh.status()).size() == 6);
  const auto shrunk = must(world.seen.shrink_mesh(name, {.blocks = 2, .grace = 5s}));
  CHECK(shrunk.size == 2);
  CHECK(shrunk.ranks == RankSet{{2, 6}});
  CHECK(shrunk.hosts == grown.hosts);
  CHECK(mesh.size() == 2);
  // Nobody has said where: the launcher chooses.
  CHECK(must(world.seen.grow_mesh(name)).hosts == std::vector{world.hosts.hosts()[0]});
  CHECK(world.heard.failures().empty());
  must(mesh.stop());
  CHECK(orders == std::vector<std::string>{"grow 2 leaving none", "shrink 2 leaving 2-5",
                                           "grow 1 leaving none"});
}

TEST_CASE("resize: an order is refused by a launcher that takes none, and with what it says") {
  Ordered world;
  auto deaf = world.spawn(nullptr);
  const auto refused = world.seen.grow_mesh(name_of(deaf));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::refused);
  CHECK(says(refused.error(), "its launcher takes no orders for another size"));
  must(deaf.stop());

  auto unwilling = world.spawn([](const ResizeOrder& order) -> Result<ResizeReport> {
    if (order.is_growth()) return fail(ErrorCode::refused, "not today");
    throw std::runtime_error("no idea");
  });
  CHECK(world.seen.grow_mesh(name_of(unwilling)).error().detail() == "not today");
  const auto thrown = world.seen.shrink_mesh(name_of(unwilling));
  REQUIRE_FALSE(thrown.has_value());
  CHECK(thrown.error().code() == ErrorCode::call_error);
  CHECK(says(thrown.error(), "no idea"));
  must(unwilling.stop());

  auto mesh = world.spawn(Ordered::obey);
  const auto nothing = world.seen.shrink_mesh(name_of(mesh));
  REQUIRE_FALSE(nothing.has_value());
  CHECK(says(nothing.error(), "no rank would be left; stop the mesh instead"));
  const auto nowhere =
      world.seen.grow_mesh(name_of(mesh), {.hosts = {must(HostAddr::parse("unix:/nowhere/bus"))}});
  REQUIRE_FALSE(nowhere.has_value());
  CHECK(nowhere.error().code() == ErrorCode::host_unreachable);
  CHECK(says(nowhere.error(), "unix:/nowhere/bus"));
  CHECK(mesh.size() == 2);
  must(mesh.stop());
  CHECK(says(world.seen.grow_mesh(name_of(mesh)).error(), "all its ranks have ended"));
  CHECK(world.seen.grow_mesh("nix-13Se1Maqzryj").error().code() == ErrorCode::not_exist);
}

TEST_CASE("resize: of two orders at once the second one is refused; an order is given up in time") {
  Ordered world;
  std::promise<void> gate;
  std::promise<void> is_begun;
  std::atomic<bool> is_first = true;
  auto mesh = world.spawn(
      [&](const ResizeOrder& order) {
        if (is_first.exchange(false)) {
          is_begun.set_value();
          gate.get_future().wait_for(in_time);
        }
        return order.carry_out();
      },
      {.kind = ProcKind::mesh,
       .command = {
           "sh", "-c",
           "test $RANK -lt 4 || exec sleep 1000; exec " + bin("meshbus_test_proc") + " serve"}});
  auto first = std::async(std::launch::async, [&] { return world.seen.grow_mesh(name_of(mesh)); });
  REQUIRE(is_begun.get_future().wait_for(in_time) == std::future_status::ready);
  const auto second = world.seen.grow_mesh(name_of(mesh));
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code() == ErrorCode::refused);
  CHECK(says(second.error(), "another order for its size is under way"));
  gate.set_value();
  CHECK(must(first.get()).size == 4);
  // Ranks 4 and 5 never become ready.
  const auto late = world.seen.grow_mesh(name_of(mesh), {}, 1s);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code() == ErrorCode::proc_spawn_error);
  CHECK_MESSAGE(says(late.error(), "rank"), late.error().detail());
  CHECK(mesh.size() == 4);
  CHECK(must(mesh.status()).size() == 4);
  must(mesh.stop());
  CHECK(world.heard.failures().empty());
}

TEST_CASE("resize: a mesh that goes while an order is under way leaves nothing, and it is told") {
  Ordered world;
  std::promise<void> is_begun;
  std::optional<ProcMesh> mesh(world.spawn(
      [&](const ResizeOrder& order) {
        is_begun.set_value();
        return order.carry_out();
      },
      {.kind = ProcKind::mesh,
       .command = {
           "sh", "-c",
           "test $RANK -lt 2 || exec sleep 1000; exec " + bin("meshbus_test_proc") + " serve"}}));
  auto order = std::async(std::launch::async, [&, name = name_of(*mesh)] {
    return world.seen.grow_mesh(name, {.hosts = {world.hosts.hosts()[1]}});
  });
  REQUIRE(is_begun.get_future().wait_for(in_time) == std::future_status::ready);
  mesh.reset();
  CHECK_FALSE(order.get().has_value());
  CHECK(wait_until(
      [&] {
        const auto states = must(world.hosts.states());
        return states[0].live == 0 && states[1].live == 0;
      },
      in_time));
}
