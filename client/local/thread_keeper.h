#pragma once

#include <csignal>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "agent/keeper/protocol.h"
#include "agent/proc/pseudo_proc.h"
#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "meshbus/local.h"

namespace meshbus::local {

using mesh_proc::EndNotices;
using mesh_proc::PseudoProc;

/// What the keeper is to a host agent, by the same protocol (agent/keeper/protocol.h), for procs
/// that are threads of this process. Lives on the reactor's thread.
class ThreadKeeper {
 public:
  /// Programs that its procs can be, and the signal mask of the threads that run them.
  struct Options {
    LocalPrograms programs;
    sigset_t mask{};
  };
  /// `socket`: to the agent.
  ThreadKeeper(Reactor& reactor, UniqueFd socket, Options options);
  /// A thread that has not ended is left to itself.
  ~ThreadKeeper();
  ThreadKeeper(const ThreadKeeper&) = delete;
  ThreadKeeper& operator=(const ThreadKeeper&) = delete;

  /// Kills all. From now on nobody is told of anything.
  void kill_all();
  /// After that: waits until all have ended. How many have not by then.
  std::size_t wait(std::chrono::milliseconds limit);

 private:
  struct Live {
    std::shared_ptr<PseudoProc> proc;
    std::string mesh;
    UniqueFd last_words;
  };

  void on_readable();
  void on_spawn(os::SpawnBatch batch);
  void on_signal(const keeper::Signal& signal);
  void on_mark(keeper::Mark mark);
  void on_kill_mesh(const keeper::KillMesh& request);
  void on_ends();
  /// Makes it, or says why not.
  std::optional<os::SpawnFailure> start(const os::SpawnSpec& shared, os::ProcSpec& spec,
                                        keeper::Birth& birth);
  template <typename Event>
  void tell(Event event);
  void flush();
  void watch();
  void drop_agent();

  Reactor& reactor_;
  UniqueFd agent_;
  Options options_;
  std::shared_ptr<EndNotices> notices_;
  std::map<std::uint64_t, Live> live_;
  keeper::EventPacker packer_;
  std::deque<os::Packet> outbox_;
  keeper::Signalled signalled_;  // since the last mark
  bool wants_write_ = false;
  std::uint64_t turn_end_ = 0;
};

}  // namespace meshbus::local
