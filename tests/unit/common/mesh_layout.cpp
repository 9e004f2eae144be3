#include "common/address/mesh_layout.h"

#include <doctest/doctest.h>

#include <array>

#include "meshbus/proc_mesh_ref.h"
#include "wire/lifecycle_generated.h"

using namespace meshbus;

namespace {

std::vector<HostAddr> hosts_named(const std::string& letters) {
  std::vector<HostAddr> hosts;
  for (const char letter : letters)
    hosts.push_back(*HostAddr::parse("unix:/" + std::string(1, letter)));
  return hosts;
}

MeshLayout layout_of(const std::string& extent, const std::string& hosts) {
  return {.region = Region(*Extent::parse(extent)), .hosts = hosts_named(hosts), .revision = 4};
}

std::string why_not(const MeshLayout& before, const std::string& hosts) {
  const auto after = resized(before, hosts_named(hosts));
  return after ? "it can" : after.error().detail();
}

}  // namespace

TEST_CASE("mesh_layout: a mesh grows at its end, and no rank moves") {
  const auto before = layout_of("host=2,gpu=3", "ab");
  const auto after = resized(before, hosts_named("abca"));
  REQUIRE(after.has_value());
  CHECK(after->region.to_string() == "host=4/3,gpu=3/1");
  CHECK(after->revision == 5);
  CHECK(check_resized(before, *after).has_value());
  const auto name = *Name::make("m", 1);
  const auto old = *ProcMeshRef::make(name, before.hosts, 6, before.region);
  const auto grown = *ProcMeshRef::make(name, after->hosts, 12, after->region);
  for (std::uint64_t rank = 0; rank < 6; ++rank) CHECK(*old.proc_of(rank) == *grown.proc_of(rank));
  for (std::uint64_t rank = 0; rank < 12; ++rank)
    CHECK(host_of(*after, rank) == grown.proc_of(rank)->host());
  // And back again.
  const auto back = resized(*after, hosts_named("ab"));
  REQUIRE(back.has_value());
  CHECK(back->region == before.region);
  CHECK(back->revision == 6);
}

TEST_CASE("mesh_layout: what would move a rank, or leave none, is refused with the reason") {
  CHECK(why_not(layout_of("proc=5", "ab"), "abc").find("lie unevenly") != std::string::npos);
  CHECK(why_not(layout_of("host=2", "ab"), "acb").find("at the end of axis host") !=
        std::string::npos);
  CHECK(why_not(layout_of("host=2", "ab"), "").find("no rank would be left") != std::string::npos);
  CHECK(why_not(layout_of("replica=2,host=2,gpu=2", "abcd"), "abcde")
            .find("blocks come and go in multiples of 2") != std::string::npos);
  CHECK(why_not(layout_of("replica=2,host=2,gpu=2", "abcd"), "abcdef") == "it can");
  CHECK(why_not({.region = Region(), .hosts = hosts_named("a")}, "ab").find("no axis") !=
        std::string::npos);
  auto slice = layout_of("host=2,gpu=2", "ab");
  slice.region = *slice.region.range("gpu", 0, 1);
  CHECK(why_not(slice, "abc").find("slice") != std::string::npos);
}

TEST_CASE("mesh_layout: a peer that has missed a change takes the next one, and nothing else") {
  const auto before = layout_of("host=3,gpu=2", "abc");
  CHECK(check_resized(before, layout_of("host=3,gpu=2", "abd")).has_value());
  CHECK(check_resized(before, layout_of("host=1,gpu=2", "a")).has_value());
  for (const auto& [extent, hosts] :
       {std::pair("host=3,gpu=3", "abc"), std::pair("node=3,gpu=2", "abc"),
        std::pair("host=4,gpu=2", "abc"), std::pair("host=3", "abc"),
        std::pair("host=0,gpu=2", "")}) {
    const auto fine = check_resized(before, layout_of(extent, hosts));
    REQUIRE_FALSE(fine.has_value());
    CHECK(fine.error().code() == ErrorCode::refused);
  }
}

TEST_CASE("mesh_layout: a host takes the place of another one, and no other rank moves") {
  // Uneven blocks, and one host with two of them.
  const auto before = layout_of("rank=7", "aba");
  const auto after = replaced(before, before.hosts[0], hosts_named("s")[0]);
  REQUIRE(after.has_value());
  CHECK(after->hosts == hosts_named("sbs"));
  CHECK(after->region == before.region);
  CHECK(after->revision == 5);
  CHECK(check_resized(before, *after).has_value());
  const auto name = *Name::make("m", 1);
  const auto ref = *ProcMeshRef::make(name, after->hosts, 7, after->region);
  for (std::uint64_t rank = 0; rank < 7; ++rank)
    CHECK(host_of(*after, rank) == ref.hosts()[*ref.host_index_of(rank)]);
  for (const std::uint64_t rank : std::to_array<std::uint64_t>({3, 4}))
    CHECK(*ref.proc_of(rank) ==
          *ProcMeshRef::make(name, before.hosts, 7, before.region)->proc_of(rank));
  // A host that has no rank of it has no place to give.
  const auto none = replaced(*after, before.hosts[0], hosts_named("t")[0]);
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code() == ErrorCode::refused);
  CHECK_FALSE(replaced(before, before.hosts[0], before.hosts[0]).has_value());
}

TEST_CASE("mesh_layout: it travels, and what is none is refused") {
  const auto layout = layout_of("host=2,gpu=3", "ab");
  const auto read = [](const wire::MeshLayoutT& native) {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(wire::MeshLayout::Pack(builder, &native));
    return from_wire(*flatbuffers::GetRoot<wire::MeshLayout>(builder.GetBufferPointer()));
  };
  auto native = to_wire(layout);
  const auto back = read(*native);
  REQUIRE(back.has_value());
  CHECK(back->region == layout.region);
  CHECK(back->hosts == layout.hosts);
  CHECK(back->revision == 4);
  native->hosts[1] = "nowhere";
  CHECK(read(*native).error().code() == ErrorCode::parse_error);
  native->hosts.clear();
  CHECK(read(*native).error().code() == ErrorCode::configuration_error);
}
