#include "meshbus/proc_mesh_ref.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "meshbus/view.h"
#include "tests/unit/mesh/property.h"

using namespace meshbus;

namespace {

Name trainers() {
  return *Name::parse("trainers-13Se1Maqzryj");
}

std::vector<HostAddr> hosts_of(std::uint64_t count) {
  std::vector<HostAddr> hosts;
  for (std::uint64_t i = 0; i < count; ++i)
    hosts.push_back(*HostAddr::tcp("h" + std::to_string(i), 7420));
  return hosts;
}

ProcMeshRef two_by_four() {
  return *ProcMeshRef::make(trainers(), hosts_of(2), *Extent::make({{"host", 2}, {"gpu", 4}}));
}

/// The rule, said with a loop: hosts take turns in order, the first N % H of them one rank more.
std::vector<std::uint64_t> hosts_by_rank(std::uint64_t ranks, std::uint64_t hosts) {
  std::vector<std::uint64_t> of_rank;
  for (std::uint64_t host = 0; host < hosts; ++host) {
    for (std::uint64_t i = 0; i < ranks / hosts + (host < ranks % hosts ? 1 : 0); ++i)
      of_rank.push_back(host);
  }
  return of_rank;
}

}  // namespace

TEST_CASE("proc_mesh_ref: ranks lie on hosts in blocks, the first hosts take what is left over") {
  for (std::uint64_t hosts = 1; hosts <= 12; ++hosts) {
    for (std::uint64_t ranks = 0; ranks <= 40; ++ranks) {
      const auto mesh =
          *ProcMeshRef::make(trainers(), hosts_of(hosts), *Extent::make({{"rank", ranks}}));
      const auto expected = hosts_by_rank(ranks, hosts);
      REQUIRE(expected.size() == ranks);
      std::uint64_t next = 0;
      for (std::uint64_t host = 0; host < hosts; ++host) {
        const RankBlock block = *mesh.block_of(host);
        CHECK(block.begin == next);
        for (std::uint64_t rank = block.begin; rank < block.end; ++rank)
          CHECK(expected[rank] == host);
        next = block.end;
      }
      CHECK(next == ranks);
      for (std::uint64_t rank = 0; rank < ranks; ++rank) {
        CHECK(*mesh.host_index_of(rank) == expected[rank]);
        CHECK(mesh.proc_at(rank)->host() == mesh.hosts()[expected[rank]]);
      }
      CHECK(mesh.host_index_of(ranks).error().code() == ErrorCode::out_of_range);
      CHECK(mesh.block_of(hosts).error().code() == ErrorCode::out_of_range);
    }
  }
}

TEST_CASE("proc_mesh_ref: a host axis and per-host axes give row-major addresses") {
  const auto mesh = two_by_four();
  CHECK(mesh.num_ranks() == 8);
  CHECK(mesh.proc_at(0)->to_string() == "tcp:h0:7420,trainers_0-13Se1Maqzryj");
  CHECK(mesh.proc_at(3)->to_string() == "tcp:h0:7420,trainers_3-13Se1Maqzryj");
  CHECK(mesh.proc_at(4)->to_string() == "tcp:h1:7420,trainers_4-13Se1Maqzryj");
  CHECK(mesh.proc_at(7)->to_string() == "tcp:h1:7420,trainers_7-13Se1Maqzryj");
  CHECK(mesh.proc_at(8).error().code() == ErrorCode::out_of_range);
  CHECK(mesh.proc_at(8).error().detail() == "mesh trainers-13Se1Maqzryj: no rank 8 of 8");
}

TEST_CASE("proc_mesh_ref: slices keep create ranks and addresses") {
  const auto mesh = two_by_four();
  const auto first_gpus = *mesh.range("gpu", 0, 1);
  CHECK(first_gpus.num_ranks() == 2);
  CHECK(*first_gpus.create_rank(1) == 4);
  CHECK(*first_gpus.proc_at(1) == *mesh.proc_at(4));
  CHECK(*first_gpus.ordinal_of(4) == 1);
  CHECK(first_gpus.ordinal_of(5).error().code() == ErrorCode::not_exist);
  CHECK(*first_gpus.proc_of(5) == *mesh.proc_at(5));  // by create rank also outside of the view
  const auto second_host = *mesh.at("host", 1);
  CHECK(second_host.region().to_string() == "4+gpu=4/1");
  CHECK(*second_host.at("gpu", 3)->proc_at(0) == *mesh.proc_at(7));
  CHECK(mesh.at("rack", 0).error().code() == ErrorCode::configuration_error);
  CHECK(mesh.at("host", 2).error().code() == ErrorCode::out_of_range);
  CHECK(mesh.range("gpu", 4).error().code() == ErrorCode::out_of_range);
}

