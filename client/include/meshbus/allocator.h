#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/context.h"
#include "meshbus/extent.h"
#include "meshbus/remote_hosts.h"
#include "meshbus/result.h"

/// Where hosts come from. An allocator makes hosts; what it has made is an allocation; a
/// host mesh, or a mesh of procs, takes it over and ends it.
///
///     auto allocator = meshbus::process_allocator();
///     // or meshbus::remote_allocator(must(meshbus::ssh_hosts({"h1", "h2"})))
///     auto made = must(allocator->allocate(
///         context, {.extent = must(meshbus::Extent::parse("host=2")),
///                   .on_event = [](const meshbus::AllocationEvent& event) {
///                     std::cout << event.describe() << "\n";  // "host 1 (unix:/...) runs"
///                   }}));
///     auto hosts = must(meshbus::HostMesh::allocate(context, "hosts", std::move(made)));
///     auto one = must(allocator->allocate(context, {}));
///     auto other = must(meshbus::ProcMesh::allocate(context, "work", std::move(one), {},
///                                                   {.command = {"true"}}));
namespace [[gnu::visibility("default")]] meshbus {

class HostEnds;

/// How hosts are started.
struct HostOptions {
  /// The `meshbus` program. Empty: MESHBUS_BIN (the program, or the folder it is in), else beside
  /// this executable, else PATH.
  std::string program = {};
  /// How procs are kept together: "auto", "cgroup", "pidns", "sweep".
  /// Empty: the host decides.
  std::string containment = {};
  /// Where per-host directories are made; empty: the host's default.
  std::string run_dir = {};
  /// Settings for the hosts, besides those of the Context, which they get anyway.
  std::vector<std::pair<std::string, std::string>> settings = {};
  /// For all hosts to become ready.
  std::chrono::milliseconds ready_limit = std::chrono::seconds(30);
};

/// What has happened to one host of an allocation.
struct AllocationEvent {
  /// The stage that the host has reached. Each at most once, in this order; nothing comes after
  /// stopped or failed.
  enum class Kind : std::uint8_t {
    created,  ///< It is being started.
    running,  ///< It is ready, and has an address.
    stopped,  ///< It has ended in order: on request, or by itself without an error.
    failed,   ///< It did not become ready, or has ended without a request.
  };
  Kind kind = Kind::created;  ///< What happened.
  std::uint64_t rank =
      0;  ///< Which host: its rank in the allocation, and in the host mesh that is made of it.
  std::optional<HostAddr> host = {};  ///< Its address, from `running` on.
  std::string reason = {};            ///< Why it stopped or failed, as text, with its last lines.
  std::string describe()
      const;  ///< "host 1 (unix:/run/...) failed: its process (pid 12) ended: killed by SIGKILL"
};

/// What is to be made.
struct AllocationSpec {
  Extent extent = {};  ///< How the hosts are arranged; one for each rank. With no rank at all, none
                       ///< is made and nothing can fail.
  /// Called for each event of the hosts, as long as the Context exists. The allocators of this
  /// library call it on the thread of the Context's handlers.
  std::function<void(const AllocationEvent&)> on_event = {};
};

/// Hosts that an allocator has made: all of them ran when it was returned. It owns them; they end
/// with it. May be used from any thread.
class Allocation {
 public:
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  /// Best effort: asks its hosts to end and does not wait. Call stop() to know the outcome.
  virtual ~Allocation();

  const Extent& extent() const noexcept { return extent_; }  ///< How they are arranged.
  /// By rank.
  const std::vector<HostAddr>& hosts() const noexcept { return hosts_; }
  /// Waits until the host of that rank has ended. Returns how it ended; nothing when it has not by
  /// then, or there is no such rank.
  std::optional<std::string> wait_end(std::uint64_t rank, std::chrono::milliseconds deadline) const;

  /// Ends the hosts without stopping their procs first (HostMesh::shutdown does that), and waits. A
  /// host that has not ended by the deadline is killed. Errors: stop_error naming each host that is
  /// still there, or had to be killed, so that some of its processes may be left.
  [[nodiscard]] virtual Result<void> stop(std::chrono::milliseconds deadline) = 0;
  /// Whether the hosts end with this process, however it ends, and at once: then their procs need
  /// no lease.
  virtual bool ends_with_launcher() const { return false; }

  /// The hosts have another owner (HostMesh::handover), and end neither with this object nor with
  /// this process any more. Errors: refused: these cannot do without this process, and why.
  [[nodiscard]] virtual Result<void> release();
  /// Whether release() can succeed.
  virtual bool can_release() const { return false; }

  /// For the library.
  const std::shared_ptr<HostEnds>& ends() const noexcept { return ends_; }

 protected:
  /// `hosts`: the address of each rank of the extent.
  Allocation(Extent extent, std::vector<HostAddr> hosts);
  /// To be said of each host when it is gone for ever, by proof, whatever has ended it: shutdown()
  /// waits for that. From any thread; once.
  void note_end(std::uint64_t rank, const std::string& how);

 private:
  Extent extent_;
  std::vector<HostAddr> hosts_;
  std::shared_ptr<HostEnds> ends_;
};

/// Makes hosts. Write another one to get them from elsewhere: start them, wait until each has said
/// its address, and return an Allocation of your own that knows how to end them.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// Makes the hosts, all at once, and waits until they run. All or none: on error what was started
  /// has been ended, and the error names each host that failed, by its rank, and why. Errors:
  /// configuration_error (no such program, more ranks than there is room for), io_error,
  /// host_unreachable, timeout; would_block, refused (after fork).
  [[nodiscard]] virtual Result<std::unique_ptr<Allocation>> allocate(Context& context,
                                                                     AllocationSpec spec) = 0;
};

/// Hosts as processes of this machine: `meshbus host`, each in a session of its own.
std::unique_ptr<Allocator> process_allocator(HostOptions options = {});
/// One host, a child of this process; an extent with more ranks is a configuration_error.
std::unique_ptr<Allocator> local_allocator(HostOptions options = {});
/// A host on each of these machines, the first ones when the extent has fewer ranks: what
/// ssh_hosts() and slurm_hosts() name, and whatever else a command reaches. See HostMesh::remote().
std::unique_ptr<Allocator> remote_allocator(std::vector<RemoteHost> machines,
                                            HostOptions options = {});

}  // namespace meshbus
