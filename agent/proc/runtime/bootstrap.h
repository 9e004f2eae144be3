#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"
#include "meshbus/address.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/result.h"

namespace meshbus::mesh_proc {

inline constexpr const char* kBootstrapVariable = "MESHBUS_BOOTSTRAP";
/// More than any mesh needs; a stranger's descriptor must not fill our memory.
inline constexpr std::size_t kBootstrapLimit = 64 * 1024 * 1024;

/// What a mesh proc is told at its birth (schemas/bootstrap.fbs), checked: addresses parse, the
/// rank exists, and the proc is where the mesh says that this rank lies.
struct Bootstrap {
  ProcId proc;
  std::uint64_t incarnation;
  std::vector<std::uint8_t> token;
  /// ZeroMQ endpoint.
  std::string broker;
  HostAddr host;
  /// The whole mesh.
  ProcMeshRef mesh;
  /// Create rank.
  std::uint64_t rank;
  std::vector<std::pair<std::string, std::string>> config;
  std::chrono::milliseconds away;
  std::chrono::milliseconds heartbeat;

  /// What differs between the procs of one process.
  struct Self {
    ProcId proc;
    std::uint64_t incarnation;
    std::vector<std::uint8_t> token;
    std::uint64_t rank;
  };
  /// Those behind the first one, checked likewise.
  std::vector<Self> others = {};
  /// What the launcher has set of the program's own settings, by name.
  std::vector<std::pair<std::string, std::string>> program_settings = {};
  /// MeshLayout::revision of `mesh`.
  std::uint32_t revision = 0;

  /// The one of the proc at this place, 0 for this one, alone. Errors: out_of_range.
  Result<Bootstrap> at(std::size_t place) const;
};

/// Opens the sealed memory that "DESCRIPTOR:PID:INODE[:SOCKET[:FOLDER]]" names and takes that
/// descriptor out of this process: our own, or, when a wrapper has closed it, that of the process
/// PID. Errors: configuration_error when the text is malformed, when neither is the memory of that
/// inode, and when it is not sealed; io_error.
Result<UniqueFd> open_bootstrap(std::string_view variable);

/// Takes over the connection of several procs to their keeper, which that names as SOCKET; empty:
/// it does not. Errors: configuration_error.
Result<UniqueFd> open_link(std::string_view variable);

/// The ZeroMQ endpoint of the broker for a proc of another user than the host's, by the descriptor
/// of a folder that the text names as FOLDER, and that stays open from now on; empty: it names
/// none. Errors: configuration_error.
Result<std::string> find_broker_by_folder(std::string_view variable);

/// Reads all of it. Errors: too_large, io_error.
Result<std::string> read_bootstrap(int fd);

/// Errors: malformed_message, configuration_error, version_mismatch.
Result<Bootstrap> decode_bootstrap(Bytes bytes);

/// What another proc is told that joins this process, whose broker is `broker`. Errors: io_error,
/// and those of decode_bootstrap().
Result<Bootstrap> load_joined(int fd, const std::string& broker);
/// Memory alone: opens, reads and decodes what the variable's text names. Every error names the
/// variable and says what to do.
Result<Bootstrap> load_bootstrap(std::string_view variable);

}  // namespace meshbus::mesh_proc