TEST_CASE("proc_mesh_ref: random slices agree with a plain list of ranks") {
  test::for_cases(1'000, [](std::mt19937_64& random) {
    const auto below = [&](std::uint64_t bound) {
      return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
    };
    const std::uint64_t sizes[] = {1 + below(5), 1 + below(5), 1 + below(5)};
    const auto extent = *Extent::make({{"x", sizes[0]}, {"y", sizes[1]}, {"z", sizes[2]}});
    const std::uint64_t num_hosts = 1 + below(7);
    const auto mesh = *ProcMeshRef::make(trainers(), hosts_of(num_hosts), extent);
    const auto host_of = hosts_by_rank(extent.num_ranks(), num_hosts);
    std::uint64_t begin[3], end[3], step[3];
    auto slice = mesh;
    const char* labels[] = {"x", "y", "z"};
    for (int axis = 0; axis < 3; ++axis) {
      begin[axis] = below(sizes[axis]);
      end[axis] = begin[axis] + 1 + below(sizes[axis] - begin[axis]);
      step[axis] = 1 + below(3);
      slice = *slice.range(labels[axis], begin[axis], end[axis], step[axis]);
    }
    std::vector<std::uint64_t> expected;
    for (auto x = begin[0]; x < end[0]; x += step[0]) {
      for (auto y = begin[1]; y < end[1]; y += step[1]) {
        for (auto z = begin[2]; z < end[2]; z += step[2])
          expected.push_back((x * sizes[1] + y) * sizes[2] + z);
      }
    }
    REQUIRE(slice.num_ranks() == expected.size());
    for (std::uint64_t ordinal = 0; ordinal < expected.size(); ++ordinal) {
      CHECK(*slice.create_rank(ordinal) == expected[ordinal]);
      CHECK(*slice.ordinal_of(expected[ordinal]) == ordinal);
      CHECK(*slice.proc_at(ordinal) == ProcId(slice.hosts()[host_of[expected[ordinal]]],
                                              proc_name(trainers(), expected[ordinal])));
    }
    CHECK(*ProcMeshRef::parse(slice.to_string()) == slice);
  });
}

TEST_CASE(
    "proc_mesh_ref: equal references hash alike and are in order, and a view walks them by point") {
  const ProcMeshRef mesh = two_by_four();
  const ProcMeshRef slice = mesh.at("gpu", 2).value();
  CHECK(std::hash<ProcMeshRef>{}(two_by_four()) == std::hash<ProcMeshRef>{}(mesh));
  CHECK(std::hash<ProcMeshRef>{}(slice) != std::hash<ProcMeshRef>{}(mesh));
  CHECK(std::set<ProcMeshRef>{slice, mesh, two_by_four()}.size() == 2);
  CHECK((mesh <=> two_by_four()) == std::strong_ordering::equal);
  CHECK(((mesh < slice) != (slice < mesh)));
  std::string walked;
  const View view(slice);
  for (const auto& [point, proc] : view)
    walked += point.to_string() + " " + proc.name().to_string() + "\n";
  CHECK(walked == "host=0/2 trainers_2-13Se1Maqzryj\nhost=1/2 trainers_6-13Se1Maqzryj\n");
  CHECK_FALSE(view.get(2).has_value());
}

TEST_CASE("proc_mesh_ref: what cannot be is refused") {
  const Region four = *Extent::make({{"rank", 4}});
  CHECK(ProcMeshRef::make(trainers(), {}, 4, four).error().code() ==
        ErrorCode::configuration_error);
  CHECK(ProcMeshRef::make(trainers(), hosts_of(1), std::uint64_t{1} << 63, four).error().code() ==
        ErrorCode::configuration_error);
  CHECK(ProcMeshRef::make(trainers(), hosts_of(1), 3, four).error().code() ==
        ErrorCode::out_of_range);
  CHECK(ProcMeshRef::make(trainers(), hosts_of(2), 4, *Region::parse("4+")).error().code() ==
        ErrorCode::out_of_range);
  CHECK(ProcMeshRef::make(trainers(), hosts_of(2), 4, *Region::parse("3+")).has_value());
  CHECK(two_by_four().sliced(*Region::parse("x=9/1")).error().code() == ErrorCode::out_of_range);
}

