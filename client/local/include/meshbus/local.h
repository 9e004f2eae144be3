#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "meshbus/allocator.h"
#include "meshbus/context.h"
#include "meshbus/extent.h"
#include "meshbus/host_mesh.h"
#include "meshbus/proc.h"
#include "meshbus/result.h"

/// Local mode: hosts inside the launcher's own process, whose procs are threads of it (spec 5.1),
/// for tests and for embedding. What is said over the bus, and what a launcher sees of it, is the
/// same as with real hosts.
///
///     #include <meshbus/local.h>
///     using namespace std::chrono_literals;
///
///     int main() {
///       meshbus::ProcProgram echo;
///       echo.on(1, [](meshbus::Proc&, const meshbus::Incoming& call) {
///         return std::string(call.body);
///       });
///       auto context = *meshbus::Context::create();
///       auto hosts = *meshbus::local_procs(context, echo);
///       auto mesh = *hosts.spawn("echoes", *meshbus::Extent::parse("proc=4"),
///                                {.kind = meshbus::ProcKind::mesh});
///       const auto answers = *context.call(mesh.ref(), 1, "hello", 10s);  // four times "hello"
///       return hosts.shutdown() ? 0 : 1;
///     }
///
/// A pseudo-proc is a ProcProgram with a connection, a reactor and threads of its own. It has rank,
/// address, states, exit report and actors as any proc. What it does not have is a process:
///
/// *How it ends.* Nobody can end it against its will. A stop asks main() and handlers to return, as
/// ProcProgram::on_stop says. A program that does not return until the end of the grace is cut off
/// from the bus; a main() that does not ask stop_requested() is at once. Its calls fail then, and
/// those that it has not answered do when it has ended. It has ended when all of its threads have
/// returned. One whose threads do not, 5 s after SIGKILL, is Failed with Cause::unkillable; stop()
/// and shutdown() say so, and exit() waits for it for 3 s at most. Its threads have the Proc, and
/// their memory, until they return.
///
/// *Signals.* SIGTERM, SIGINT and SIGKILL can be sent to it; others are only logged. A crash, and
/// exit(), are those of the launcher. An exception that leaves main() ends it as SIGABRT does a
/// process; the text is in the exit report (RankReport::stderr_tail).
///
/// *What it shares.* stdout, stderr, environment and working directory are those of the launcher;
/// nothing is captured. Proc says which rank it is. ProcSpec::environment, ::directory and ::output
/// have no effect; what else a process would be needed for is refused: plain procs, arguments,
/// ProcSpec::settings, ProcSpec::input_ranks. RankReport::pid is the launcher's; RankReport::usage
/// is that of the whole process.
///
/// *Threads.* A launcher in a pseudo-proc needs a Context of its own, as in any proc. No thread
/// that a program makes, and no ActorReply, may use the Proc after main() has returned and its
/// handlers and actors have ended.
namespace [[gnu::visibility("default")]] meshbus {

/// The programs that pseudo-procs can be, by name: the only word of ProcSpec::command. That of the
/// name "" is also the one of an empty command. Each pseudo-proc works with a copy of its own.
using LocalPrograms = std::map<std::string, ProcProgram>;

/// How hosts inside of this process are started.
struct LocalOptions {
  /// Settings for the hosts, besides those of the Context, which they get anyway.
  std::vector<std::pair<std::string, std::string>> settings = {};
  /// For all hosts to become ready.
  std::chrono::milliseconds ready_limit = std::chrono::seconds(30);
};

/// Hosts inside of this process: one for each rank of the extent. An Allocation for
/// HostMesh::allocate() and ProcMesh::allocate(). Errors of allocate(): configuration_error (a
/// program with a mistake in it, or a setting), io_error, timeout; would_block, refused (after
/// fork). The threads of pseudo-procs take over the signal mask of the thread that calls
/// allocate().
std::unique_ptr<Allocator> local_procs_allocator(LocalPrograms programs, LocalOptions options = {});

/// One such host, axis `host`, that runs one program; ProcSpec::command stays empty. It ends with
/// the HostMesh: call shutdown() to know the outcome. Errors: as local_procs_allocator().
Result<HostMesh> local_procs(Context& context, ProcProgram program, LocalOptions options = {});
/// The same with several programs, and as many hosts as the extent has ranks.
Result<HostMesh> local_procs(Context& context, LocalPrograms programs, const Extent& hosts,
                             LocalOptions options = {});

}  // namespace meshbus
