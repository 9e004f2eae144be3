#include "agent/stacks/process_reader.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <utility>

#include "agent/stacks/proc_files.h"
#include "agent/stacks/process_user.h"

namespace meshbus::stacks {
namespace {

/// More of one rank say nothing new, and would not fit into an answer.
constexpr std::size_t kMostProcesses = 32;
constexpr std::size_t kMostThreads = 256;
constexpr std::size_t kMostFrames = 128;
constexpr int kMostDepth = 8;
/// A stack that is deeper is cut.
constexpr std::size_t kMostStack = 512u << 10;
/// Below the stack pointer functions that call none keep their data (x86-64).
constexpr std::uint64_t kRedZone = 128;
/// A mutex of glibc: the word on which threads wait is its first one, its owner the third.
constexpr std::uint64_t kOwnerOffset = 8;
constexpr std::size_t kMutexFrames = 4;
/// How long a thread may take to stop. One that waits for a device may never do.
constexpr std::chrono::milliseconds kPatience{20};
/// How much longer one may take that waits for a CPU.
constexpr std::chrono::milliseconds kMostStarved{1000};

}  // namespace

struct ProcessReader::Process {
  Process(std::uint64_t of_rank, pid_t number) : rank(of_rank), pid(number), memory(number) {}

  std::uint64_t rank;
  pid_t pid;
  std::string name;
  ProcessMemory memory;
  ProcessMaps maps;
  std::optional<PythonStacks> python;
  std::set<std::string> problems;
};

void ProcessReader::read(const Target& target) {
  processes_ = 0;
  read_process(target);
}

void ProcessReader::read_process(const Target& target) {
  const auto& [rank, pid, parents, depth] = target;
  if (processes_++ == kMostProcesses)
    table_.add_problem(rank, "it has more than " + std::to_string(kMostProcesses) +
                                 " processes: the others are left out");
  if (processes_ > kMostProcesses) return;
  if (::geteuid() == 0) {
    auto user = user_of_process(pid);
    if (user && user->user != 0) return others_[std::move(*user)].push_back(target);
  }
  Process process(rank, pid);
  process.name = parents + read_proc_word(pid, "comm");
  const auto threads = threads_of(pid);
  if (threads.empty()) {
    if (depth == 0) table_.add_problem(rank, "it has ended");
    return;
  }
  if (!is_kernel_only_) {
    process.maps = ProcessMaps::read(pid);
    std::string why_not;
    process.python = PythonStacks::find(pid, process.maps, process.memory, images_, why_not);
    if (!why_not.empty()) process.problems.insert(process.name + ": " + why_not);
  }
  for (std::size_t i = 0; i < std::min(threads.size(), kMostThreads); ++i)
    read_thread(process, threads[i]);
  if (threads.size() > kMostThreads)
    process.problems.insert(process.name + ": it has " + std::to_string(threads.size()) +
                            " threads: those after the first " + std::to_string(kMostThreads) +
                            " are left out");
  for (const auto& problem : process.problems) table_.add_problem(rank, problem);
  if (depth == kMostDepth) return;
  for (const auto child : children_of(pid))
    read_process({rank, child, process.name + "/", depth + 1});
}

void ProcessReader::read_thread(Process& process, pid_t tid) {
  // Before it is stopped: afterwards it would be in the kernel for us.
  const auto site = find_kernel_site(process.pid, tid);
  wire::StackThreadT thread;
  thread.rank = process.rank;
  thread.pid = static_cast<std::uint32_t>(process.pid);
  thread.tid = static_cast<std::uint32_t>(tid);
  thread.process = process.name;
  if (tid != process.pid)
    thread.name = read_proc_word(process.pid, "task/" + std::to_string(tid) + "/comm");
  thread.state = static_cast<std::uint8_t>(site.state);
  thread.kernel_function = site.function;
  thread.system_call = site.call;
  thread.cpu_ms = site.cpu_ms;
  std::vector<std::uint32_t> frames;
  if (!is_kernel_only_ && site.state != 'Z' && site.state != 'X')
    frames = walk(process, tid, site, thread.note);
  thread.stack = table_.add(frames);
  table_.add(thread);
}

Result<StoppedThread> ProcessReader::stop(pid_t tid, const KernelSite& site) {
  const bool waits_for_device = site.state == 'D';
  const std::chrono::nanoseconds more =
      waits_for_device ? std::chrono::nanoseconds(0)
                       : std::min<std::chrono::nanoseconds>(starved_left_, kMostStarved);
  const auto begin = std::chrono::steady_clock::now();
  auto stopped = StoppedThread::stop(tid, kPatience + more);
  const auto over = std::chrono::steady_clock::now() - begin - kPatience;
  if (over.count() > 0) starved_left_ -= std::min<std::chrono::nanoseconds>(starved_left_, over);
  return stopped;
}

std::vector<std::uint32_t> ProcessReader::walk(Process& process, pid_t tid, const KernelSite& site,
                                               std::string& note) {
  Registers registers;
  std::vector<PythonStacks::Frame> python;
  {
    const auto stopped = stop(tid, site);
    if (!stopped) {
      if (stopped.error().code() == ErrorCode::timeout)
        note = stopped.error().detail();
      else if (stopped.error().code() != ErrorCode::not_exist)
        process.problems.insert(process.name + ": " + stopped.error().detail());
      return {};
    }
    const auto found = stopped->registers();
    if (!found) return {};
    registers = *found;
    const auto begin = registers.stack_pointer() - kRedZone;
    const auto* stack = process.maps.find(registers.stack_pointer());
    if (stack != nullptr)
      process.memory.keep(begin, std::min<std::uint64_t>(stack->end - begin, kMostStack));
    if (process.python) python = process.python->walk(tid, kMostFrames);
  }
  const Unwinder unwinder(process.pid, process.maps, process.memory, images_);
  std::vector<NamedFrame> native;
  for (const auto& frame : unwinder.walk(registers, kMostFrames))
    native.push_back(name(frame, process));
  note = mutex_note(process, site, native);
  std::vector<NamedPythonFrame> named;
  for (const auto& frame : python) {
    const auto function = process.python->resolve(frame);
    if (!function) break;
    NamedPythonFrame& added = named.emplace_back();
    added.is_last_of_call = frame.is_last_of_call;
    added.frame.function = function->name;
    added.frame.file = function->file;
    added.frame.line = function->line;
    added.frame.kind = wire::FrameKind::python;
  }
  std::vector<std::uint32_t> indexes;
  for (const auto& frame : splice(std::move(native), std::move(named)))
    indexes.push_back(table_.add(frame));
  return indexes;
}

NamedFrame ProcessReader::name(const NativeFrame& frame, const Process& process) {
  NamedFrame named;
  if (frame.image == nullptr) return named;
  named.frame.file = frame.image->name();
  named.frame.function = frame.image->function_at(frame.address);
  if (named.frame.function.empty()) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "+0x%lx",
                  static_cast<unsigned long>(frame.image->function_start(frame.address)));
    named.frame.source = text.data();
  } else if (const auto line = frame.image->line_at(frame.address)) {
    named.frame.source = line->file + ":" + std::to_string(line->number);
  }
  named.is_interpreter = process.python && (frame.image == process.python->interpreter() ||
                                            frame.image->name().starts_with("python"));
  return named;
}

std::string ProcessReader::mutex_note(const Process& process, const KernelSite& site,
                                      const std::vector<NamedFrame>& frames) {
  if (site.call != "futex") return {};
  const auto last =
      frames.begin() + static_cast<std::ptrdiff_t>(std::min(frames.size(), kMutexFrames));
  if (std::none_of(frames.begin(), last, [](const NamedFrame& named) {
        return named.frame.function.find("mutex_lock") != std::string::npos;
      }))
    return {};
  const auto owner = process.memory.get<std::int32_t>(site.first_argument + kOwnerOffset);
  if (!owner || *owner <= 0) return {};
  const auto name = read_proc_word(process.pid, "task/" + std::to_string(*owner) + "/comm");
  if (name.empty())
    return "waits for a mutex whose holder, thread " + std::to_string(*owner) + ", has ended";
  return *owner == process.pid ? "waits for a mutex that the main thread holds"
                               : "waits for a mutex that thread " + name + " holds";
}

}  // namespace meshbus::stacks
