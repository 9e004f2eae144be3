#include <doctest/doctest.h>

#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/host_mesh_ref.h"
#include "meshbus/overlay.h"
#include "meshbus/point.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/region.h"

using namespace meshbus;

namespace {

enum class TextKind { extent, point, region, overlay, name, host, proc, actor, port, hosts, procs };

template <typename T>
Error error_of(const Result<T>& parsed) {
  REQUIRE_FALSE(parsed.has_value());
  return parsed.error();
}

Error error_of(TextKind kind, std::string_view text) {
  switch (kind) {
    case TextKind::extent: return error_of(Extent::parse(text));
    case TextKind::point: return error_of(Point::parse(text));
    case TextKind::region: return error_of(Region::parse(text));
    case TextKind::overlay: return error_of(parse_overlay(text));
    case TextKind::name: return error_of(Name::parse(text));
    case TextKind::host: return error_of(HostAddr::parse(text));
    case TextKind::proc: return error_of(ProcId::parse(text));
    case TextKind::actor: return error_of(ActorId::parse(text));
    case TextKind::port: return error_of(PortId::parse(text));
    case TextKind::hosts: return error_of(HostMeshRef::parse(text));
    case TextKind::procs: break;
  }
  return error_of(ProcMeshRef::parse(text));
}

struct Row {
  TextKind kind;
  std::string text;
  std::size_t position;
  ErrorCode code = ErrorCode::parse_error;
};

}  // namespace

TEST_CASE(
    "texts: what is wrong is refused with its code, at its position, in words that repeat the "
    "position") {
  using enum TextKind;
  const std::vector<Row> rows = {
      // extents
      {extent, "x", 1},
      {extent, "x=", 2},
      {extent, "x=a", 2},
      {extent, "x=-1", 2},
      {extent, "x=1.5", 3},
      {extent, "=4", 0},
      {extent, "4", 0},
      {extent, "x=4,", 4},
      {extent, "x=4,,y=5", 4},
      {extent, "x=4 y=5", 4},
      {extent, "x=4,x=5", 4},
      {extent, "a=1,b=1,c=1,b=1", 12},
      {extent, "x=18446744073709551616", 2},
      {extent, "x=4294967296,y=2147483648", 13},
      {extent, "{x: 4", 5},
      {extent, "{x: 4, y=5}", 8},
      {extent, "{x=4}}", 5},
      {extent, "x: 4", 1},
      {extent, "d\xC3\xA9=4", 1},
      {extent, "\"x=4", 4},
      {extent, "\"a\\q\"=4", 3},
      {extent, "\"a\\u{110000}\"=4", 5},
      {extent, "\"a\\u{d800}\"=4", 5},
      {extent, "\"a\\u{1234567}\"=4", 11},
      {extent, "\"a\xC3\"=4", 2},
      {extent, "\"\"=4", 0},
      // points
      {point, "x=1", 3},
      {point, "x=4/4", 2},
      {point, "x=0/1,y=5/3", 8},
      {point, "x=0/1,x=0/1", 6},
      {point, "x=0/", 4},
      {point, "x=0/9223372036854775808", 0},
      // regions
      {region, "x=2", 3},
      {region, "x=2/", 4},
      {region, "x=2/0", 0},
      {region, "8", 1},
      {region, "8+8+", 2},
      {region, "-1+x=2/1", 0},
      {region, "x=2/1,y=2/1", 6},
      {region, "x=4/2,y=2/5", 6},
      {region, "x=2/5,y=3/3", 0},
      {region, "9223372036854775807+", 0},
      {region, "1+x=9223372036854775807/1", 2},
      {region, "x=2/1,", 6},
      {region, "x=2/1;y=2/2", 5},
      {region, "x=2/1\ny", 6},
      // overlays
      {overlay, "0..5", 4},
      {overlay, "0.5=A", 1},
      {overlay, "5..5=A", 0},
      {overlay, "0..5=A,4..6=B", 7},
      {overlay, "0..5=A,", 7},
      {overlay, "0..5=\"A", 7},
      // names
      {name, "", 0},
      {name, "3x", 0},
      {name, "x-", 2},
      {name, "x-13Se", 6},
      {name, "x-13Se1Maqzry0", 13},
      {name, "x-ZZZZZZZZZZZZ", 2},
      {name, "agent-13Se1Maqzryj", 0},
      {name, std::string(64, 'a'), 63},
      // addresses
      {host, "", 0},
      {host, "http://h:1", 0},
      {host, "tcp:h", 5},
      {host, "tcp:h:65536", 6},
      {host, "tcp:[::1", 6},
      {host, "tcp:[::z]:1", 5},
      {host, "tcp:1.2.3:1", 4},
      {host, "tcp:a b:1", 5},
      {host, "unix:x", 5},
      {host, "unix:/a,b", 7},
      {host, "unix:/" + std::string(107, 'a'), 112},
      {host, "local:1x", 7},
      {proc, "local:1", 7},
      {proc, "local:1,", 8},
      {proc, "local:x,a", 6},
      {actor, "local:1,a", 7},
      {actor, "local:1,a,b[x]", 12},
      {actor, "local:1,a,b[0]x", 14},
      {port, "local:1,a,b[0]", 14},
      {port, "local:1,a,b[0][4294967296]", 15},
      // references
      {hosts, "test", 4},
      {hosts, "test:local:1", 12},
      {hosts, "test:local:1,@x=2/1", 13},
      {hosts, "te-st:local:1@x=1/1", 5},
      {hosts, "test:local:1@x=1", 16},
      {hosts, "test:local:1@x=2/1", 5, ErrorCode::invalid_rank_cardinality},
      {hosts, "test:local:1@x=4/2,y=2/5", 19},
      {procs, "test:local:1@x=1/1", 4},
      {procs, "test[1]local:1@x=1/1", 7},
      {procs, "test[1]:local:1,@x=1/1", 16},
      {procs, "test[1]:local:1@x=", 18},
  };
  REQUIRE(rows.size() >= 60);
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const Error error = error_of(row.kind, row.text);
    CAPTURE(error.detail());
    CHECK(error.code() == row.code);
    REQUIRE(error.position().has_value());
    CHECK(*error.position() == row.position);
    CHECK(error.detail().find(": at " + std::to_string(row.position) + ": ") != std::string::npos);
  }
}

