#include "common/bus/cast.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "common/wire/wire_region.h"

using namespace meshbus;

namespace {

ProcMeshRef mesh_of(std::size_t hosts, const std::string& extent) {
  std::vector<HostAddr> addresses;
  for (std::size_t i = 0; i < hosts; ++i)
    addresses.push_back(*HostAddr::parse("unix:/host" + std::to_string(i)));
  return *ProcMeshRef::make(*Name::make("trainers", 7), addresses, *Extent::parse(extent));
}

/// The procs that a plan's messages name, one after the other, as a broker reads them.
std::vector<std::uint64_t> named(const CastPlan& plan) {
  std::vector<std::uint64_t> keys;
  for (const auto& piece : plan.pieces) {
    const auto cast = CastBody::open(piece.front);
    REQUIRE(cast.has_value());
    CHECK(cast->head().mesh()->str() == plan.view.mesh().to_string());
    CHECK(*from_wire(cast->head().view()) == plan.view.region());
    CHECK(cast->rest().empty());
    REQUIRE(cast->head().runs() != nullptr);
    CHECK(cast->head().runs()->size() <= CastPlan::kMostRuns);
    for (const auto* run : *cast->head().runs()) {
      for (std::uint64_t i = 0; i < run->count(); ++i) {
        const auto proc = plan.view.proc_of(run->first() + i * run->step());
        REQUIRE(proc.has_value());
        CHECK(proc->host().key() == run->host());
        keys.push_back(proc->key());
      }
    }
  }
  return keys;
}

}  // namespace

TEST_CASE("cast: a box of a mesh is one run for each host") {
  for (const char* slice : {"", "gpu"}) {
    auto view = mesh_of(3, "host=3,gpu=8");
    if (*slice != '\0') view = *view.range(slice, 1, 7, 2);
    const auto plan = *CastPlan::make(view);
    REQUIRE(plan->pieces.size() == 1);
    CHECK(CastBody::open(plan->pieces[0].front)->head().runs()->size() == 3);
    CHECK(plan->hosts.size() == 3);
    CHECK(named(*plan).size() == view.num_ranks());
  }
  CHECK((*CastPlan::make(mesh_of(1, "host=1,gpu=0")))->pieces.empty());
  const auto large = CastPlan::make(mesh_of(4, "x=1048577"));
  REQUIRE_FALSE(large.has_value());
  CHECK(large.error().code() == ErrorCode::too_large);
}

TEST_CASE("cast: every rank of any view is named once, on its host, and known by its ordinal") {
  std::mt19937_64 random(7);
  const auto pick = [&](std::uint64_t below) { return random() % below; };
  for (int round = 0; round < 300; ++round) {
    auto view = mesh_of(1 + pick(5), "a=" + std::to_string(1 + pick(6)) +
                                         ",b=" + std::to_string(1 + pick(6)) +
                                         ",c=" + std::to_string(1 + pick(9)));
    for (const char* axis : {"a", "b", "c"}) {
      const std::uint64_t size = view.region().sizes()[*view.region().find(axis)];
      const std::uint64_t begin = pick(size);
      view = *view.range(axis, begin, begin + 1 + pick(size), 1 + pick(3));
    }
    // Axes in another order: ranks that do not rise.
    auto sizes = view.region().sizes();
    auto strides = view.region().strides();
    std::swap(sizes[0], sizes[2]);
    std::swap(strides[0], strides[2]);
    if (pick(2) == 0)
      view = *view.sliced(*Region::make({"c", "b", "a"}, view.region().offset(), sizes, strides));
    CAPTURE(view.to_string());
    const auto plan = *CastPlan::make(view);
    const auto keys = named(*plan);
    CHECK(std::set<std::uint64_t>(keys.begin(), keys.end()).size() == view.num_ranks());
    CHECK(keys.size() == view.num_ranks());
    std::vector<std::uint64_t> in_order;
    for (const auto& piece : plan->pieces) {
      for (const auto ordinal : piece.ordinals) in_order.push_back(plan->targets[ordinal].proc);
    }
    CHECK(in_order == keys);
    for (std::uint64_t ordinal = 0; ordinal < view.num_ranks(); ++ordinal) {
      CHECK(plan->targets[ordinal].proc == view.proc_at(ordinal)->key());
      CHECK(plan->ordinal_of_proc.at(plan->targets[ordinal].proc) == ordinal);
    }
  }
}

TEST_CASE("cast: bytes that are no cast are refused, at any address") {
  const auto region = to_wire(*Region::parse("x=2/1"));
  const std::string good = cast_front("m-111111111112", {{1, 2, 3, 4}}, *region) + "the rest";
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const std::string moved = std::string(shift, 'x') + good;
    const auto cast = CastBody::open(Bytes(moved).substr(shift));
    REQUIRE(cast.has_value());
    CHECK(cast->rest() == "the rest");
    CHECK(cast->front().size() % 8 == 0);
    CHECK(cast->head().runs()->Get(0)->step() == 3);
  }
  for (std::size_t size = 0; size + 8 < good.size(); ++size)
    CHECK_FALSE(CastBody::open(Bytes(good).substr(0, size)).has_value());
  // Any byte may be anything; what is accepted can be read.
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char value : {'\0', '\x01', '\x7f', '\xff'}) {
      std::string bad = good;
      bad[at] = value;
      if (const auto cast = CastBody::open(bad)) static_cast<void>(from_wire(cast->head().view()));
    }
  }
}

TEST_CASE("cast: answers that never come are of unknown fate") {
  std::future<CastAnswers::Answers> future;
  {
    CastAnswers answers(3);
    future = answers.get_future();
    answers.fill(1, std::string("here"));
  }
  const auto answers = future.get();
  REQUIRE(answers.size() == 3);
  CHECK(answers[0].error().code() == ErrorCode::fate_unknown);
  CHECK(answers[1] == "here");
  CHECK(answers[2].error().code() == ErrorCode::fate_unknown);
}
