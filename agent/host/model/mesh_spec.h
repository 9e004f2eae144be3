#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/host/model/rank_binding.h"
#include "agent/os/spec.h"
#include "common/address/mesh_layout.h"
#include "common/base/rank_limit.h"
#include "meshbus/address.h"
#include "meshbus/name.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/region.h"
#include "wire/forward.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {

/// A name and its value: an environment variable, or a setting.
using NamedValue = std::pair<std::string, std::string>;

/// What to execute: wire::Command, checked.
struct CommandSpec {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<NamedValue> environment;
  bool clean_environment = false;
  std::string directory;
  os::ProcSettings settings;
  /// The procs are copies of this command's process.
  bool is_template = false;
  BindingRequest binding;  ///< wire::SpawnProcs::binding

  friend bool operator==(const CommandSpec&, const CommandSpec&) = default;
};

/// A checked SpawnProcs: what this host is to run of one mesh. A plain value.
/// Large because: it has a member for each field of the request.
struct MeshSpec {
  Name mesh;
  Region region;
  std::vector<HostAddr> hosts;
  ProcId owner;
  wire::ProcKind kind = wire::ProcKind::plain;
  CommandSpec command;
  /// How many mesh procs share a process.
  std::uint32_t procs_per_process = 1;
  std::chrono::milliseconds lease{0};
  std::chrono::milliseconds ready_limit{0};
  std::chrono::milliseconds grace{0};
  wire::OutputMode output = wire::OutputMode::capture;
  std::string master_address;
  std::uint16_t master_port = 0;
  std::vector<NamedValue> config;

  /// Which of `hosts` this is. A host that is in `hosts` twice gets two requests.
  std::uint32_t host_index = 0;
  /// All ranks that lie on hosts[host_index].
  RankBlock block;
  std::vector<RankBlock> create_ranks;
  std::vector<RankBlock> input_ranks;
  /// How often the ranks were started before.
  std::uint32_t restarts = 0;
  /// The owner may restart ranks that have ended, as long as it is there.
  bool may_restart = false;
  /// Which layout `region` and `hosts` are: see MeshLayout.
  std::uint32_t revision = 0;
  /// The lost host that the ranks ran on before, and how it was lost; empty: they ran here, or
  /// nowhere.
  std::string moved_from = {};
  std::string moved_because = {};

  MeshLayout layout() const { return {.region = region, .hosts = hosts, .revision = revision}; }

  /// Ranks that are started together and have the same number here share a process.
  std::uint64_t process_of(std::uint64_t rank) const {
    return (rank - block.begin) / procs_per_process;
  }
  bool is_first_of_process(std::uint64_t rank) const {
    return (rank - block.begin) % procs_per_process == 0;
  }
};

/// Checks every field of a request that came to `own`. Errors name the field and what it should be:
/// parse_error, configuration_error, out_of_range, identity_mismatch (meant for another host),
/// too_large.
Result<MeshSpec> parse_spawn(const wire::SpawnProcs& request, const HostAddr& own);

/// The same request for these ranks of hosts[host_index], to restart them: what was left of their
/// stdin is not for another incarnation. Errors: out_of_range.
Result<MeshSpec> make_restart(const MeshSpec& first, std::uint32_t host_index,
                              std::vector<RankBlock> ranks, std::uint32_t restarts);

/// The first field, by its name in the schema, in which two requests for the same mesh differ;
/// nothing when they mean the same procs. Ranks, host index, lease, restarts, and with another
/// revision the layout, may differ.
/// `owner`: the one that answers for the known mesh now.
std::optional<std::string_view> find_difference(const MeshSpec& known, const MeshSpec& request,
                                                const ProcId& owner);
inline std::optional<std::string_view> find_difference(const MeshSpec& a, const MeshSpec& b) {
  return find_difference(a, b, a.owner);
}

/// The intervals of a request. They must be ascending, not empty, without overlap, and below `end`.
/// Errors: out_of_range, naming `field`.
Result<std::vector<RankBlock>> parse_ranks(
    const flatbuffers::Vector<const wire::RankInterval*>* ranks, std::uint64_t end,
    std::string_view field);

bool contains(const std::vector<RankBlock>& ranks, std::uint64_t rank);

}  // namespace meshbus::host
