#include <algorithm>

#include <doctest/doctest.h>

#include "client/controller/lease_book.h"
#include "client/controller/owner_word.h"
#include "client/controller/supervisor.h"
#include "wire/lifecycle_generated.h"
#include "wire/ranks_generated.h"

/// In a namespace of their own: what others call alike is compiled with them.
namespace meshbus::test::leased {

using namespace std::chrono_literals;

using Kind = Supervisor::Question::Kind;

inline const HostAddr kA = *HostAddr::parse("unix:/a");
inline const HostAddr kB = *HostAddr::parse("unix:/b");
inline const std::string kMesh = Name::make("m", 1)->to_string();
inline const std::string kUs = "unix:/a,controller";
inline const Supervisor::Time t0{1h};

/// One live rank on each of two hosts, as one of them says it.
inline MeshUpdate news_of(std::uint64_t rank, const std::string& owner,
                          std::chrono::milliseconds lease = 30s, bool is_gone = false) {
  const wire::RankState state(rank, 1, 1, 1, 0, 42, 0, wire::ProcState::ready, 0, false,
                              wire::StopStep::none, 0);
  MeshUpdate news{.mesh = kMesh,
                  .region = Region(*Extent::parse("host=2")),
                  .hosts = {kA, kB},
                  .ranks_update = {}};
  news.ranks_update.ranks = {state};
  news.ranks_update.owner = OwnerUpdate{
      .owner = owner, .lease = lease, .loss = wire::OwnerLoss::lapse, .is_gone = is_gone};
  return news;
}

/// A Supervisor of two hosts that is connected and known as kUs.
struct Two {
  Supervisor supervisor{{.hosts = {kA, kB}, .mesh = {}}, t0};
  Two() {
    supervisor.connected(true, t0);
    supervisor.turn(t0);
    supervisor.add_name(kUs, t0);
  }
  /// Returns the questions that follow.
  std::vector<Supervisor::Question> lists(const HostAddr& host, std::vector<MeshUpdate> meshes,
                                          Supervisor::Time now) {
    return supervisor
        .answer({Kind::list, host, {}, {}},
                ListUpdate{.meshes = std::move(meshes), .after = {}, .more = false}, now)
        .questions;
  }
  /// It answers that it has nothing of the mesh.
  void denies(const HostAddr& host, Supervisor::Time now) {
    supervisor.answer({Kind::state, host, kMesh, {}}, fail(ErrorCode::not_exist, kMesh), now);
  }
  std::vector<Supervisor::Question> renewals(Supervisor::Time now) {
    std::vector<Supervisor::Question> found;
    for (auto& question : supervisor.turn(now).questions) {
      if (question.kind == Kind::renew) found.push_back(std::move(question));
    }
    return found;
  }
  void answer(const std::vector<Supervisor::Question>& questions, const HostAnswer& answer,
              Supervisor::Time now) {
    for (const auto& question : questions) supervisor.answer(question, answer, now);
  }
};

TEST_CASE(
    "lease_book: all at once when the first is a third of its length old, new ones now, and again "
    "soon what was not done") {
  LeaseBook book;
  CHECK_FALSE(book.due().has_value());
  book.set({{"a", 30s}, {"b", 60s}});
  CHECK(book.due() <= t0);
  CHECK(book.renew(t0) == std::vector<std::string>{"a", "b"});
  CHECK(book.due() == t0 + 10s);
  book.set({{"a", 30s}, {"b", 60s}});
  CHECK(book.due() == t0 + 10s);
  CHECK(book.renew(t0 + 10s).size() == 2);
  book.failed({"a", "b"}, t0 + 11s);
  CHECK(book.due() == t0 + 11s + LeaseBook::kAskAgain);
  book.set({{"b", 600ms}});
  CHECK(book.due() <= t0);
  CHECK(book.renew(t0 + 12s) == std::vector<std::string>{"b"});
  book.failed({"b"}, t0 + 12s);
  CHECK(book.due() == t0 + 12s + 100ms);
  book.set({});
  CHECK_FALSE(book.due().has_value());
}

TEST_CASE(
    "supervisor: meshes of ours are renewed on each host in one message, at a third of the lease") {
  Two two;
  two.lists(kA, {news_of(0, kUs)}, t0);
  two.lists(kB, {news_of(1, kUs)}, t0);
  CHECK(two.supervisor.live_owned() == 1);
  CHECK(two.supervisor.next_due() <= t0);
  const auto first = two.renewals(t0);
  REQUIRE(first.size() == 2);
  CHECK(first[0].meshes == std::vector{kMesh});
  CHECK(two.renewals(t0 + 15s).empty());  // not while one is under way
  two.answer(first, std::monostate(), t0 + 15s);
  const auto second = two.renewals(t0 + 15s);
  CHECK(second.size() == 2);
  two.answer(second, fail(ErrorCode::timeout, "no answer"), t0 + 16s);
  CHECK(two.renewals(t0 + 16s).empty());
  const auto again = two.renewals(t0 + 16s + LeaseBook::kAskAgain);
  CHECK(again.size() == 2);
  two.answer(again, std::monostate(), t0 + 17s);
  CHECK(two.renewals(t0 + 26s).empty());
  CHECK(two.renewals(t0 + 27s).size() == 2);
}

TEST_CASE("supervisor: hosts of ours are renewed like meshes, as each host says whose it is") {
  Two two;
  two.lists(kA, {news_of(0, kUs, 60s)}, t0);
  two.lists(kB, {}, t0);
  two.denies(kB, t0);
  const auto says = [&](const HostAddr& host, std::optional<OwnerUpdate> owner,
                        Supervisor::Time now) {
    two.supervisor.answer({Kind::probe, host, {}, {}}, HostUpdate{1, 1, std::move(owner)}, now);
  };
  const OwnerUpdate ours{.owner = kUs, .lease = 30s, .loss = wire::OwnerLoss::lapse};
  says(kA, ours, t0);
  says(kB, OwnerUpdate{.owner = kUs, .lease = 30s, .loss = wire::OwnerLoss::detach}, t0);
  CHECK(two.supervisor.owned_hosts() == std::vector{kA, kB});
  // Detached hosts do not end with us.
  CHECK(two.supervisor.owned_hosts(/*that_end=*/true) == std::vector{kA});
  const auto first = two.renewals(t0);
  REQUIRE(first.size() == 2);
  CHECK(first[0].meshes == std::vector{kMesh, std::string("service")});
  CHECK(first[1].meshes == std::vector<std::string>{"service"});
  two.answer(first, std::monostate(), t0);
  CHECK(two.renewals(t0 + 9s).empty());
  CHECK(two.renewals(t0 + 10s).size() == 2);
  // It was given to another one, and the other one has let its lease lapse.
  says(kA, OwnerUpdate{.owner = "unix:/b,controller", .lease = 30s}, t0 + 11s);
  says(kB, OwnerUpdate{.owner = kUs, .lease = 30s, .is_gone = true}, t0 + 11s);
  CHECK(two.supervisor.owned_hosts().empty());
}

TEST_CASE(
    "supervisor: a mesh whose handover had failed is no more ours when all hosts name another "
    "owner") {
  Two two;
  const std::string other = "unix:/a,client-11111111111b";
  two.lists(kA, {news_of(0, kUs)}, t0);
  two.lists(kB, {news_of(1, kUs)}, t0);
  two.supervisor.hold(kMesh);
  two.lists(kA, {news_of(0, other)}, t0 + 1s);
  two.supervisor.resume(kMesh, t0 + 2s);
  CHECK(two.supervisor.live_owned() == 1);
  // The answer of that host had come too late.
  two.lists(kB, {news_of(1, other)}, t0 + 3s);
  CHECK(two.supervisor.live_owned() == 0);
  CHECK(two.supervisor.stop_owned({}, t0 + 3s).questions.empty());
}

TEST_CASE(
    "supervisor: what others answer for, what nobody does, and half of a mesh is not renewed") {
  Two two;
  SUBCASE("another one's") {
    two.lists(kA, {news_of(0, "unix:/a,client-11111111111b")}, t0);
    two.lists(kB, {news_of(1, "unix:/a,client-11111111111b")}, t0);
  }
  SUBCASE("nobody's") {
    two.lists(kA, {news_of(0, kUs, 30s, true)}, t0);
    two.lists(kB, {news_of(1, kUs, 30s, true)}, t0);
  }
  SUBCASE("handed over on one host only") {
    two.lists(kA, {news_of(0, kUs)}, t0);
    two.lists(kB, {news_of(1, "unix:/a,client-11111111111b")}, t0);
    CHECK(two.renewals(t0).empty());
    CHECK(two.supervisor.live_owned() == 0);
    // Unless this controller hands it over itself.
    two.supervisor.hold(kMesh);
    CHECK(two.supervisor.live_owned() == 1);
    two.supervisor.let_go(kMesh);
    CHECK(two.supervisor.live_owned() == 0);
    // The rest follows.
    RankUpdate rest;
    rest.owner = OwnerUpdate{.owner = kUs, .lease = 30s};
    two.supervisor.pushed(kB, kMesh, rest, t0 + 1s);
    CHECK(two.renewals(t0 + 1s).size() == 2);
    return;
  }
  CHECK(two.renewals(t0).empty());
  CHECK(two.supervisor.live_owned() == 0);
}

TEST_CASE(
    "supervisor: a mesh that is pushed and not known was handed to us: its host is asked at once, "
    "also while a list is under way") {
  Two two;
  RankUpdate news;
  news.owner = OwnerUpdate{.owner = kUs, .lease = 30s};
  // The first lists are under way.
  CHECK(two.supervisor.pushed(kA, kMesh, news, t0).questions.empty());
  const auto next = two.supervisor.answer({Kind::list, kA, {}, {}}, ListUpdate{}, t0);
  REQUIRE(next.questions.size() == 1);
  CHECK(next.questions[0].kind == Kind::list);
  two.lists(kA, {news_of(0, kUs)}, t0);
  two.denies(kB, t0);
  CHECK(two.renewals(t0).size() == 1);
}

/// The probe of kA is answered: whether it is asked then what it has.
inline bool is_list_asked(Two& two, std::uint64_t live, Supervisor::Time now) {
  const auto questions =
      two.supervisor
          .answer({Kind::probe, kA, {}, {}}, HostUpdate{.incarnation = 7, .live = live}, now)
          .questions;
  return std::any_of(questions.begin(), questions.end(),
                     [](const auto& one) { return one.kind == Kind::list; });
}

TEST_CASE(
    "supervisor: a host that counts more live procs than we do is asked again when a list is here "
    "that may be older") {
  Two two;
  // The first lists are under way.
  CHECK_FALSE(is_list_asked(two, 1, t0));
  const auto next = two.supervisor.answer({Kind::list, kA, {}, {}}, ListUpdate{}, t0);
  REQUIRE(next.questions.size() == 1);
  CHECK(next.questions[0].kind == Kind::list);
  two.lists(kA, {news_of(0, kUs)}, t0);
  two.denies(kB, t0);
  CHECK(two.renewals(t0).size() == 1);
}

TEST_CASE(
    "supervisor: the same difference again is asked about again, unless it is of procs that are "
    "none of ours") {
  Two two;
  two.lists(kA, {}, t0);
  CHECK(is_list_asked(two, 1, t0 + 1s));
  two.lists(kA, {news_of(0, kUs)}, t0 + 1s);
  // It ends, and something new is there.
  RankUpdate end;
  end.ranks = {wire::RankState(0, 2, 1, 1, 5, 42, 0, wire::ProcState::killed, 9, false,
                               wire::StopStep::none, 0)};
  two.supervisor.pushed(kA, kMesh, end, t0 + 1s);
  CHECK(is_list_asked(two, 1, t0 + 2s));
  auto elsewhere = news_of(0, kUs);
  elsewhere.mesh = Name::make("m", 2)->to_string();
  elsewhere.hosts = {kB, *HostAddr::parse("unix:/c")};
  two.lists(kA, {elsewhere}, t0 + 2s);
  CHECK_FALSE(is_list_asked(two, 1, t0 + 3s));
}

TEST_CASE(
    "supervisor: a host that tells of its part of a mesh before it has listed it is asked for "
    "that: it is ours, and has a lease") {
  Two two;
  two.lists(kA, {news_of(0, kUs)}, t0);
  two.lists(kB, {}, t0);
  two.denies(kB, t0);
  RankUpdate birth;
  birth.ranks = news_of(1, kUs).ranks_update.ranks;
  const auto questions = two.supervisor.pushed(kB, kMesh, birth, t0).questions;
  REQUIRE(questions.size() == 1);
  CHECK(questions[0].kind == Kind::state);
  CHECK(questions[0].host == kB);
  two.supervisor.answer(questions[0], news_of(1, kUs), t0);
  CHECK(two.renewals(t0).size() == 2);
}

TEST_CASE("owner_word: what was asked before the present owner was named counts for nothing") {
  OwnerWord word;
  word.on_question();
  word.on_new_owner(false);
  word.on_answer(/*is_denial=*/true);
  CHECK_FALSE(word.is_heard());
  word.on_question();
  word.on_answer(true);
  CHECK(word.is_denial());
  word.forget_denial();
  CHECK(word.is_heard());
  CHECK_FALSE(word.is_denial());
  // What it says counts more than that it was silent.
  word.on_answer(true);
  word.on_silent();
  CHECK(word.is_denial());
  word.on_listed();
  CHECK_FALSE(word.is_denial());
}

TEST_CASE(
    "supervisor: a mesh is ours when each of its hosts has said so, has nothing of it since then, "
    "or does not answer") {
  Two two;
  const std::string other = "unix:/a,client-11111111111b";
  two.lists(kB, {}, t0);
  const auto questions = two.lists(kA, {news_of(0, kUs)}, t0);
  REQUIRE(std::ranges::count(questions, Kind::state, &Supervisor::Question::kind) == 1);
  const auto is_ours = [&] { return two.supervisor.find(kMesh)->is_ours(); };
  CHECK(two.renewals(t0).empty());
  // Its list was older than the mesh.
  two.lists(kB, {}, t0);
  CHECK_FALSE(is_ours());
  // It is stopped with us all the same.
  CHECK(two.supervisor.live_owned() == 1);
  SUBCASE("it names the owner before: the handover was done on one host only") {
    two.supervisor.answer({Kind::state, kB, kMesh, {}}, news_of(1, other), t0);
    CHECK_FALSE(is_ours());
    two.lists(kB, {news_of(1, kUs)}, t0 + 1s);
    CHECK(is_ours());
    // A host that was started again does not take it from us.
    two.lists(kB, {}, t0 + 1s);
  }
  SUBCASE("it has nothing of it") {
    two.denies(kB, t0);
  }
  SUBCASE("its answer does not come") {
    two.supervisor.answer({Kind::state, kB, kMesh, {}}, fail(ErrorCode::timeout, "?"), t0);
  }
  SUBCASE("it fails to say") {
    two.supervisor.answer({Kind::state, kB, kMesh, {}}, fail(ErrorCode::malformed_message, "?"),
                          t0);
  }
  SUBCASE("it does not answer") {
    two.supervisor.silent(kB, "cut off", t0);
  }
  CHECK(is_ours());
  CHECK_FALSE(two.renewals(t0 + 1s).empty());
  // Another owner has taken it over.
  two.lists(kA, {news_of(0, other)}, t0 + 2s);
  CHECK_FALSE(is_ours());
}

TEST_CASE(
    "supervisor: a host that does not answer is renewed when it is back, and all of ours is "
    "stopped when we end") {
  Two two;
  two.lists(kA, {news_of(0, kUs)}, t0);
  two.lists(kB, {news_of(1, kUs)}, t0);
  two.answer(two.renewals(t0), std::monostate(), t0);
  two.supervisor.silent(kB, "cut off", t0 + 1s);
  CHECK(two.renewals(t0 + 20s).size() == 1);
  RankUpdate nothing;
  two.supervisor.pushed(kB, kMesh, nothing, t0 + 21s);
  const auto back = two.renewals(t0 + 21s);
  REQUIRE(back.size() == 1);
  CHECK(back[0].host == kB);
  wire::StopProcsT order;
  order.reason = "the controller ends";
  const auto actions = two.supervisor.stop_owned(order, t0 + 22s);
  CHECK(std::count_if(actions.questions.begin(), actions.questions.end(),
                      [](const auto& one) { return one.kind == Kind::stop; }) == 2);
  CHECK(two.supervisor.find(kMesh)->stop_order().mesh == kMesh);
  CHECK(two.supervisor.find(kMesh)->stop_order().reason == "the controller ends");
}

}  // namespace meshbus::test::leased
