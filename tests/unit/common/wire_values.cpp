#include "common/wire/wire_values.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/wire/wire_region.h"
#include "tests/unit/mesh/property.h"
#include "tests/unit/mesh/random.h"
#include "wire/values_generated.h"

using namespace meshbus;
using test::for_cases;
using test::Random;
using Kind = Status::Kind;

namespace {

Status any_status(Random& random) {
  const auto kind = static_cast<Kind>(random() % 8);
  if (kind == Kind::failed) return Status::failed(test::any_label(random));
  if (kind == Kind::timeout)
    return Status::timeout(std::chrono::milliseconds(random() >> 1 >> random() % 63));
  return kind;
}

StatusOverlay any_statuses(Random& random, std::uint64_t ranks) {
  std::vector<StatusOverlay::Run> runs;
  for (std::uint64_t n = random() % 8; n > 0; --n) {
    const std::uint64_t begin = random() % ranks;
    runs.push_back({begin, begin + 1 + random() % (ranks - begin), any_status(random)});
  }
  return StatusOverlay::of(std::move(runs));
}

StatusMesh any_mesh(Random& random) {
  const Region region = test::small_extent(random);
  StatusMesh mesh(region, any_status(random));
  if (region.num_ranks() != 0)
    REQUIRE(mesh.merge(any_statuses(random, region.num_ranks())).has_value());
  if (random() % 2 == 0) mesh.expand();
  return mesh;
}

ReplyValue any_reply(Random& random) {
  switch (random() % 6) {
    case 0: return random() % 2 == 0;
    case 1: return static_cast<std::int64_t>(random());
    case 2: return static_cast<double>(random()) / 7;
    case 3: return any_statuses(random, 50);
    case 4:
      return TextOverlay::of(
          {{1, 3, test::any_label(random)}, {5, 1 + (random() | 5), std::string("\0\xFF", 2)}});
    default: return std::string("\0 bytes \xFF", 9);
  }
}

template <typename Native>
std::string packed(const Native& native) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Native::TableType::Pack(builder, &native));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

wire::StatusMeshT good_mesh() {
  return to_wire(StatusMesh::make(Extent::make({{"x", 4}}).value(),
                                  parse_statuses("Running=0..2;Failed(x)=2..4").value())
                     .value());
}

std::string problem(const wire::StatusMeshT& mesh) {
  const auto decoded = decode_status_mesh(packed(mesh));
  if (decoded) return "none";
  CHECK(decoded.error().code() == ErrorCode::malformed_message);
  return decoded.error().detail();
}

}  // namespace

TEST_CASE("wire_values: what is encoded decodes to the same") {
  for_cases(2000, [](Random& random) {
    const StatusOverlay statuses = any_statuses(random, 1 + (random() >> random() % 63));
    REQUIRE(decode_statuses(encode(statuses)).value() == statuses);
    const StatusMesh mesh = any_mesh(random);
    REQUIRE(decode_status_mesh(encode(mesh)).value() == mesh);
    const Partial partial{
        any_reply(random),
        Overlay<bool>::of({{random() % 9, 10, true}, {11, 12 + random() % 9, true}}), false};
    const Partial back = decode_partial(encode(partial)).value();
    REQUIRE(back.value == partial.value);
    REQUIRE(back.ranks == partial.ranks);
  });
}

