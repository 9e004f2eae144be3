#include "agent/topology/hwloc_reader.h"

#include <hwloc.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include "agent/os/spec.h"
#include "agent/topology/cpu_quota.h"
#include "common/base/number_list.h"

namespace meshbus::topology {
namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Handle = std::unique_ptr<hwloc_topology, Destroy>;

constexpr unsigned kDisplayClass = 0x03;
constexpr unsigned kAcceleratorClass = 0x12;

/// Empty: the device is no GPU that programs compute on.
std::string gpu_vendor(const hwloc_obj& device) {
  const auto& pci = device.attr->pcidev;
  const unsigned base_class = pci.class_id >> 8;
  if (base_class != kDisplayClass && base_class != kAcceleratorClass) return {};
  switch (pci.vendor_id) {
    case 0x10de: return "nvidia";
    case 0x1002: return "amd";
    case 0x8086: return "intel";
    default: return {};
  }
}

std::string gpu_address(const hwloc_obj& device) {
  const auto& pci = device.attr->pcidev;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev,
                pci.func);
  return text.data();
}

Result<Handle> load(const Source& source) {
  const auto failed = [](const std::string& what) {
    return fail(ErrorCode::io_error, "hwloc: " + what + ": " + std::strerror(errno));
  };
  // Its plugins load the libraries of GPU drivers, which may hang; PCI devices need none of them.
  ::setenv("HWLOC_PLUGINS_PATH", "/dev/null", /*overwrite=*/0);
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return failed("no memory");
  Handle handle(raw);
  hwloc_topology_set_icache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (!source.xml.empty() && hwloc_topology_set_xml(raw, source.xml.c_str()) != 0)
    return failed(source.xml);
  if (!source.synthetic.empty() && hwloc_topology_set_synthetic(raw, source.synthetic.c_str()) != 0)
    return failed(source.synthetic);
  if (hwloc_topology_load(raw) != 0) return failed("the topology cannot be read");
  return handle;
}

/// The CPUs that this process may use.
class UsableCpus {
 public:
  explicit UsableCpus(bool is_this_machine) : is_all_(!is_this_machine) {
    // It fails on machines with more CPUs than the mask has bits for: the cgroup alone counts then.
    if (is_this_machine) is_all_ = ::sched_getaffinity(0, sizeof mask_, &mask_) != 0;
  }

  Cpus of(hwloc_const_cpuset_t set) const {
    Cpus cpus;
    for (int cpu = hwloc_bitmap_first(set); cpu >= 0 && cpu < static_cast<int>(os::kMaxCpus);
         cpu = hwloc_bitmap_next(set, cpu)) {
      if (is_all_ || CPU_ISSET(static_cast<std::size_t>(cpu), &mask_))
        cpus.push_back(static_cast<std::uint32_t>(cpu));
    }
    return cpus;
  }

 private:
  cpu_set_t mask_{};
  bool is_all_;
};

std::vector<Core> read_cores(hwloc_topology_t topology, const UsableCpus& usable) {
  std::vector<Core> cores;
  // Some virtual machines do not say which CPUs are threads of one core.
  const auto type =
      hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology, type, core)) != nullptr;) {
    auto cpus = usable.of(core->cpuset);
    if (cpus.empty()) continue;
    const auto* package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core);
    cores.push_back({package == nullptr ? 0 : package->logical_index, std::move(cpus)});
  }
  return cores;
}

std::vector<Node> read_nodes(hwloc_topology_t topology, const UsableCpus& usable) {
  std::vector<Node> nodes;
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    if (node->os_index < os::kMaxMemoryNodes)
      nodes.push_back({node->os_index, usable.of(node->cpuset),
                       node->attr != nullptr && node->attr->numanode.local_memory > 0});
  }
  // Where no node has any, the sizes are unknown.
  if (std::none_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.has_memory; })) {
    for (auto& node : nodes) node.has_memory = true;
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const Node& a, const Node& b) { return a.number < b.number; });
  return nodes;
}

std::vector<Gpu> read_gpus(hwloc_topology_t topology, const UsableCpus& usable) {
  std::vector<Gpu> gpus;
  for (hwloc_obj_t device = nullptr;
       (device = hwloc_get_next_pcidev(topology, device)) != nullptr;) {
    auto vendor = gpu_vendor(*device);
    if (vendor.empty()) continue;
    const auto* beside = hwloc_get_non_io_ancestor_obj(topology, device);
    gpus.push_back({gpu_address(*device), std::move(vendor), usable.of(beside->cpuset)});
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const Gpu& a, const Gpu& b) { return a.address < b.address; });
  return gpus;
}

/// Container runtimes forbid the system call. This process tries it on itself.
std::string find_memory_problem(const std::vector<Node>& nodes) {
  std::array<unsigned long, os::kMaxMemoryNodes / (8 * sizeof(unsigned long))> mask{};
  // The kernel refuses a node without memory, whatever it thinks of the others.
  const auto node =
      std::find_if(nodes.begin(), nodes.end(), [](const Node& one) { return one.has_memory; });
  if (node == nodes.end()) return "no NUMA node is known";
  mask[node->number / (8 * sizeof(unsigned long))] |= 1UL
                                                      << node->number % (8 * sizeof(unsigned long));
  const auto done =
      ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), os::kMaxMemoryNodes + 1UL);
  return done == 0 ? std::string() : std::string("set_mempolicy: ") + std::strerror(errno);
}

std::uint32_t count_machine_cpus(hwloc_topology_t topology) {
  std::ifstream file("/sys/devices/system/cpu/online");
  std::string text;
  if (std::getline(file, text)) {
    if (const auto online = parse_number_list(text, UINT32_MAX))
      return static_cast<std::uint32_t>(online->size());
  }
  const int count = hwloc_bitmap_weight(hwloc_topology_get_topology_cpuset(topology));
  return static_cast<std::uint32_t>(std::max(count, 0));
}

}  // namespace

Result<Topology> read_topology(const Source& source) {
  const auto handle = load(source);
  if (!handle) return fail(handle.error());
  const auto raw = handle->get();
  const bool is_this_machine = hwloc_topology_is_thissystem(raw) != 0;
  const UsableCpus usable(is_this_machine);
  Topology topology;
  topology.cores = read_cores(raw, usable);
  topology.nodes = read_nodes(raw, usable);
  topology.gpus = read_gpus(raw, usable);
  if (is_this_machine) {
    topology.machine_cpus = count_machine_cpus(raw);
    topology.quota_milli = find_cpu_quota();
    topology.memory_problem = find_memory_problem(topology.nodes);
  } else {
    for (const auto& core : topology.cores)
      topology.machine_cpus += static_cast<std::uint32_t>(core.cpus.size());
  }
  return topology;
}

}  // namespace meshbus::topology
