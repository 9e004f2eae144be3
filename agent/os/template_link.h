#pragma once

#include <cstddef>
#include <cstdint>

/// What the keeper and the template of a mesh say to each other, over a SOCK_SEQPACKET pair whose
/// end the template finds by its number in MESHBUS_TEMPLATE.
///
/// A template is a process that makes the processes of a mesh as copies of itself, with what it has
/// loaded. It runs under the settings of the mesh (limits, uid, CPUs, working directory), so that
/// its copies have them, too. It makes a copy by clone3(CLONE_PARENT | CLONE_PIDFD |
/// CLONE_INTO_CGROUP): the keeper is the parent, and watches, reaps and contains it like any
/// process that it has made itself.
///
///     template                        keeper
///       Report ready                ->
///                                   <-  Request, one at a time
///       (clone3)
///       Report born + pidfd         ->
///                                   <-  a byte through the pipe of the request: go
///
/// A copy does nothing before the byte has come, and ends when the pipe ends without one. Until
/// then it must stay in the process group of the template, which is how the keeper knows it. Both
/// ends are on one machine and have the layout of this header. client/python/meshbus/template.py is
/// such a template. The keeper believes nothing: it reads the pid from the pidfd, and takes only a
/// child of its own in the template's process group.
namespace meshbus::os::template_link {

inline constexpr std::uint32_t kMagic = 0x5a54'4d01;  // "\1MTZ"
inline constexpr const char* kVariable = "MESHBUS_TEMPLATE";
inline constexpr std::size_t kLongestReason = 2048;

/// Which descriptors follow those that always come, in this order.
enum Has : std::uint32_t {
  has_stdin = 1,
  has_stdout = 2,
  has_stderr = 4,
  has_bootstrap = 8,  ///< For MESHBUS_BOOTSTRAP="fd:pid:inode" (spec 4.4).
  has_cgroup = 16,    ///< The directory of a cgroup v2 to be born in.
  /// For a FOLDER in MESHBUS_BOOTSTRAP (agent/proc/runtime/bootstrap.h), which stays open.
  has_bus_folder = 32,
};

/// Keeper → template: make a copy. With descriptors: a memfd with its whole environment, KEY=VALUE
/// each ended by a NUL; the pipe that says go; those of `has`; `joins` times a file of a cgroup to
/// write "0" into.
struct Request {
  std::uint32_t magic = kMagic;
  std::uint32_t has = 0;
  std::uint32_t joins = 0;
  std::int32_t parent_death_signal = 0;  ///< 0: none.
  std::uint32_t new_session = 1;         ///< setsid; else setpgid(0, 0).
  std::uint32_t subreaper = 1;
};

enum class What : std::uint32_t {
  ready = 1,   ///< Everything is loaded.
  born = 2,    ///< Here is a copy: its pidfd comes along.
  failed = 3,  ///< No copies can be made; a reason in words follows. The template ends.
};

/// Template → keeper.
struct Report {
  std::uint32_t magic = kMagic;
  What what{};
};

}  // namespace meshbus::os::template_link
