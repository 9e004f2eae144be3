// meshbus-bench-mesh: what the mesh algebra costs, at three sizes, beside the floor of plain loops.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "meshbus/region.h"

namespace {

using namespace meshbus;

/// rack, host and gpu, that many ranks in all.
Region mesh_of(benchmark::State& state) {
  return Extent::make(
             {{"rack", static_cast<std::uint64_t>(state.range(0)) / 256}, {"host", 32}, {"gpu", 8}})
      .value();
}

/// Every second host and every third gpu.
Region stepped(const Region& mesh) {
  return mesh.range("host", 0, std::nullopt, 2)->range("gpu", 0, std::nullopt, 3).value();
}

/// The same ranks, the first axis last.
Region turned(const Region& region) {
  auto labels = region.labels();
  auto sizes = region.sizes();
  auto strides = region.strides();
  std::rotate(labels.begin(), labels.begin() + 1, labels.end());
  std::rotate(sizes.begin(), sizes.begin() + 1, sizes.end());
  std::rotate(strides.begin(), strides.begin() + 1, strides.end());
  return Region::make(labels, region.offset(), sizes, strides).value();
}

void count_ranks(benchmark::State& state, std::uint64_t ranks) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ranks));
}

void slice_range(benchmark::State& state) {
  const Region mesh = mesh_of(state);
  for (auto _ : state) benchmark::DoNotOptimize(mesh.range("host", 3, 29, 2));
}

void slice_index(benchmark::State& state) {
  const Region mesh = mesh_of(state);
  for (auto _ : state) benchmark::DoNotOptimize(mesh.at("host", 3));
}

void subset_of_slice(benchmark::State& state) {
  const Region mesh = mesh_of(state);
  const Region slice = turned(stepped(mesh));
  for (auto _ : state) benchmark::DoNotOptimize(is_subset(slice, mesh));
}

void subset_of_stepped(benchmark::State& state) {
  const Region mesh = stepped(mesh_of(state));
  const Region slice = turned(mesh.range("rack", 1).value());
  for (auto _ : state) benchmark::DoNotOptimize(is_subset(slice, mesh));
}

/// No axis of one fits the axes of the other: ranks 0, 3, 6, ... of hosts with a gap after every
/// 4095 ranks.
void subset_across_gaps(benchmark::State& state) {
  const auto ranks = static_cast<std::uint64_t>(state.range(0));
  const Region gaps = Region::make({"x", "y"}, 0, {ranks / 4096 + 1, 4095}, {4096, 1}).value();
  const Region threes = Region::make({"r"}, 0, {ranks / 3}, {3}).value();
  for (auto _ : state) benchmark::DoNotOptimize(is_subset(threes, gaps));
}

void remap_make(benchmark::State& state) {
  const Region mesh = mesh_of(state);
  const Region target = turned(mesh);
  for (auto _ : state) benchmark::DoNotOptimize(remap(mesh, target));
}

void remap_walk(benchmark::State& state) {
  const Region mesh = mesh_of(state);
  const Region target = turned(mesh);
  for (auto _ : state) {
    const Remap ordinals = remap(mesh, target).value();
    std::uint64_t sum = 0;
    for (const std::uint64_t ordinal : ordinals) sum += ordinal;
    benchmark::DoNotOptimize(sum);
  }
  count_ranks(state, target.num_ranks());
}

void ranks_walk(benchmark::State& state) {
  const Region region = turned(stepped(mesh_of(state)));
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (const std::uint64_t rank : region.ranks()) sum += rank;
    benchmark::DoNotOptimize(sum);
  }
  count_ranks(state, region.num_ranks());
}

/// The floor for code that names every rank: three loops written for this mesh.
void floor_loops(benchmark::State& state) {
  const auto racks = static_cast<std::uint64_t>(state.range(0)) / 256;
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (std::uint64_t host = 0; host < 32; ++host) {
      for (std::uint64_t gpu = 0; gpu < 8; ++gpu) {
        for (std::uint64_t rack = 0; rack < racks; ++rack) {
          std::uint64_t rank = rack * 256 + host * 8 + gpu;
          benchmark::DoNotOptimize(rank);
          sum += rank;
        }
      }
    }
    benchmark::DoNotOptimize(sum);
  }
  count_ranks(state, racks * 256);
}

#define MESHBUS_MESH_BENCHMARK(name) BENCHMARK(name)->Arg(1 << 12)->Arg(1 << 16)->Arg(1 << 20)
MESHBUS_MESH_BENCHMARK(slice_range);
MESHBUS_MESH_BENCHMARK(slice_index);
MESHBUS_MESH_BENCHMARK(subset_of_slice);
MESHBUS_MESH_BENCHMARK(subset_of_stepped);
MESHBUS_MESH_BENCHMARK(subset_across_gaps);
MESHBUS_MESH_BENCHMARK(remap_make);
MESHBUS_MESH_BENCHMARK(remap_walk);
MESHBUS_MESH_BENCHMARK(ranks_walk);
MESHBUS_MESH_BENCHMARK(floor_loops);

}  // namespace
