#include <doctest/doctest.h>

#include "client/controller/event_json.h"
#include "client/controller/mesh_watch.h"
#include "client/controller/subscriptions.h"

using namespace meshbus;

namespace {

const HostAddr kHost = *HostAddr::parse("unix:/a");
const std::string kWatched = Name::make("m", 1)->to_string();

struct Rank {
  std::uint64_t rank = 0;
  std::uint64_t generation = 1;
  wire::ProcState state = wire::ProcState::ready;
  std::int64_t ended_ns = 0;
  std::uint64_t incarnation = 1;
};

wire::MeshStateT state_of(const std::vector<Rank>& ranks, const std::vector<std::uint64_t>& certificates = {},
                          const std::string& mesh = kWatched) {
  wire::MeshStateT state;
  state.mesh = mesh;
  state.region = std::make_unique<wire::RegionT>();
  state.region->labels = {"gpu"};
  state.region->sizes = {4};
  state.region->strides = {1};
  state.hosts = {kHost.to_string()};
  for (const auto& rank : ranks) {
    state.ranks.push_back({rank.rank, rank.generation, rank.incarnation, 1, rank.ended_ns, 42, 0, rank.state,
                           static_cast<std::uint8_t>(rank.state == wire::ProcState::killed ? 9 : 0), false, wire::StopStep::none, 0});
  }
  for (const auto rank : certificates) {
    auto certificate = std::make_unique<wire::CertificateT>();
    certificate->rank = rank;
    certificate->reason = "killed by SIGKILL";
    const std::string tail = "last \xff words\n";
    certificate->stderr_tail.assign(tail.begin(), tail.end());
    state.certificates.push_back(std::move(certificate));
  }
  return state;
}

MeshWatch::Answer list_all(MeshWatch& watch, std::vector<wire::MeshStateT> meshes) {
  wire::MeshListT native;
  native.host = kHost.to_string();
  for (auto& mesh : meshes) native.meshes.push_back(std::make_unique<wire::MeshStateT>(std::move(mesh)));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::MeshList::Pack(builder, &native));
  return watch.on_list(kHost, *flatbuffers::GetRoot<wire::MeshList>(builder.GetBufferPointer()));
}

MeshWatch::Answer list_page(MeshWatch& watch, const std::string& after, const std::vector<std::string>& names, bool more) {
  wire::MeshListT native;
  native.host = kHost.to_string();
  native.after = after;
  native.more = more;
  for (const auto& name : names) native.meshes.push_back(std::make_unique<wire::MeshStateT>(state_of({{}}, {}, name)));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::MeshList::Pack(builder, &native));
  return watch.on_list(kHost, *flatbuffers::GetRoot<wire::MeshList>(builder.GetBufferPointer()));
}

MeshWatch::Answer list(MeshWatch& watch, const std::vector<Rank>& ranks) {
  std::vector<wire::MeshStateT> meshes;
  meshes.push_back(state_of(ranks));
  return list_all(watch, std::move(meshes));
}

std::vector<WatchEvent> full(MeshWatch& watch, const wire::MeshStateT& native) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::MeshState::Pack(builder, &native));
  return watch.on_state(kHost, *flatbuffers::GetRoot<wire::MeshState>(builder.GetBufferPointer()));
}

}  // namespace

TEST_CASE("mesh_watch: what a page of a list does not speak of is not taken for gone") {
  MeshWatch watch;
  CHECK(list_page(watch, "", {"a", "b"}, true).next == "b");
  CHECK(list_page(watch, "b", {"c", "d"}, false).next.empty());
  CHECK(watch.known("").size() == 4);
  // The same again is no news; c has been forgotten meanwhile.
  CHECK(list_page(watch, "", {"a", "b"}, true).events.empty());
  CHECK(watch.known("").size() == 4);
  CHECK(list_page(watch, "b", {"d"}, false).events.empty());
  CHECK(watch.known("").size() == 3);
  CHECK(watch.known("c").empty());
  // A host that says the same page for ever is not asked for ever.
  CHECK(list_page(watch, "b", {"a", "b"}, true).next.empty());
  CHECK(list_page(watch, "", {}, true).next.empty());
}

