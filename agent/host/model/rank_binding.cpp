#include "agent/host/model/rank_binding.h"

#include "common/wire/control.h"

namespace meshbus::host {
namespace {

/// More ranks than a host runs cannot be meant.
constexpr std::uint64_t kMostRanks = 1U << 20;

wire::BindMemory to_wire(os::Placement::Memory memory) {
  switch (memory) {
    case os::Placement::Memory::prefer: return wire::BindMemory::prefer;
    case os::Placement::Memory::only: return wire::BindMemory::only;
    case os::Placement::Memory::as_is: break;
  }
  return wire::BindMemory::any;
}

os::Placement::Memory from_wire(wire::BindMemory memory) {
  switch (memory) {
    case wire::BindMemory::prefer: return os::Placement::Memory::prefer;
    case wire::BindMemory::only: return os::Placement::Memory::only;
    case wire::BindMemory::any: break;
  }
  return os::Placement::Memory::as_is;
}

std::vector<std::uint32_t> numbers_of(const flatbuffers::Vector<std::uint32_t>* numbers) {
  return numbers == nullptr ? std::vector<std::uint32_t>()
                            : std::vector<std::uint32_t>(numbers->begin(), numbers->end());
}

}  // namespace

WireBindings to_wire(const RankBindings& bindings) {
  WireBindings entries;
  const RankBinding* last = nullptr;
  for (const auto& [rank, binding] : bindings) {
    if (last == nullptr || entries.back()->end != rank || !(*last == binding)) {
      auto entry = std::make_unique<wire::RankBindingT>();
      entry->begin = rank;
      entry->cpus = binding.placement.cpus;
      entry->memory_nodes = binding.placement.memory_nodes;
      entry->memory = to_wire(binding.placement.memory);
      entry->gpu = binding.gpu;
      entry->visible_devices = binding.visible_devices;
      entries.push_back(std::move(entry));
    }
    entries.back()->end = rank + 1;
    last = &binding;
  }
  return entries;
}

void add_bindings(const flatbuffers::Vector<flatbuffers::Offset<wire::RankBinding>>* entries,
                  RankBindings& bindings) {
  if (entries == nullptr) return;
  for (const auto* entry : *entries) {
    if (entry->end() < entry->begin() || entry->end() - entry->begin() > kMostRanks) continue;
    const RankBinding binding{.placement = {.cpus = numbers_of(entry->cpus()),
                                            .memory = from_wire(entry->memory()),
                                            .memory_nodes = numbers_of(entry->memory_nodes())},
                              .gpu = text_of(entry->gpu()),
                              .visible_devices = text_of(entry->visible_devices())};
    for (auto rank = entry->begin(); rank < entry->end(); ++rank)
      bindings.insert_or_assign(rank, binding);
  }
}

}  // namespace meshbus::host