TEST_CASE("proc_mesh_ref: no ranks is a mesh too, with or without hosts") {
  for (const std::uint64_t hosts : {std::uint64_t{0}, std::uint64_t{3}}) {
    const auto mesh = ProcMeshRef::make(trainers(), hosts_of(hosts), *Extent::make({{"rank", 0}}));
    REQUIRE(mesh.has_value());
    CHECK(mesh->num_ranks() == 0);
    CHECK(mesh->proc_at(0).error().code() == ErrorCode::out_of_range);
    CHECK(mesh->proc_of(0).error().code() == ErrorCode::out_of_range);
    CHECK(*ProcMeshRef::parse(mesh->to_string()) == *mesh);
    if (hosts > 0) CHECK(*mesh->block_of(2) == RankBlock{0, 0});
  }
}

TEST_CASE("proc_mesh_ref: text") {
  CHECK(two_by_four().to_string() ==
        "trainers-13Se1Maqzryj[8]:tcp:h0:7420,tcp:h1:7420@host=2/4,gpu=4/1");
  CHECK(*ProcMeshRef::parse(two_by_four().to_string()) == two_by_four());
  // '@' also in abstract addresses and in quoted labels
  const std::string odd = "a-13Se1Maqzryj[4]:unix:@one,unix:/tmp/x@y,tcp:[::1]:5@2+\"a@\\\"b\"=2/1";
  REQUIRE(ProcMeshRef::parse(odd).has_value());
  CHECK(ProcMeshRef::parse(odd)->to_string() == odd);
  CHECK(ProcMeshRef::parse(odd)->region().labels() == std::vector<std::string>{"a@\"b"});
  CHECK(ProcMeshRef::parse("a-13Se1Maqzryj[1]:local:1@")->num_ranks() == 1);

  const std::pair<const char*, const char*> bad[] = {
      {"", "at 0"},
      {"a-13Se1Maqzryj", "at 14: expected '['"},
      {"a-13Se1Maqzryj[]:local:1@", "the number of ranks"},
      {"a-13Se1Maqzryj[1]local:1@", "expected ':'"},
      {"a-13Se1Maqzryj[1]:local:1", "at 25: expected '@'"},
      {"a-13Se1Maqzryj[1]:local:1,@", "host address: at 26: expected tcp:HOST:PORT"},
      {"a-13Se1Maqzryj[1]:local:1,nonsense@", "at 26"},
      {"a-13Se1Maqzryj[1]:local:1@x=", "at 28"},
      {"a@-13Se1Maqzryj[1]:local:1", "name"},
  };
  for (const auto& [text, expected] : bad) {
    CAPTURE(text);
    const auto parsed = ProcMeshRef::parse(text);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code() == ErrorCode::parse_error);
    CHECK_MESSAGE(parsed.error().detail().find(expected) != std::string::npos,
                  parsed.error().detail());
  }
  CHECK(ProcMeshRef::parse("a-13Se1Maqzryj[1]:@").error().code() == ErrorCode::configuration_error);
  CHECK(ProcMeshRef::parse("a-13Se1Maqzryj[1]:local:1@x=2/1").error().code() ==
        ErrorCode::out_of_range);
}

TEST_CASE("proc_mesh_ref: equal means same mesh, hosts and view") {
  CHECK(two_by_four() == two_by_four());
  CHECK_FALSE(two_by_four() == *two_by_four().at("host", 0));
  CHECK_FALSE(two_by_four() ==
              *ProcMeshRef::make(trainers(), hosts_of(3), 8, two_by_four().region()));
  CHECK_FALSE(two_by_four() ==
              *ProcMeshRef::make(*Name::plain("other"), hosts_of(2), 8, two_by_four().region()));
  CHECK_FALSE(two_by_four() ==
              *ProcMeshRef::make(trainers(), hosts_of(2), 9, two_by_four().region()));
}
