#include <algorithm>

#include <doctest/doctest.h>

#include "client/controller/former_owners.h"
#include "client/controller/supervisor.h"
#include "wire/lifecycle_generated.h"
#include "wire/ranks_generated.h"

/// In a namespace of their own: what others call alike is compiled with them.
namespace meshbus::test::former {

using namespace std::chrono_literals;

using Kind = Supervisor::Question::Kind;

inline const HostAddr kA = *HostAddr::parse("unix:/a");
inline const HostAddr kB = *HostAddr::parse("unix:/b");
inline const HostAddr kC = *HostAddr::parse("unix:/c");
inline const std::string kMesh = Name::make("m", 1)->to_string();
inline const std::string kBefore = "unix:/a,controller";
inline const std::string kUs = "unix:/b,controller";
inline const std::string kLauncher = "unix:/a,client-11111111111b";
constexpr std::uint64_t kItsIncarnation = 71;
inline const std::vector<PairFormer> kFormer{{kBefore, kItsIncarnation}};
inline const Supervisor::Time t0{1h};

inline OwnerUpdate owner_named(const std::string& name, std::uint64_t incarnation = 0) {
  return {.owner = name,
          .lease = 30s,
          .loss = wire::OwnerLoss::lapse,
          .may_restart = true,
          .restarts = RestartPlan{.policy = {.on = RestartPolicy::On::failure, .budget = 3}},
          .incarnation = incarnation};
}

/// A controller of a pair that has just begun to act, and a mesh with a rank on each of two hosts.
/// It has watched them while another one did.
struct TakeOver {
  Supervisor supervisor{{.hosts = {kA, kB, kC}, .mesh = {}}, t0};
  TakeOver() {
    supervisor.connected(true, t0);
    supervisor.turn(t0);
    says(kA, owner_named(kBefore, kItsIncarnation));
    says(kB, owner_named(kBefore, kItsIncarnation));
    supervisor.answer({Kind::list, kC, {}, {}}, ListUpdate{}, t0);
  }
  /// It lists the mesh, with that owner.
  void says(const HostAddr& host, const OwnerUpdate& owner) {
    const std::uint64_t rank = host == kA ? 0 : 1;
    MeshUpdate news{.mesh = kMesh,
                    .region = Region(*Extent::parse("host=2")),
                    .hosts = {kA, kB},
                    .ranks_update = {}};
    news.ranks_update.ranks = {wire::RankState(rank, 1, 1, 1, 0, 42, 0, wire::ProcState::ready, 0,
                                               false, wire::StopStep::none, 0)};
    news.ranks_update.owner = owner;
    supervisor.answer({Kind::list, host, {}, {}},
                      ListUpdate{.meshes = {news}, .after = {}, .more = false}, t0);
  }
  void begin() { supervisor.add_name(kUs, t0); }
  /// The host has the claim of our term, and its agent has moved the mesh.
  void claimed(const HostAddr& host) {
    RankUpdate moved;
    moved.owner = owner_named(kUs);
    supervisor.pushed(host, kMesh, moved, t0);
    supervisor.claimed(host, kFormer, t0);
  }
  bool is_ours() const { return supervisor.find(kMesh)->is_ours(); }
  /// The rank on kB has ended: the orders to start it again, after its delay.
  std::vector<Supervisor::Question> orders_after_end() {
    RankUpdate end;
    end.ranks = {wire::RankState(1, 2, 1, 1, 5, 42, 0, wire::ProcState::killed, 9, false,
                                 wire::StopStep::none, 0)};
    auto report = std::make_shared<wire::ExitReportT>();
    report->rank = 1;
    report->cause = wire::Cause::killed_from_outside;
    end.exit_reports = {report};
    supervisor.pushed(kB, kMesh, end, t0 + 1s);
    auto questions = supervisor.turn(t0 + 3min).questions;
    std::erase_if(questions, [](const auto& one) { return one.kind != Kind::restart; });
    return questions;
  }
};

TEST_CASE("former_owners: by name and incarnation, or by name where the host knows no more") {
  FormerOwners former;
  CHECK(former.add(kFormer[0]));
  CHECK_FALSE(former.add(kFormer[0]));
  CHECK(former.contains(owner_named(kBefore, kItsIncarnation)));
  CHECK(former.contains(owner_named(kBefore, 0)));
  CHECK_FALSE(former.contains(owner_named(kBefore, 5)));
  CHECK_FALSE(former.contains(owner_named(kUs, kItsIncarnation)));
  auto gone = owner_named(kBefore, kItsIncarnation);
  gone.is_gone = true;
  CHECK_FALSE(former.contains(gone));
  former.clear();
  CHECK_FALSE(former.contains(owner_named(kBefore, 0)));
}

TEST_CASE("former_owners: a host that says more names than there can be is not believed for ever") {
  FormerOwners former;
  for (std::uint64_t i = 0; i < 2 * FormerOwners::kMost; ++i) {
    former.add({"unix:/x,controller", i + 1});
    former.add({"unix:/" + std::to_string(i) + ",controller", 1});
  }
  CHECK(former.contains(owner_named("unix:/x,controller", FormerOwners::kMost)));
  CHECK_FALSE(former.contains(owner_named("unix:/x,controller", FormerOwners::kMost + 1)));
  CHECK(former.contains(owner_named("unix:/0,controller", 1)));
  CHECK_FALSE(former.contains(owner_named("unix:/500,controller", 1)));
}

TEST_CASE(
    "supervisor: a mesh is taken over whose other host is lost together with the controller that "
    "acted") {
  TakeOver pair;
  SUBCASE("the host is silent before we act") {
    pair.supervisor.silent(kA, "lost", t0);
    pair.begin();
    CHECK_FALSE(pair.is_ours());
    pair.claimed(kB);
  }
  SUBCASE("the host is found to be silent later") {
    pair.begin();
    pair.claimed(kB);
    CHECK_FALSE(pair.is_ours());
    pair.supervisor.silent(kA, "lost", t0);
  }
  SUBCASE("the host does not know the incarnation of its owner") {
    pair.says(kA, owner_named(kBefore));
    pair.supervisor.silent(kA, "lost", t0);
    pair.begin();
    pair.claimed(kB);
  }
  REQUIRE(pair.is_ours());
  CHECK(pair.supervisor.owner_of(*pair.supervisor.find(kMesh))->owner == kUs);
  const auto orders = pair.orders_after_end();
  REQUIRE(orders.size() == 1);
  CHECK(orders[0].host == kB);
  CHECK(orders[0].restart->ranks.at(0).begin() == 1);
  // A lost rank is unknown; nobody says that it is dead.
  CHECK(pair.supervisor.find(kMesh)->live_on(kA) == 1);
}

TEST_CASE("supervisor: a mesh is not taken over because of what a silent host has said") {
  TakeOver pair;
  SUBCASE("the host answers, so it has to be claimed first") {
    pair.begin();
    pair.claimed(kB);
  }
  SUBCASE("another owner was named there") {
    pair.says(kA, owner_named(kLauncher));
    pair.supervisor.silent(kA, "lost", t0);
    pair.begin();
    pair.claimed(kB);
  }
  SUBCASE("another controller has that name by now") {
    pair.says(kA, owner_named(kBefore, 5));
    pair.supervisor.silent(kA, "lost", t0);
    pair.begin();
    pair.claimed(kB);
  }
  SUBCASE("the other host names another owner: it was handed over meanwhile") {
    pair.supervisor.silent(kA, "lost", t0);
    pair.begin();
    pair.supervisor.claimed(kB, kFormer, t0);
    pair.says(kB, owner_named(kLauncher));
  }
  SUBCASE("the other host grants no term, and names the one that acted before") {
    pair.supervisor.silent(kA, "lost", t0);
    pair.begin();
    pair.supervisor.claimed(kB, {}, t0);
    pair.supervisor.claimed(kC, kFormer, t0);
  }
  SUBCASE("the other host has named us in an earlier term, and not in this one") {
    pair.says(kB, owner_named(kUs));
    pair.supervisor.silent(kA, "lost", t0);
    pair.begin();
    pair.supervisor.claimed(kC, kFormer, t0);
  }
  SUBCASE("no host answers") {
    pair.supervisor.silent(kA, "lost", t0);
    pair.supervisor.silent(kB, "lost", t0);
    pair.begin();
    pair.supervisor.claimed(kC, kFormer, t0);
  }
  SUBCASE("no host has said that this one has acted") {
    pair.supervisor.silent(kA, "lost", t0);
    pair.begin();
    RankUpdate moved;
    moved.owner = owner_named(kUs);
    pair.supervisor.pushed(kB, kMesh, moved, t0);
    pair.supervisor.claimed(kB, {}, t0);
  }
  SUBCASE("this one does not act any more") {
    pair.supervisor.silent(kA, "lost", t0);
    pair.begin();
    pair.claimed(kB);
    REQUIRE(pair.is_ours());
    pair.supervisor.drop_names(t0);
    CHECK_FALSE(pair.is_ours());
    // What others had done before is to be heard anew in another term.
    pair.begin();
  }
  CHECK_FALSE(pair.is_ours());
  CHECK(pair.orders_after_end().empty());
}

TEST_CASE("supervisor: a host that comes back is claimed, and the mesh stays ours meanwhile") {
  TakeOver pair;
  pair.supervisor.silent(kA, "cut off", t0);
  pair.begin();
  pair.claimed(kB);
  REQUIRE(pair.is_ours());
  // An answer from before the cut is none.
  pair.supervisor.claimed(kA, kFormer, t0);
  CHECK(pair.is_ours());
  pair.says(kA, owner_named(kBefore, kItsIncarnation));
  CHECK(pair.is_ours());
  SUBCASE("it has moved the mesh") {
    pair.claimed(kA);
    CHECK(pair.is_ours());
    pair.supervisor.silent(kA, "cut off again", t0);
    CHECK(pair.is_ours());
    pair.says(kA, owner_named(kUs));
    CHECK(pair.is_ours());
  }
  SUBCASE("it was handed to a launcher meanwhile") {
    pair.says(kA, owner_named(kLauncher));
    CHECK_FALSE(pair.is_ours());
    CHECK(pair.orders_after_end().empty());
  }
  SUBCASE("it grants no term, and names the one before still") {
    pair.supervisor.claimed(kA, {}, t0);
    CHECK_FALSE(pair.is_ours());
  }
  SUBCASE("we lose the term before it is claimed") {
    pair.supervisor.drop_names(t0);
    pair.begin();
    pair.claimed(kB);
    // It answers, so its word counts.
    CHECK_FALSE(pair.is_ours());
    pair.claimed(kA);
    CHECK(pair.is_ours());
  }
}

}  // namespace meshbus::test::former
