#include "agent/host/lifecycle/binding_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "common/base/number_list.h"

namespace meshbus::host {
namespace {

using topology::Cpus;
using topology::Topology;

constexpr std::array kVendors{"nvidia", "amd", "intel"};

/// What a rank is bound to: some cores, a NUMA node, or a GPU with what is beside it.
struct Unit {
  Cpus cpus = {};
  std::string gpu = {};
  std::string visible = {};  ///< How the GPU's runtime names it.
  std::size_t cores = 0;     ///< How many ranks have a core of their own there.
};

std::string count_of(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

Cpus common_cpus(const Cpus& a, const Cpus& b) {
  Cpus both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

bool has_common_cpu(const Cpus& a, const Cpus& b) {
  return !common_cpus(a, b).empty();
}

Cpus all_cpus(const std::vector<topology::Core>& cores) {
  Cpus all;
  for (const auto& core : cores) all.insert(all.end(), core.cpus.begin(), core.cpus.end());
  std::sort(all.begin(), all.end());
  return all;
}

/// The cores, reduced to the CPUs of the set; empty = all CPUs.
std::vector<topology::Core> usable_cores(const Topology& topology, const Cpus& cpu_set) {
  Cpus sorted = cpu_set;
  std::sort(sorted.begin(), sorted.end());
  std::vector<topology::Core> cores;
  for (const auto& core : topology.cores) {
    auto cpus = sorted.empty() ? core.cpus : common_cpus(core.cpus, sorted);
    if (!cpus.empty()) cores.push_back({core.package, std::move(cpus)});
  }
  return cores;
}

std::size_t count_cores(const std::vector<topology::Core>& cores, const Cpus& within) {
  return static_cast<std::size_t>(
      std::count_if(cores.begin(), cores.end(),
                    [&](const topology::Core& core) { return has_common_cpu(core.cpus, within); }));
}

/// Groups of so many cores, one after the other; what is left over is none.
void add_groups(const std::vector<const topology::Core*>& cores, std::size_t size,
                std::vector<Unit>& units) {
  for (std::size_t begin = 0; begin + size <= cores.size(); begin += size) {
    Unit unit{.cores = 1};
    for (std::size_t i = begin; i < begin + size; ++i)
      unit.cpus.insert(unit.cpus.end(), cores[i]->cpus.begin(), cores[i]->cpus.end());
    std::sort(unit.cpus.begin(), unit.cpus.end());
    units.push_back(std::move(unit));
  }
}

/// Groups of cores within one NUMA node each; across nodes when no node has so many.
std::vector<Unit> core_units(const Topology& topology, const std::vector<topology::Core>& cores,
                             std::size_t size) {
  std::vector<Unit> units;
  std::vector<const topology::Core*> all;
  for (const auto& core : cores) all.push_back(&core);
  auto left = all;
  for (const auto& node : topology.nodes) {
    std::vector<const topology::Core*> here;
    std::erase_if(left, [&](const topology::Core* core) {
      const bool is_here = has_common_cpu(core->cpus, node.cpus);
      if (is_here) here.push_back(core);
      return is_here;
    });
    add_groups(here, size, units);
  }
  add_groups(left, size, units);
  if (units.empty()) add_groups(all, size, units);
  return units;
}

std::vector<Unit> node_units(const Topology& topology, const std::vector<topology::Core>& cores) {
  std::vector<Unit> units;
  const auto usable = all_cpus(cores);
  for (const auto& node : topology.nodes) {
    auto cpus = common_cpus(node.cpus, usable);
    // Some machines have two kinds of memory beside the same CPUs.
    const bool is_known = std::any_of(units.begin(), units.end(),
                                      [&](const Unit& unit) { return unit.cpus == cpus; });
    if (cpus.empty() || is_known) continue;
    const auto count = count_cores(cores, cpus);
    units.push_back({.cpus = std::move(cpus), .cores = count});
  }
  return units;
}

/// Those of the maker that most of them are of.
std::vector<const topology::Gpu*> main_gpus(const Topology& topology) {
  std::vector<const topology::Gpu*> most;
  for (const auto* vendor : kVendors) {
    std::vector<const topology::Gpu*> its;
    for (const auto& gpu : topology.gpus) {
      if (gpu.vendor == vendor) its.push_back(&gpu);
    }
    if (its.size() > most.size()) most = std::move(its);
  }
  return most;
}

std::optional<std::size_t> number_in(const std::string& text) {
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return !text.empty() && error == std::errc() && stop == end ? std::optional(number)
                                                              : std::nullopt;
}

/// `gpu` may be null: only its name in the environment is known.
Unit gpu_unit(const topology::Gpu* gpu, std::string visible,
              const std::vector<topology::Core>& cores) {
  Unit unit{.visible = std::move(visible)};
  if (gpu == nullptr) return unit;
  unit.gpu = gpu->address;
  unit.cpus = common_cpus(gpu->cpus, all_cpus(cores));
  return unit;
}

/// Errors: refused.
Result<std::vector<Unit>> gpu_units(const Topology& topology, const BindingInput& input,
                                    const std::vector<topology::Core>& cores) {
  const auto gpus = main_gpus(topology);
  std::vector<Unit> units;
  if (input.visible.variable.empty()) {
    for (std::size_t i = 0; i < gpus.size(); ++i)
      units.push_back(gpu_unit(gpus[i], std::to_string(i), cores));
    if (units.empty())
      return fail(ErrorCode::refused,
                  "it has no GPU that is known (PCI devices of NVIDIA, AMD or Intel); "
                  "--bind numa or --bind core needs none");
    return units;
  }
  for (const auto& entry : input.visible.entries) {
    const auto number = number_in(entry);
    const auto name = input.visible.is_renumbered ? std::to_string(units.size()) : entry;
    if (number && *number < gpus.size()) {
      units.push_back(gpu_unit(gpus[*number], name, cores));
    } else if (input.request.to != wire::BindTo::gpu) {
      units.push_back(gpu_unit(nullptr, name, cores));
    } else {
      return fail(ErrorCode::refused, input.visible.variable + " names GPU '" + entry +
                                          "', and of the " + count_of(gpus.size(), "GPU") +
                                          " here it is not known which one that is; name them by "
                                          "number");
    }
  }
  if (units.empty())
    return fail(ErrorCode::refused, input.visible.variable + " is empty: no GPU is visible there");
  return units;
}

bool is_taken(const Unit& unit, const TakenPlaces& taken) {
  if (!unit.gpu.empty()) return taken.gpus.contains(unit.gpu);
  return std::any_of(unit.cpus.begin(), unit.cpus.end(),
                     [&](std::uint32_t cpu) { return taken.cpus.contains(cpu); });
}

/// Takes away what other ranks use, if enough is left. Returns whether what is left is shared with
/// them.
bool leave_out_taken(std::vector<Unit>& units, const BindingInput& input) {
  auto free = units;
  std::erase_if(free, [&](const Unit& unit) { return is_taken(unit, input.taken); });
  if (free.size() == units.size()) return false;
  if (free.size() < input.ranks.total) return true;
  units = std::move(free);
  return false;
}

/// The unit of the rank at that place. With more ranks than units, neighbours share one.
std::size_t unit_of(std::uint64_t place, std::uint64_t total, std::size_t units, bool is_spread) {
  if (total <= units && !is_spread) return place;
  return static_cast<std::size_t>(place * units / std::max<std::uint64_t>(total, 1));
}

/// "2 cores for 4 ranks"
std::string shares(std::uint64_t count, const std::string& what, std::uint64_t ranks) {
  return count_of(count, what) + " for " + count_of(ranks, "rank");
}

/// Makes the plan of one request, step by step.
class Planner {
 public:
  Planner(const Topology& topology, const BindingInput& input)
      : topology_(topology), input_(input), cores_(usable_cores(topology, input.cpu_set)) {}

  Result<BindingPlan> run() {
    const bool is_bound = input_.request.to != wire::BindTo::none;
    if (is_bound && cores_.empty())
      return fail(ErrorCode::refused, "it may use none of the CPUs " + number_list(input_.cpu_set));
    if (has_memory_policy() && !topology_.memory_problem.empty() &&
        input_.request.memory == wire::BindMemory::only)
      return fail(ErrorCode::refused, "it cannot keep memory on a NUMA node (" +
                                          topology_.memory_problem +
                                          "); --bind-memory any needs no leave for that");
    if (is_bound) note_limits();
    if (auto bound = bind_cpus(); !bound) return fail(bound.error());
    if (auto chosen = choose_gpus(); !chosen) return fail(chosen.error());
    for (auto& rank : plan_.ranks) {
      if (auto placed = place_memory(rank.placement); !placed) return fail(placed.error());
    }
    return std::move(plan_);
  }

 private:
  bool has_memory_policy() const {
    return input_.request.to != wire::BindTo::none &&
           input_.request.memory != wire::BindMemory::any;
  }

  void note_limits() {
    std::size_t usable = 0;
    for (const auto& core : topology_.cores) usable += core.cpus.size();
    if (usable < topology_.machine_cpus)
      plan_.notes.push_back("it may use " + std::to_string(usable) + " of the " +
                            std::to_string(topology_.machine_cpus) +
                            " CPUs of its machine (its cgroup, or its CPU affinity): " +
                            number_list(all_cpus(topology_.cores)));
    if (topology_.quota_milli != 0 && topology_.quota_milli < usable * 1000)
      plan_.notes.push_back("its cgroup gives it the time of " + decimal(topology_.quota_milli) +
                            " CPUs, whatever CPUs ranks are bound to");
    if (has_memory_policy() && !topology_.memory_problem.empty())
      plan_.notes.push_back("it cannot set memory policies (" + topology_.memory_problem +
                            "): memory comes from the node where a rank first uses it");
  }

  static std::string decimal(std::uint64_t milli) {
    auto text = std::to_string(milli / 1000);
    if (milli % 1000 != 0) text += "." + std::to_string(milli % 1000 + 1000).substr(1);
    while (milli % 1000 != 0 && text.back() == '0') text.pop_back();
    return text;
  }

  Result<void> bind_cpus() {
    plan_.ranks.resize(input_.ranks.count);
    switch (input_.request.to) {
      case wire::BindTo::core: return bind_to_cores();
      case wire::BindTo::numa: return bind_to_nodes();
      case wire::BindTo::gpu:
      case wire::BindTo::none: break;
    }
    return {};
  }

  Result<void> bind_to_cores() {
    const auto size = input_.request.cores;
    auto units = core_units(topology_, cores_, size);
    if (units.empty())
      return fail(ErrorCode::refused, "it may use " + count_of(cores_.size(), "core") + ", and " +
                                          std::to_string(size) + " are wanted for each rank");
    if (leave_out_taken(units, input_))
      plan_.notes.emplace_back("other bound ranks of this host are on some of these cores");
    if (units.size() < input_.ranks.total)
      plan_.notes.push_back((size == 1 ? shares(units.size(), "core", input_.ranks.total)
                                       : shares(units.size(), "group", input_.ranks.total) +
                                             " (groups of " + count_of(size, "core") + ")") +
                            ": ranks next to each other share one, and take turns on it");
    place(units, /*is_spread=*/false);
    return {};
  }

  Result<void> bind_to_nodes() {
    const auto units = node_units(topology_, cores_);
    if (units.empty())
      return fail(ErrorCode::refused, "it may use no NUMA node beside CPUs " +
                                          number_list(all_cpus(cores_)) +
                                          "; --bind core needs none");
    place(units, /*is_spread=*/true);
    for (std::size_t i = 0; i < units.size(); ++i) {
      std::uint64_t ranks = 0;
      for (std::uint64_t place = 0; place < input_.ranks.total; ++place) {
        if (unit_of(place, input_.ranks.total, units.size(), true) == i) ++ranks;
      }
      if (ranks > units[i].cores)
        plan_.notes.push_back("CPUs " + number_list(units[i].cpus) + " are " +
                              shares(units[i].cores, "core", ranks) + ": they take turns");
    }
    return {};
  }

  Result<void> choose_gpus() {
    const bool is_bound = input_.request.to == wire::BindTo::gpu;
    if (!is_bound && !input_.request.is_one_gpu_visible) return {};
    auto units = gpu_units(topology_, input_, cores_);
    if (!units) return fail(units.error());
    if (leave_out_taken(*units, input_))
      plan_.notes.emplace_back("other bound ranks of this host use some of these GPUs");
    if (units->size() < input_.ranks.total)
      plan_.notes.push_back(shares(units->size(), "GPU", input_.ranks.total) +
                            ": ranks next to each other share one");
    bool is_remote = false;
    for (std::uint64_t i = 0; i < input_.ranks.count; ++i) {
      const auto& unit =
          (*units)[unit_of(input_.ranks.first + i, input_.ranks.total, units->size(), false)];
      auto& rank = plan_.ranks[i];
      rank.gpu = unit.gpu;
      if (input_.request.is_one_gpu_visible) rank.visible_devices = unit.visible;
      if (!is_bound) continue;
      is_remote = is_remote || unit.cpus.empty();
      rank.placement.cpus = unit.cpus.empty() ? all_cpus(cores_) : unit.cpus;
    }
    if (is_remote)
      plan_.notes.emplace_back(
          "it may use no CPU beside some of these GPUs: their ranks run on any of its CPUs");
    return {};
  }

  void place(const std::vector<Unit>& units, bool is_spread) {
    for (std::uint64_t i = 0; i < input_.ranks.count; ++i)
      plan_.ranks[i].placement.cpus =
          units[unit_of(input_.ranks.first + i, input_.ranks.total, units.size(), is_spread)].cpus;
  }

  /// The nodes with memory beside the CPUs. The kernel prefers one node only; with several it
  /// already takes the one where the rank runs.
  Result<void> place_memory(os::Placement& placement) const {
    for (const auto& node : topology_.nodes) {
      if (node.has_memory && has_common_cpu(node.cpus, placement.cpus))
        placement.memory_nodes.push_back(node.number);
    }
    if (!has_memory_policy() || !topology_.memory_problem.empty()) return {};
    const bool is_only = input_.request.memory == wire::BindMemory::only;
    if (placement.memory_nodes.empty() && is_only)
      return fail(ErrorCode::refused, "it may use no NUMA node with memory beside CPUs " +
                                          number_list(placement.cpus) +
                                          "; --bind-memory prefer or any needs none");
    if (is_only)
      placement.memory = os::Placement::Memory::only;
    else if (placement.memory_nodes.size() == 1)
      placement.memory = os::Placement::Memory::prefer;
    return {};
  }

  const Topology& topology_;
  const BindingInput& input_;
  std::vector<topology::Core> cores_;
  BindingPlan plan_;
};

}  // namespace

VisibleGpus VisibleGpus::find(const Environment& environment) {
  // The one that filters first.
  for (const std::string_view name : {"ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
                                      "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
    for (const std::string_view entry : environment) {
      if (!entry.starts_with(name) || entry.substr(name.size(), 1) != "=") continue;
      VisibleGpus visible{.variable = std::string(name),
                          .is_renumbered = name == "ROCR_VISIBLE_DEVICES"};
      auto rest = entry.substr(name.size() + 1);
      while (!rest.empty()) {
        const auto comma = std::min(rest.find(','), rest.size());
        if (comma > 0) visible.entries.emplace_back(rest.substr(0, comma));
        rest.remove_prefix(std::min(comma + 1, rest.size()));
      }
      return visible;
    }
  }
  return {};
}

Result<BindingPlan> plan_binding(const Topology& topology, const BindingInput& input) {
  return Planner(topology, input).run();
}

Environment gpu_variables(const RankBinding& binding) {
  if (binding.visible_devices.empty()) return {};
  const auto& value = binding.visible_devices;
  // The numbers are in the order of the PCI bus; CUDA would begin with the fastest one.
  return {"CUDA_VISIBLE_DEVICES=" + value, "HIP_VISIBLE_DEVICES=" + value,
          "ZE_AFFINITY_MASK=" + value, "CUDA_DEVICE_ORDER=PCI_BUS_ID"};
}

}  // namespace meshbus::host
