// What statuses by rank cost (spec 3.5): single-rank updates until a mesh is complete, in three
// orders, and how the result travels. Part of meshbus-bench-mesh: `./dev bench mesh
// --benchmark_filter=status`.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/wire/wire_values.h"
#include "meshbus/status_mesh.h"

namespace {

using namespace meshbus;
using Kind = Status::Kind;

enum class Order { ascending, reversed, shuffled };

std::vector<std::uint64_t> ranks_in(Order order, std::uint64_t count) {
  std::vector<std::uint64_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), std::uint64_t{0});
  if (order == Order::reversed) std::reverse(ranks.begin(), ranks.end());
  if (order == Order::shuffled) std::shuffle(ranks.begin(), ranks.end(), std::mt19937_64(7));
  return ranks;
}

StatusMesh mesh_of(std::uint64_t count) {
  return {Extent::make({{"rank", count}}).value(), Kind::not_exist};
}

/// Every second rank, at random, has got there: as many runs as there can be on the way.
StatusMesh half_way(std::uint64_t count) {
  StatusMesh mesh = mesh_of(count);
  std::vector<std::uint64_t> ranks = ranks_in(Order::shuffled, count);
  ranks.resize(count / 2);
  for (const std::uint64_t rank : ranks) mesh.set(rank, Kind::running).value();
  return mesh;
}

std::uint64_t size_of(const benchmark::State& state) {
  return static_cast<std::uint64_t>(state.range(0));
}

void count(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetComplexityN(state.range(0));
}

/// Items per second are updates per second; what the mesh takes when it has most runs is said as
/// bytes_half_way.
template <Order order>
void status_updates(benchmark::State& state) {
  const std::vector<std::uint64_t> ranks = ranks_in(order, size_of(state));
  const Status running = Kind::running;
  for (auto _ : state) {
    StatusMesh mesh = mesh_of(ranks.size());
    for (const std::uint64_t rank : ranks) benchmark::DoNotOptimize(mesh.set(rank, running));
    if (mesh.num_runs() != 1 || count_missing(mesh, Kind::running) != 0)
      state.SkipWithError("the mesh is not complete");
  }
  count(state);
  StatusMesh mesh = mesh_of(ranks.size());
  const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  for (std::size_t i = 0; i < ranks.size() / 2; ++i) mesh.set(ranks[i], running).value();
  state.counters["bytes_half_way"] =
      static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd - before);
  state.counters["runs_half_way"] = static_cast<double>(mesh.num_runs());
}

/// What nobody can beat: a byte per rank, nothing known about the whole.
void floor_bytes(benchmark::State& state) {
  const std::vector<std::uint64_t> ranks = ranks_in(Order::shuffled, size_of(state));
  for (auto _ : state) {
    std::vector<std::uint8_t> bytes(ranks.size());
    std::uint8_t* data = bytes.data();
    benchmark::DoNotOptimize(data);
    for (const std::uint64_t rank : ranks) data[rank] = 3;
    benchmark::ClobberMemory();
  }
  count(state);
}

/// As a client hears it: each of 64 hosts speaks for its block.
void status_overlays(benchmark::State& state) {
  const std::uint64_t ranks = size_of(state);
  std::vector<StatusOverlay> hosts;
  for (std::uint64_t host = 0; host < 64; ++host)
    hosts.push_back(
        StatusOverlay::of({{host * ranks / 64, (host + 1) * ranks / 64, Kind::running}}));
  for (auto _ : state) {
    StatusMesh mesh = mesh_of(ranks);
    for (const StatusOverlay& host : hosts) benchmark::DoNotOptimize(mesh.merge(host));
  }
  count(state);
}

template <bool is_complete>
void status_encode(benchmark::State& state) {
  const StatusMesh mesh = is_complete ? StatusMesh(mesh_of(size_of(state)).region(), Kind::running)
                                      : half_way(size_of(state));
  std::string bytes;
  for (auto _ : state) benchmark::DoNotOptimize(bytes = encode(mesh));
  count(state);
  state.counters["bytes"] = static_cast<double>(bytes.size());
}

template <bool is_complete>
void status_decode(benchmark::State& state) {
  const std::string bytes =
      encode(is_complete ? StatusMesh(mesh_of(size_of(state)).region(), Kind::running)
                         : half_way(size_of(state)));
  for (auto _ : state) benchmark::DoNotOptimize(decode_status_mesh(bytes));
  count(state);
}

#define MESHBUS_STATUS_BENCHMARK(name, fit) \
  BENCHMARK(name)->Arg(1 << 14)->Arg(1 << 17)->Arg(1 << 20)->Complexity(benchmark::fit)
MESHBUS_STATUS_BENCHMARK(status_updates<Order::ascending>, oN);
MESHBUS_STATUS_BENCHMARK(status_updates<Order::reversed>, oN);
MESHBUS_STATUS_BENCHMARK(status_updates<Order::shuffled>, oN);
MESHBUS_STATUS_BENCHMARK(floor_bytes, oN);
MESHBUS_STATUS_BENCHMARK(status_overlays, o1);
MESHBUS_STATUS_BENCHMARK(status_encode<true>, o1);
MESHBUS_STATUS_BENCHMARK(status_decode<true>, o1);
MESHBUS_STATUS_BENCHMARK(status_encode<false>, oN);
MESHBUS_STATUS_BENCHMARK(status_decode<false>, oN);

}  // namespace