TEST_CASE("wire_values: a mesh travels as runs, bytes or numbers, whichever is shortest") {
  const Region region = Extent::make({{"x", 10'000}}).value();
  StatusMesh mesh(region, Kind::running);
  CHECK(encode(mesh).size() < 300);
  for (std::uint64_t rank = 0; rank < 10'000; rank += 2)
    REQUIRE(mesh.set(rank, Kind::stopped).has_value());
  CHECK(encode(mesh).size() < 10'300);
  CHECK(decode_status_mesh(encode(mesh)).value() == mesh);
  for (std::uint64_t rank = 0; rank < 10'000; ++rank)
    REQUIRE(mesh.set(rank, Status::failed("exit " + std::to_string(rank % 300))).has_value());
  CHECK(encode(mesh).size() < 40'000 + 300 * 60);
  CHECK(decode_status_mesh(encode(mesh)).value() == mesh);
  // Many runs with one long reason: it travels once, and is kept once.
  const std::string reason(5'000, 'x');
  StatusOverlay statuses;
  for (std::uint64_t rank = 0; rank < 2'000; rank += 2)
    statuses.set(rank, rank + 1, Status::failed(reason));
  const std::string bytes = encode(statuses);
  CHECK(bytes.size() < reason.size() + 1'000 * 24 + 300);
  const auto decoded = decode_statuses(bytes).value();
  CHECK(decoded == statuses);
  CHECK(&decoded.runs().front().value.reason() == &decoded.runs().back().value.reason());
}

TEST_CASE("wire_values: bytes that say nonsense are malformed") {
  CHECK(problem(good_mesh()) == "none");
  auto mesh = good_mesh();
  mesh.region.reset();
  mesh.region = std::make_unique<wire::RegionT>();
  mesh.region->labels = {"x"};
  mesh.region->sizes = {4};
  CHECK(
      problem(mesh).starts_with("status mesh: region: InvalidDims: expected a size and a stride"));
  mesh = good_mesh();
  mesh.cells = {0, 0, 1};
  CHECK(problem(mesh) == "status mesh: expected 4 cells, found 3");
  mesh.cells = {0, 0, 1, 2};
  CHECK(problem(mesh) == "status mesh: value 2 of 2");
  mesh.cells = {};
  mesh.wide_cells = {0, 0, 1, 0xFFFFFFFF};
  CHECK(problem(mesh) == "status mesh: value 4294967295 of 2");
  mesh.wide_cells = {};
  mesh.runs = {{0, 2, 0, 0}, {2, 3, 1, 0}};
  CHECK(problem(mesh) == "status mesh: value mesh: expected a value for each of 4 ranks, found 3");
  mesh.runs = {{0, 2, 0, 0}, {2, 5, 1, 0}};
  CHECK(problem(mesh) == "status mesh: value mesh: expected ranks below 4, found 4");
  mesh.runs = {{0, 2, 0, 0}, {1, 4, 1, 0}};
  CHECK(problem(mesh) ==
        "status mesh: statuses: ranks 1..4: intervals must be ascending, not empty and without "
        "overlap");
  mesh.runs = {{0, 2, 0, 0}, {2, 2, 0, 0}, {2, 4, 1, 0}};
  CHECK(problem(mesh) ==
        "status mesh: statuses: ranks 2..2: intervals must be ascending, not empty and without "
        "overlap");
  mesh.runs = {{0, 4, 7, 0}};
  CHECK(problem(mesh) == "status mesh: statuses: value 7 of 2");
  mesh = good_mesh();
  mesh.values[0]->kind = static_cast<wire::StatusKind>(99);
  mesh.values[1]->kind = wire::StatusKind::timeout;
  mesh.values[1]->timeout_ms = ~std::uint64_t{0};
  CHECK(to_string(decode_status_mesh(packed(mesh)).value()) ==
        "Unknown=0..2;Timeout(9223372036854775807ms)=2..4");

  wire::PartialReplyT reply = to_wire(Partial{true, {}, false});
  reply.value->kind = static_cast<wire::ReplyKind>(99);
  CHECK(decode_partial(packed(reply)).error().detail() == "reply: a value of unknown kind 99");
  reply.value->kind = wire::ReplyKind::overlay;
  CHECK(decode_partial(packed(reply)).error().detail() ==
        "reply: a value of which the field is missing");
  reply.value->overlay = std::make_unique<wire::BlobOverlayT>();
  reply.value->overlay->ranks = {{0, 1}};
  CHECK(decode_partial(packed(reply)).error().detail() ==
        "overlay: not as many values as intervals of ranks");
  for (const std::string& bytes :
       {std::string(), std::string("x"), std::string(8, '\0'), std::string(4096, '\xFF')}) {
    CHECK(decode_statuses(bytes).error().code() == ErrorCode::malformed_message);
    CHECK(decode_status_mesh(bytes).error().code() == ErrorCode::malformed_message);
    CHECK(decode_partial(bytes).error().code() == ErrorCode::malformed_message);
  }
}

TEST_CASE("wire_values: cut and flipped bytes never crash, and what decodes encodes again") {
  for_cases(2000, [](Random& random) {
    const auto spoil = [&](std::string bytes) {
      if (random() % 4 == 0) bytes.resize(random() % bytes.size());
      for (std::uint64_t n = random() % 4; n > 0 && !bytes.empty(); --n)
        bytes[random() % bytes.size()] = static_cast<char>(random() >> random() % 8);
      return bytes;
    };
    if (const auto mesh = decode_status_mesh(spoil(encode(any_mesh(random))))) {
      REQUIRE(decode_status_mesh(encode(*mesh)).value() == *mesh);
    } else {
      REQUIRE((mesh.error().code() == ErrorCode::malformed_message ||
               mesh.error().code() == ErrorCode::too_large));
    }
    if (const auto statuses = decode_statuses(spoil(encode(any_statuses(random, 60))))) {
      REQUIRE(decode_statuses(encode(*statuses)).value() == *statuses);
    }
    if (const auto partial = decode_partial(
            spoil(encode(Partial{any_reply(random), Overlay<bool>::of({{1, 9, true}}), false})))) {
      REQUIRE(decode_partial(encode(*partial)).value().ranks == partial->ranks);
    }
  });
}

TEST_CASE("wire_values: texts that overlap in a message do not grow when they are read") {
  flatbuffers::FlatBufferBuilder builder;
  const auto reason = builder.CreateString(std::string(100'000, 'x'));
  const auto status = wire::CreateStatus(builder, wire::StatusKind::failed, reason);
  builder.Finish(
      wire::CreateStatusOverlay(builder, builder.CreateVector(std::vector(20'000, status))));
  const auto statuses = decode_statuses(bytes_of(builder.GetBufferPointer(), builder.GetSize()));
  REQUIRE_FALSE(statuses.has_value());
  CHECK(statuses.error().to_string() ==
        "malformed_message: statuses: reasons that are longer than the whole message");

  builder.Clear();
  const auto data = builder.CreateVector(std::vector<std::uint8_t>(100'000, 7));
  const auto blob = wire::CreateBlob(builder, data);
  std::vector<wire::RankInterval> ranks;
  for (std::uint64_t rank = 0; rank < 20'000; ++rank) ranks.emplace_back(rank, rank + 1);
  const auto overlay = wire::CreateBlobOverlay(builder, builder.CreateVectorOfStructs(ranks),
                                               builder.CreateVector(std::vector(20'000, blob)));
  wire::ReplyValueBuilder value(builder);
  value.add_kind(wire::ReplyKind::overlay);
  value.add_overlay(overlay);
  builder.Finish(wire::CreatePartialReply(builder, value.Finish()));
  const auto reply = decode_partial(bytes_of(builder.GetBufferPointer(), builder.GetSize()));
  REQUIRE_FALSE(reply.has_value());
  CHECK(reply.error().to_string() ==
        "malformed_message: overlay: values that are longer than the whole message");

  builder.Clear();
  const auto label = builder.CreateString(std::string(60'000, 'x'));
  const auto labels = builder.CreateVector(std::vector(20'000, label));
  const auto numbers = builder.CreateVector(std::vector<std::uint64_t>(20'000, 1));
  builder.Finish(wire::CreateRegion(builder, labels, 0, numbers, numbers));
  const auto region = from_wire(flatbuffers::GetRoot<wire::Region>(builder.GetBufferPointer()));
  REQUIRE_FALSE(region.has_value());
  CHECK(region.error().to_string() == "too_large: region: more than 65536 bytes of labels");
}
