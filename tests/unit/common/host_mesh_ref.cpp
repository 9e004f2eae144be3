#include "meshbus/host_mesh_ref.h"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "tests/unit/mesh/random.h"

using namespace meshbus;

namespace {

HostMeshRef parse(std::string_view text) {
  Result<HostMeshRef> mesh = HostMeshRef::parse(text);
  REQUIRE_MESSAGE(mesh, mesh.error().detail());
  return *mesh;
}

}  // namespace

TEST_CASE("host mesh ref: the spec's example prints, parses and slices") {
  const HostMeshRef mesh = parse("test:local:1,local:2,local:3,local:4@replica=2/2,host=2/1");
  CHECK(mesh.to_string() == "test:local:1,local:2,local:3,local:4@replica=2/2,host=2/1");
  const HostMeshRef second = mesh.range("replica", 1, 2).value();
  CHECK(second.to_string() == "test:local:3,local:4@2+replica=1/2,host=2/1");
  CHECK(parse(second.to_string()) == second);
  CHECK(*second.find(3) == HostAddr::local(4));
  CHECK(second.find(1) == nullptr);
  CHECK(mesh.at("host", 1).value().to_string() == "test:local:2,local:4@1+replica=2/2");
  CHECK(*second.get(0) == HostAddr::local(3));
  CHECK(second.get(2) == nullptr);
  CHECK(std::set<HostMeshRef>{mesh, second, parse(second.to_string())}.size() == 2);
  CHECK(std::hash<HostMeshRef>{}(parse(second.to_string())) == std::hash<HostMeshRef>{}(second));
}

TEST_CASE("host mesh ref: abstract sockets, quoted labels and no hosts round-trip") {
  for (const char* text : {"test:unix:@a@b@", "test:unix:@a,unix:/x@y@\"@\\\"@\"=2/1",
                           "test:@x=0/1", "test-13Se1Maqzryj:tcp:[::1]:7420@8+",
                           "test:local:1,local:1@x=2/1", "test:unix:/a\\@\"\\\\\"=1/1"}) {
    CAPTURE(text);
    CHECK(parse(text).to_string() == text);
  }
}

TEST_CASE("host mesh ref: slices keep rank and host together, texts round-trip") {
  test::for_cases(2'000, [&](test::Random& random) {
    const Extent extent = test::small_extent(random);
    std::vector<HostAddr> hosts;
    for (std::uint64_t rank = 0; rank < extent.num_ranks(); ++rank) {
      hosts.push_back(random() % 2 == 0
                          ? HostAddr::local(rank)
                          : HostAddr::unix_socket("@h@" + std::to_string(rank)).value());
    }
    HostMeshRef mesh = HostMeshRef::make(Name::make("m", random()).value(), extent, hosts).value();
    CAPTURE(mesh);
    REQUIRE(parse(mesh.to_string()) == mesh);
    for (std::uint64_t n = random() % 4; n > 0 && mesh.region().num_dims() > 0; --n) {
      const std::size_t axis = random() % mesh.region().num_dims();
      const std::string label = mesh.region().labels()[axis];
      const std::uint64_t index = random() % (mesh.region().sizes()[axis] + 1);
      const Result<HostMeshRef> next =
          random() % 2 == 0 ? mesh.at(label, index)
                            : mesh.range(label, index, std::nullopt, 1 + random() % 3);
      if (!next) {
        REQUIRE(next.error().code() == ErrorCode::out_of_range);
        continue;
      }
      mesh = *next;
      REQUIRE(mesh.hosts().size() == mesh.num_ranks());
      std::size_t ordinal = 0;
      for (const std::uint64_t rank : mesh.region().ranks()) {
        REQUIRE(mesh.hosts()[ordinal++] == hosts[rank]);
        REQUIRE(*mesh.find(rank) == hosts[rank]);
      }
      REQUIRE(parse(mesh.to_string()) == mesh);
    }
  });
}