TEST_CASE("mesh_watch: each change is told once, however often it is polled") {
  MeshWatch watch;
  CHECK(list(watch, {{.rank = 0}, {.rank = 1}}).events.size() == 2);
  CHECK(list(watch, {{.rank = 0}, {.rank = 1}}).events.empty());
  const auto answer = list(watch, {{.rank = 0, .generation = 2, .state = wire::ProcState::stopping}, {.rank = 1}});
  REQUIRE(answer.events.size() == 1);
  CHECK(answer.events[0].rank.rank() == 0);
  CHECK(answer.events[0].point == "gpu=0/4");
}

TEST_CASE("mesh_watch: an end is told once, with its certificate") {
  MeshWatch watch;
  list(watch, {{.rank = 0}, {.rank = 1}});
  const std::vector<Rank> ended{{.rank = 0, .generation = 2, .state = wire::ProcState::killed, .ended_ns = 5}, {.rank = 1}};
  const auto answer = list(watch, ended);
  CHECK(answer.events.empty());
  CHECK(answer.wanted == std::vector<std::string>{kWatched});
  const auto told = full(watch, state_of(ended, {0}));
  REQUIRE(told.size() == 1);
  REQUIRE(told[0].certificate != nullptr);
  CHECK(told[0].certificate->reason == "killed by SIGKILL");
  CHECK(full(watch, state_of(ended, {0})).empty());
  const auto again = list(watch, ended);
  CHECK(again.events.empty());
  CHECK(again.wanted.empty());
}

TEST_CASE("mesh_watch: an end whose certificate is late is told at the second answer, once") {
  MeshWatch watch;
  const std::vector<Rank> ended{{.rank = 0, .generation = 2, .state = wire::ProcState::killed, .ended_ns = 5}};
  CHECK(full(watch, state_of(ended)).empty());
  CHECK(full(watch, state_of(ended)).size() == 1);
  CHECK(full(watch, state_of(ended, {0})).empty());
}

TEST_CASE("mesh_watch: of several ends the earlier comes first") {
  MeshWatch watch;
  const std::vector<Rank> ended{{.rank = 0, .state = wire::ProcState::killed, .ended_ns = 9},
                                {.rank = 1, .state = wire::ProcState::killed, .ended_ns = 7}};
  const auto told = full(watch, state_of(ended, {0, 1}));
  REQUIRE(told.size() == 2);
  CHECK(told[0].rank.rank() == 1);
}

TEST_CASE("mesh_watch: a late answer does not turn time back") {
  MeshWatch watch;
  list(watch, {{.rank = 0, .generation = 3}});
  CHECK(list(watch, {{.rank = 0, .generation = 2, .state = wire::ProcState::starting}}).events.empty());
}

TEST_CASE("mesh_watch: another life of a rank is told anew") {
  MeshWatch watch;
  full(watch, state_of({{.rank = 0, .generation = 2, .state = wire::ProcState::killed, .ended_ns = 5}}, {0}));
  const auto answer = list(watch, {{.rank = 0, .generation = 1, .incarnation = 2}});
  REQUIRE(answer.events.size() == 1);
  CHECK(answer.events[0].rank.state() == wire::ProcState::ready);
  CHECK(answer.events[0].certificate == nullptr);
}

TEST_CASE("mesh_watch: a list that was too long for its ranks is asked for in full") {
  MeshWatch watch;
  const auto answer = list(watch, {});
  CHECK(answer.wanted == std::vector<std::string>{kWatched});
  CHECK(full(watch, state_of({{.rank = 0}})).size() == 1);
}

