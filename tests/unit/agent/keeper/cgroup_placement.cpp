// Where a host makes its cgroup v2, decided from files as the kernel has them, in plain
// directories.
#include <doctest/doctest.h>

#include <filesystem>

#include "agent/os/cgroup_placement.h"
#include "agent/os/limit_places.h"
#include "tests/support/temp_dir.h"

namespace meshbus::os {
namespace {

namespace fs = std::filesystem;
constexpr pid_t kSelf = 4711;

/// A hierarchy of cgroup v2 in a directory.
class Tree {
 public:
  struct Group {
    std::string controllers = "cpuset cpu memory pids";
    std::string handed_on = {};
    std::string members = {};
    bool is_real_root = false;
  };
  void add(const std::string& name, const Group& group) const {
    fs::create_directories(dir_ / name);
    dir_.write(name + "/cgroup.controllers", group.controllers + "\n");
    dir_.write(name + "/cgroup.subtree_control", group.handed_on + "\n");
    dir_.write(name + "/cgroup.procs", group.members);
    if (!group.is_real_root) dir_.write(name + "/cgroup.type", "domain\n");
  }
  std::string operator/(const std::string& name) const { return dir_ / name; }
  CgroupPlacement plan(const std::string& own, bool is_root = false) const {
    return plan_cgroup_placement({dir_ / own, dir_ / "top", kSelf, is_root});
  }