TEST_CASE("host mesh ref: bad texts are refused with code and position") {
  struct Row {
    std::string text;
    ErrorCode code;
    std::string_view detail;
  };
  const std::vector<Row> rows = {
      {"", ErrorCode::parse_error,
       "host mesh reference: at 0: expected ':' and the addresses of hosts, found the end"},
      {"test", ErrorCode::parse_error,
       "host mesh reference: at 4: expected ':' and the addresses of hosts, found the end"},
      {":local:1@", ErrorCode::parse_error, "name: at 0: MissingName"},
      {"te st:local:1@", ErrorCode::parse_error, "name: at 2: InvalidName"},
      {"test:local:1", ErrorCode::parse_error,
       "host mesh reference: at 12: expected '@' and a region, found the end"},
      {"test:local:1\"@\"", ErrorCode::parse_error,
       "host mesh reference: at 15: expected '@' and a region, found the end"},
      {"test:local:x@", ErrorCode::parse_error,
       "host address: at 11: expected a number, found 'x'"},
      {"test:local:1,@", ErrorCode::parse_error,
       "host address: at 13: expected tcp:HOST:PORT, unix:/PATH, unix:@NAME or local:N, found '@'"},
      {"test:,local:1@", ErrorCode::parse_error,
       "host address: at 5: expected tcp:HOST:PORT, unix:/PATH, unix:@NAME or local:N, found ','"},
      {"test:local:1, local:2@x=2/1", ErrorCode::parse_error, "host address: at 13: expected tcp:"},
      {"test:local:1@x", ErrorCode::parse_error, "region: at 14: expected '=', found the end"},
      {"test:unix:@a", ErrorCode::parse_error, "region: at 12: expected '=', found the end"},
      {"test:local:1@x=2/1,y=2/1", ErrorCode::parse_error, "region: at 19: NonuniqueStrides"},
      {"test:local:1@x=2/1", ErrorCode::invalid_rank_cardinality,
       "host mesh reference: at 5: InvalidRankCardinality: expected 2 hosts, one for each rank of "
       "region \"x=2/1\", found 1"},
      {"test:@", ErrorCode::invalid_rank_cardinality,
       "host mesh reference: at 5: InvalidRankCardinality: expected 1 hosts"},
      {"test:local:1@x=9223372036854775807/1", ErrorCode::invalid_rank_cardinality,
       "host mesh reference: at 5: InvalidRankCardinality"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const Result<HostMeshRef> mesh = HostMeshRef::parse(row.text);
    REQUIRE_FALSE(mesh);
    CHECK(mesh.error().code() == row.code);
    CHECK(mesh.error().detail().substr(0, row.detail.size()) == row.detail);
  }
  const HostMeshRef mesh = parse("test:local:1,local:2@x=2/1");
  CHECK(mesh.range("z", 0).error().code() == ErrorCode::configuration_error);
  CHECK(mesh.sliced(Region::parse("x=9223372036854775807/1").value()).error().code() ==
        ErrorCode::out_of_range);
  CHECK(HostMeshRef::make(Name::plain("m").value(), Region{}, {}).error().code() ==
        ErrorCode::invalid_rank_cardinality);
}

TEST_CASE("host mesh ref: made of addresses and of the ids of agents, along one axis") {
  const auto name = Name::parse("test").value();
  const auto first = HostAddr::parse("tcp:h1:7420").value();
  const auto second = HostAddr::parse("unix:/run/m/broker").value();
  const auto mesh = HostMeshRef::of_hosts(name, {first, second}).value();
  CHECK(mesh.to_string() == "test:tcp:h1:7420,unix:/run/m/broker@host=2/1");
  CHECK(HostMeshRef::of_agents(
            name, {host_agent(first).to_string(), host_agent(second).to_string()}) == mesh);
  CHECK(HostMeshRef::of_hosts(name, {}).value().num_ranks() == 0);
  const auto refusal = [&](const std::string& text) {
    const auto made = HostMeshRef::of_agents(name, {"tcp:h1:7420,service,agent[0]", text});
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().code() == ErrorCode::parse_error);
    return made.error().detail();
  };
  CHECK(refusal("tcp:h1:7420")
            .starts_with("host mesh reference: agent 1: expected HOST,service,agent[0]: "));
  CHECK(refusal("tcp:h1:7420,trainers_3-13Se1Maqzryj,agent[0]") ==
        "host mesh reference: agent 1: expected HOST,service,agent[0], found "
        "tcp:h1:7420,trainers_3-13Se1Maqzryj,agent[0]");
}
