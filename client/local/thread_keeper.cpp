#include "client/local/thread_keeper.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "client/src/launch/launched_host.h"
#include "common/base/clock_ns.h"
#include "common/base/log.h"

namespace meshbus::local {
namespace {

using namespace std::chrono_literals;
using os::SpawnFailure;
using os::SpawnStage;

constexpr int kPacketsPerTurn = 4;
/// What is left for all else.
constexpr std::size_t kOtherDescriptors = 200;

std::string names_of(const LocalPrograms& programs) {
  std::string names;
  for (const auto& [name, program] : programs) {
    if (!name.empty()) names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "that of an empty command alone" : names;
}

/// A reason of SpawnStage::spec: only a process could be that proc.
SpawnFailure needs_process(const std::string& what) {
  return {SpawnStage::spec, ENOTSUP, what};
}

/// Whether it would have to be a process for that.
std::optional<SpawnFailure> find_problem(const os::SpawnSpec& shared, const os::ProcSpec& spec) {
  if (spec.place != 0)
    return needs_process(
        "procs of local mode share the process of their launcher anyway "
        "(ProcSpec::procs_per_process)");
  if (!spec.bootstrap)
    return needs_process(
        "the procs of this host are threads of its launcher (local mode): set ProcSpec::kind to "
        "mesh, or start plain procs "
        "on HostMesh::local()");
  if (shared.argv.size() > 1)
    return needs_process(
        "a proc of local mode has no arguments: name programs in LocalPrograms instead");
  if (spec.stdin_choice == os::Stdio::pipe)
    return needs_process("a proc of local mode has no stdin of its own (ProcSpec::input_ranks)");
  if (!(shared.settings == os::ProcSettings()))
    return needs_process("a proc of local mode has no ProcSpec::settings of its own");
  return std::nullopt;
}

}  // namespace

ThreadKeeper::ThreadKeeper(Reactor& reactor, UniqueFd socket, Options options)
    : reactor_(reactor),
      agent_(std::move(socket)),
      options_(std::move(options)),
      notices_(std::make_shared<EndNotices>(reactor, [this] { on_ends(); })) {
  watch();
  turn_end_ = reactor_.add_turn_end([this] { flush(); });
  tell(keeper::Replayed{});
}

ThreadKeeper::~ThreadKeeper() {
  kill_all();
  wait(0ms);
  for (const auto& [id, live] : live_) live.proc->let_go();
  reactor_.forget_turn_end(turn_end_);
}

void ThreadKeeper::kill_all() {
  notices_->close();
  drop_agent();
  for (const auto& [id, live] : live_) live.proc->signal(SIGKILL);
}

std::size_t ThreadKeeper::wait(std::chrono::milliseconds limit) {
  notices_->wait(live_.size(), limit);
  for (const auto id : notices_->take()) {
    live_.at(id).proc->join();
    live_.erase(id);
  }
  return live_.size();
}

void ThreadKeeper::watch() {
  reactor_.watch(agent_.get(), EPOLLIN | (wants_write_ ? EPOLLOUT : 0U),
                 [this](std::uint32_t) { on_readable(); });
}

void ThreadKeeper::drop_agent() {
  if (!agent_) return;
  reactor_.forget(agent_.get());
  agent_.reset();
}

void ThreadKeeper::on_readable() {
  const keeper::RequestHandlers handlers{
      .on_spawn = [this](os::SpawnBatch batch) { on_spawn(std::move(batch)); },
      .on_signal = [this](const keeper::Signal& signal) { on_signal(signal); },
      .on_hold =
          [this](const keeper::Hold& hold) {
            if (signalled_.error == 0)
              signalled_ = {.token = 0, .id = hold.id, .error = EOPNOTSUPP};
          },
      .on_mark = [this](keeper::Mark mark) { on_mark(mark); },
      .on_kill_mesh = [this](const keeper::KillMesh& request) { on_kill_mesh(request); },
      .on_forget = [](const keeper::Forget&) {},
      .on_close_input = [](const keeper::CloseInput&) {}};
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    os::Packet packet;
    const auto received = os::receive_packet(agent_.get(), packet);
    if (received == os::Transfer::would_block) return;
    if (received == os::Transfer::lost) return drop_agent();
    if (const auto done = keeper::decode_requests(std::move(packet), handlers); !done) {
      log::error("local mode: " + done.error().to_string());
      return drop_agent();
    }
  }
}

void ThreadKeeper::on_spawn(os::SpawnBatch batch) {
  for (auto& spec : batch.procs) {
    keeper::Birth birth;
    birth.id = spec.id;
    birth.spawned_realtime_ns = clock_ns(CLOCK_REALTIME);
    birth.failure = start(batch.shared, spec, birth);
    tell(std::move(birth));
  }
}

std::optional<SpawnFailure> ThreadKeeper::start(const os::SpawnSpec& shared, os::ProcSpec& spec,
                                                keeper::Birth& birth) {
  if (auto problem = find_problem(shared, spec)) return problem;
  if (const auto shortage = mesh_proc::PseudoProc::find_shortage(kOtherDescriptors))
    return SpawnFailure{SpawnStage::descriptors, EMFILE, *shortage};
  auto program = options_.programs.find(shared.program);
  if (program == options_.programs.end()) {
    // An empty command has become this very executable.
    if (const auto own = own_executable(); own && *own == shared.program)
      program = options_.programs.find("");
  }
  if (program == options_.programs.end())
    return SpawnFailure{
        SpawnStage::lookup, ENOENT,
        shared.program + " (of the programs of local mode: " + names_of(options_.programs) + ")"};
  const auto bytes = mesh_proc::read_bootstrap(spec.bootstrap.get());
  if (!bytes) return SpawnFailure{SpawnStage::spec, EINVAL, bytes.error().to_string()};
  auto bootstrap = mesh_proc::decode_bootstrap(*bytes);
  if (!bootstrap) return SpawnFailure{SpawnStage::spec, EINVAL, bootstrap.error().to_string()};
  // What it has to say at its end is its stderr.
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return SpawnFailure{SpawnStage::descriptors, errno, {}};
  birth.stderr_pipe.reset(ends[0]);
  Live live{.proc = {}, .mesh = shared.mesh, .last_words = UniqueFd(ends[1])};
  try {
    live.proc =
        PseudoProc::start(spec.id, std::move(*bootstrap), program->second, options_.mask, notices_);
  } catch (const std::system_error& error) {
    birth.stderr_pipe.reset();
    return SpawnFailure{SpawnStage::clone, error.code().value(), error.what()};
  } catch (const std::exception& error) {
    birth.stderr_pipe.reset();
    return SpawnFailure{SpawnStage::clone, EAGAIN, error.what()};
  }
  live_.emplace(spec.id, std::move(live));
  // Nobody sends a signal to it by this number: that is what Signal is for.
  birth.pid = ::getpid();
  birth.started_realtime_ns = clock_ns(CLOCK_REALTIME);
  birth.started_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  return std::nullopt;
}

void ThreadKeeper::on_signal(const keeper::Signal& signal) {
  const auto found = live_.find(signal.id);
  if (found == live_.end() || signal.signal == SIGCONT) return;
  if (signal.signal == SIGTERM || signal.signal == SIGINT || signal.signal == SIGKILL)
    return found->second.proc->signal(signal.signal);
  if (signalled_.error == 0) signalled_ = {.token = 0, .id = signal.id, .error = EOPNOTSUPP};
}

void ThreadKeeper::on_mark(keeper::Mark mark) {
  signalled_.token = mark.token;
  tell(std::exchange(signalled_, {}));
}

void ThreadKeeper::on_kill_mesh(const keeper::KillMesh& request) {
  for (const auto& [id, live] : live_) {
    if (live.mesh == request.mesh) live.proc->signal(SIGKILL);
  }
}

void ThreadKeeper::on_ends() {
  for (const auto id : notices_->take()) {
    auto live = live_.extract(id);
    const auto end = live.mapped().proc->join();
    if (!end.last_words.empty()) log::write_line(live.mapped().last_words.get(), end.last_words);
    live.mapped().last_words.reset();
    keeper::Exit exit;
    exit.id = id;
    exit.signaled = end.signaled;
    exit.code = end.code;
    exit.ended_realtime_ns = clock_ns(CLOCK_REALTIME);
    exit.ended_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    tell(exit);
    tell(keeper::Gone{id});
  }
}

template <typename Event>
void ThreadKeeper::tell(Event event) {
  if (packer_.full()) outbox_.push_back(packer_.take());
  packer_.add(std::move(event));
}

void ThreadKeeper::flush() {
  if (!packer_.empty()) outbox_.push_back(packer_.take());
  bool is_blocked = false;
  while (agent_ && !outbox_.empty() && !is_blocked) {
    const auto sent = os::send_packet(agent_.get(), outbox_.front());
    if (sent == os::Transfer::lost) return drop_agent();
    is_blocked = sent == os::Transfer::would_block;
    if (!is_blocked) outbox_.pop_front();
  }
  if (agent_ && is_blocked != wants_write_) {
    wants_write_ = is_blocked;
    watch();
  }
}

}  // namespace meshbus::local
