#include "common/wire/protocol.h"

#include <doctest/doctest.h>

#include "wire/bus_generated.h"

using namespace meshbus;

TEST_CASE("protocol: two sides speak the newest version that both have") {
  const auto common = [](Protocol a, Protocol b) {
    const auto version = common_version("a", a, "b", b);
    CHECK(common_version("b", b, "a", a).has_value() == version.has_value());
    return version.value_or(0);
  };
  CHECK(common({1, 1, ""}, {1, 1, ""}) == 1);
  CHECK(common({3, 1, ""}, {2, 2, ""}) == 2);
  CHECK(common({3, 1, ""}, {5, 3, ""}) == 3);
  CHECK(common({65535, 1, ""}, {65535, 65535, ""}) == 65535);
  CHECK(common({1, 1, ""}, {2, 2, ""}) == 0);
  CHECK(common({5, 4, ""}, {3, 1, ""}) == 0);
  CHECK(common({0, 0, ""}, {0, 0, ""}) == 0);
}

TEST_CASE("protocol: a mismatch names both sides' versions and releases, and the one to update") {
  const auto text = [](const Protocol& a, const Protocol& b) {
    const auto version = common_version("this program", a, "its host", b);
    REQUIRE_FALSE(version.has_value());
    CHECK(version.error().code() == ErrorCode::version_mismatch);
    return version.error().detail();
  };
  CHECK(text({1, 1, "0.1.0"}, {3, 2, "0.3.0"}) ==
        "this program speaks version 1 (meshbus 0.1.0) of the protocol, its host versions 2 to 3 "
        "(meshbus 0.3.0); update the older one, this "
        "program, so that both are of the same release of meshbus");
  CHECK(text({3, 3, ""}, {2, 2, ""}) ==
        "this program speaks version 3 of the protocol, its host version 2; update the older one, "
        "its host, so that both are of the same "
        "release of meshbus");
}

TEST_CASE("protocol: what a Hello says that cannot be is read as one version") {
  const auto read = [](std::uint16_t version, std::uint16_t oldest) {
    wire::HelloT native;
    native.peer = "x";
    native.version = version;
    native.oldest = oldest;
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(wire::Hello::Pack(builder, &native));
    const auto protocol =
        Protocol::of(*flatbuffers::GetRoot<wire::Hello>(builder.GetBufferPointer()));
    return std::pair(protocol.oldest, protocol.newest);
  };
  CHECK(read(4, 0) == std::pair<std::uint16_t, std::uint16_t>(4, 4));
  CHECK(read(4, 2) == std::pair<std::uint16_t, std::uint16_t>(2, 4));
  CHECK(read(4, 9) == std::pair<std::uint16_t, std::uint16_t>(4, 4));
  CHECK(read(0, 9) == std::pair<std::uint16_t, std::uint16_t>(0, 0));
}
