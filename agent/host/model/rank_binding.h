#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/os/spec.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {

/// How the ranks of a mesh are to be bound: wire::Binding, checked. A plain value.
struct BindingRequest {
  wire::BindTo to = wire::BindTo::none;
  std::uint32_t cores = 1;  ///< For each rank, with BindTo::core.
  wire::BindMemory memory = wire::BindMemory::prefer;
  bool is_one_gpu_visible = false;

  bool is_wanted() const noexcept { return to != wire::BindTo::none || is_one_gpu_visible; }
  friend bool operator==(const BindingRequest&, const BindingRequest&) = default;
};

/// How one rank is bound. A plain value.
struct RankBinding {
  /// `memory_nodes` are those with memory beside the CPUs, also when no memory policy is set.
  os::Placement placement;
  std::string gpu;              ///< PCI address; empty: none was chosen.
  std::string visible_devices;  ///< For CUDA_VISIBLE_DEVICES and its like; empty: not set.

  friend bool operator==(const RankBinding&, const RankBinding&) = default;
};
using RankBindings = std::map<std::uint64_t, RankBinding>;

using WireBindings = std::vector<std::unique_ptr<wire::RankBindingT>>;
/// One entry for consecutive ranks that are bound alike.
WireBindings to_wire(const RankBindings& bindings);
/// Reads what to_wire() made; entries that are none are left out.
void add_bindings(const flatbuffers::Vector<flatbuffers::Offset<wire::RankBinding>>* entries,
                  RankBindings& bindings);

}  // namespace meshbus::host