TEST_CASE(
    "texts: long ones are read in one go, the last wrong byte of them is found, and none is read "
    "twice over") {
  // Work that grew with the square of these lengths would take minutes; the limit of every test
  // case is one.
  constexpr std::size_t many = 100'000;
  std::string region;
  std::string hosts = "test:";
  std::string overlay;
  for (std::size_t i = 0; i < many; ++i) {
    region += (i == 0 ? "" : ",") + ("a" + std::to_string(i)) + "=1/1";
    hosts += (i == 0 ? "" : ",") + ("unix:@" + std::to_string(i));
    overlay += (i == 0 ? "" : ",") + std::to_string(many - i) + ".." +
               std::to_string(many - i + 1) + "=v" + std::to_string(i);
  }
  CHECK(Region::parse(region).value().num_dims() == many);
  CHECK(*Region::parse(region + ",a77=1/1").error().position() == region.size() + 1);
  CHECK(Region::parse(region).value().range("b", 0).error().code() ==
        ErrorCode::configuration_error);
  CHECK(is_subset(Region::parse(region).value(), Region::parse("1+" + region).value()) == false);
  // Axes of one index do not slow down the walk over the others.
  const Region flat = Region::parse("x=100000/1," + region).value();
  CHECK(std::ranges::distance(flat.ranks()) == static_cast<std::ptrdiff_t>(many));
  const HostMeshRef mesh = HostMeshRef::parse(hosts + "@h=100000/1").value();
  CHECK(*mesh.get(many - 1) == HostAddr::unix_socket("@99999").value());
  CHECK(mesh.range("h", 0, std::nullopt, 2).value().num_ranks() == many / 2);
  CHECK(*HostMeshRef::parse(hosts + ",x@h=100000/1").error().position() == hosts.size() + 1);
  CHECK(parse_overlay(overlay).value().num_ranks() == many);
  CHECK(*Region::parse("\"" + std::string(1 << 20, '"') + "=1/1").error().position() == 0);
  CHECK(Region::parse("\"" + std::string(1 << 20, 'a')).error().position() == (1U << 20) + 1);
  CHECK(Extent::parse("x=" + std::string(1 << 20, '9')).error().detail().size() < 200);
  CHECK(*HostMeshRef::parse("test:" + std::string(1 << 20, '@')).error().position() == 5);
  CHECK(HostAddr::parse("tcp:" + std::string(1 << 20, '[') + ":1").error().code() ==
        ErrorCode::parse_error);
  CHECK(*ActorId::parse("local:1,a,b" + std::string(1 << 20, '[')).error().position() == 12);
}