TEST_CASE("mesh_watch: what agents no longer list is forgotten") {
  MeshWatch watch;
  list(watch, {{.rank = 0}});
  CHECK(watch.known("").size() == 1);
  list_all(watch, {});
  CHECK(watch.known("").empty());
}

TEST_CASE("mesh_watch: only the mesh that was asked for") {
  MeshWatch watch("other");
  std::vector<wire::MeshStateT> meshes;
  meshes.push_back(state_of({{.rank = 0}}));
  meshes.push_back(state_of({{.rank = 0}}, {}, Name::make("other", 7)->to_string()));
  CHECK(list_all(watch, std::move(meshes)).events.size() == 1);
}

TEST_CASE("mesh_watch: a silent host is told once, and so is its return") {
  MeshWatch watch;
  list(watch, {{.rank = 0}});
  const auto silence = watch.on_silence(kHost, "timeout");
  REQUIRE(silence.size() == 1);
  CHECK(silence[0].kind == WatchEvent::Kind::host_unreachable);
  CHECK(watch.on_silence(kHost, "timeout").empty());
  const auto back = list(watch, {{.rank = 0}}).events;
  REQUIRE(back.size() == 1);
  CHECK(back[0].kind == WatchEvent::Kind::host_back);
  CHECK(list(watch, {{.rank = 0}}).events.empty());
}

TEST_CASE("mesh_watch: subscribers get what is known, in messages below the limit") {
  MeshWatch watch;
  std::vector<Rank> ranks;
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    ranks.push_back({.rank = rank, .state = wire::ProcState::killed, .ended_ns = 5});
    numbers.push_back(rank);
  }
  auto state = state_of(ranks, numbers);
  for (auto& certificate : state.certificates) certificate->stderr_tail.assign(300 * 1024, 'x');
  full(watch, state);
  const auto messages = to_messages(watch.known(kWatched), 7);
  REQUIRE(messages.size() == 4);
  CHECK(messages[0].poll == 7);
  CHECK(messages[0].host == kHost.to_string());
  CHECK(messages[3].ranks.size() == 1);
  CHECK(messages[3].certificates.size() == 1);
  CHECK(watch.known("nothing").empty());
}

TEST_CASE("subscriptions: a set, whose events come once however often somebody subscribed") {
  Subscriptions set;
  const ProcId me = *ProcId::parse("unix:/a,client-11111111111b");
  CHECK(set.add(me, kWatched));
  CHECK_FALSE(set.add(me, kWatched));
  CHECK(set.add(me, ""));
  WatchEvent mine;
  mine.mesh = kWatched;
  WatchEvent other;
  other.mesh = "other";
  CHECK(set.for_subscriber(me, {mine, other}).size() == 2);
  CHECK(set.remove(me, ""));
  CHECK_FALSE(set.remove(me, ""));
  CHECK(set.for_subscriber(me, {mine, other}).size() == 1);
  CHECK(set.drop(me.key()));
  CHECK(set.subscribers().empty());
}

TEST_CASE("event_json: one line, whatever bytes a proc wrote") {
  MeshWatch watch;
  const auto told = full(watch, state_of({{.rank = 2, .state = wire::ProcState::killed, .ended_ns = 5}}, {2}));
  REQUIRE(told.size() == 1);
  const auto line = to_json_line(told[0], std::chrono::system_clock::time_point(std::chrono::milliseconds(1'500)));
  CHECK(line ==
        "{\"time\":\"1970-01-01T00:00:01.500Z\",\"event\":\"state\",\"mesh\":\"" + kWatched +
            "\",\"host\":\"unix:/a\",\"rank\":2,\"point\":\"gpu=2/4\",\"state\":\"killed\",\"pid\":42,\"exit_code\":null,\"signal\":9,"
            "\"reason\":\"killed by SIGKILL\",\"stderr_tail\":[\"last \xef\xbf\xbd words\"]}");
}