 private:
  test::TempDir dir_;
};

TEST_CASE("host_place: alone in a cgroup it steps aside below it, whoever it is") {
  Tree tree;
  tree.add("top", {.handed_on = "memory pids", .is_real_root = true});
  tree.add("top/scope", {.members = "4711\n"});
  for (const bool is_root : {false, true}) {
    const auto place = tree.plan("top/scope", is_root);
    CHECK(place.base == tree / "top/scope");
    CHECK(place.enters_roles_leaf);
    CHECK(place.problem.empty());
    const auto places = LimitPlaces::find("1f00c2ab", place);
    for (const Controller controller : kControllers)
      CHECK(places.at(controller) == LimitPlace{2, tree / "top/scope/meshbus-1f00c2ab"});
    CHECK(places.v2_path() == tree / "top/scope/meshbus-1f00c2ab");
  }
}

TEST_CASE("host_place: processes in the real root are nobody's concern") {
  Tree tree;
  tree.add("top", {.members = "1\n2\n4711\n", .is_real_root = true});
  const auto place = tree.plan("top");
  CHECK(place.base == tree / "top");
  CHECK_FALSE(place.enters_roles_leaf);
  CHECK(place.problem.empty());
}

TEST_CASE("host_place: without a controller that could limit something it stays where it is") {
  Tree tree;
  tree.add("top", {.controllers = "hugetlb", .is_real_root = true});
  tree.add("top/scope", {.controllers = "hugetlb", .members = "4711\n"});
  CHECK_FALSE(tree.plan("top/scope").enters_roles_leaf);
  tree.add("top/scope", {.controllers = "", .members = "1\n4711\n"});
  // It serves to hold processes together all the same.
  CHECK(tree.plan("top/scope", true).base == tree / "top/scope");
  CHECK(
      LimitPlaces::find("1f00c2ab", tree.plan("top/scope", true)).at(Controller::memory).version !=
      2);
}

TEST_CASE("host_place: other processes in its cgroup are not moved, but named") {
  Tree tree;
  tree.add("top", {.handed_on = "memory pids cpu", .is_real_root = true});
  tree.add("top/session", {.members = "0\n99999991\n99999992\n4711\n99999993\n"});
  const auto place = tree.plan("top/session");
  CHECK(place.base == tree / "top/session");
  CHECK_FALSE(place.enters_roles_leaf);
  CHECK(place.problem.find(tree / "top/session has other processes than this host's") == 0);
  CHECK(place.problem.find("one outside of our pid namespace, 99999991, 99999992, and 1 more") !=
        std::string::npos);
  CHECK(place.problem.find("4711") == std::string::npos);
}

TEST_CASE(
    "host_place: root leaves a shared cgroup for the nearest above that hands on all there is, and "
    "changes none but the real root") {
  Tree tree;
  tree.add("top", {.handed_on = "memory pids cpu cpuset", .is_real_root = true});
  tree.add("top/slice", {.handed_on = "memory pids cpu"});
  tree.add("top/slice/inner", {.controllers = "cpu memory pids", .handed_on = "memory"});
  tree.add("top/slice/inner/session", {.controllers = "memory", .members = "1\n4711\n"});
  const std::string session = "top/slice/inner/session";
  CHECK(tree.plan(session, true).base == tree / "top/slice");
  CHECK(tree.plan(session, true).problem.empty());
  CHECK_FALSE(tree.plan(session, true).enters_roles_leaf);
  CHECK(tree.plan(session, false).base == tree / session);
  CHECK_FALSE(tree.plan(session, false).problem.empty());
  // The real root may be told to hand on; nothing else is.
  tree.add("top/slice", {.handed_on = "pids"});
  tree.add("top", {.is_real_root = true});
  CHECK(tree.plan(session, true).base == tree / "top");
  fs::remove(tree / "top/cgroup.type");
  tree.add("top", {});
  CHECK(tree.plan(session, true).base == tree / session);
  CHECK_FALSE(tree.plan(session, true).problem.empty());
}

TEST_CASE("host_place: nobody leaves what another host contains") {
  Tree tree;
  tree.add("top", {.handed_on = "memory pids cpu", .is_real_root = true});
  for (const std::string& hosts :
       {std::string("top/meshbus-1f00c2ab"), std::string("top/scope/meshbus-1f00c2ab")}) {
    tree.add(hosts, {.handed_on = ""});
    tree.add(hosts + "/mesh-a", {.members = "1\n4711\n"});
    CHECK(tree.plan(hosts + "/mesh-a", true).base == tree / (hosts + "/mesh-a"));
    CHECK_FALSE(tree.plan(hosts + "/mesh-a", true).problem.empty());
    // Within it, it may.
    tree.add(hosts, {.handed_on = "memory pids cpu"});
    CHECK(tree.plan(hosts + "/mesh-a", true).base == tree / hosts);
  }
}

TEST_CASE("host_place: who is among the roles of a host makes its own beside that one's") {
  Tree tree;
  tree.add("top", {.handed_on = "memory", .is_real_root = true});
  tree.add("top/scope", {.handed_on = "memory pids cpu"});
  tree.add("top/scope/meshbus-roles", {.members = "1\n2\n4711\n"});
  const auto place = tree.plan("top/scope/meshbus-roles");
  CHECK(place.base == tree / "top/scope");
  CHECK_FALSE(place.enters_roles_leaf);
  CHECK(place.problem.empty());
  CHECK(roles_leaf(place.base) == tree / "top/scope/meshbus-roles");
}

TEST_CASE(
    "host_place: what cannot be made is a reason in each place, and nothing is left of the "
    "attempt") {
  Tree tree;
  tree.add("top", {.handed_on = "memory", .is_real_root = true});
  tree.add("top/scope", {.members = "4711\n"});
  const auto place = tree.plan("top/scope");
  auto places = LimitPlaces::find("1f00c2ab", place);
  // In a plain directory the leaf has no cgroup.procs.
  places.claim_v2(place);
  for (const Controller controller : kControllers) {
    CHECK(places.at(controller).version == 0);
    CHECK(places.at(controller)
              .path.find("moving into " + (tree / "top/scope/meshbus-roles") + ": No such file") !=
          std::string::npos);
  }
  CHECK_FALSE(fs::exists(tree / "top/scope/meshbus-roles"));
  CHECK_FALSE(fs::exists(tree / "top/scope/meshbus-1f00c2ab"));
}

}  // namespace
}  // namespace meshbus::os
