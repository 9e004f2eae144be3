#include "agent/stacks/stopped_thread.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>

#include "agent/stacks/proc_files.h"

namespace meshbus::stacks {
namespace {

using Clock = std::chrono::steady_clock;
constexpr long kPauseNs = 50'000;

/// "1"; empty: the kernel has no such restriction.
std::string yama_scope() {
  std::string scope;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope;
}

Error refusal(pid_t tid, int error) {
  if (error == ESRCH) return {ErrorCode::not_exist, "it has ended"};
  constexpr std::string_view kTracer = "TracerPid:\t";
  const auto status = read_proc_file(tid, "status");
  if (const auto at = status.find(kTracer); at != std::string::npos) {
    const auto begin = at + kTracer.size();
    const auto tracer = status.substr(begin, status.find('\n', begin) - begin);
    if (tracer != "0") return {ErrorCode::refused, "process " + tracer + " traces it already"};
  }
  const auto yama = yama_scope();
  if (!yama.empty() && yama != "0")
    return {ErrorCode::refused,
            "kernel.yama.ptrace_scope is " + yama +
                " here: only a host that runs as root may look, and only at processes of root"};
  return {ErrorCode::refused, std::string("it may not be traced: ") + std::strerror(error)};
}

}  // namespace

Result<StoppedThread> StoppedThread::stop(pid_t tid, std::chrono::nanoseconds patience) {
  if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return fail(refusal(tid, errno));
  if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) return fail(refusal(tid, errno));
  const auto until = Clock::now() + patience;
  for (;;) {
    int status = 0;
    const auto found = ::waitpid(tid, &status, __WALL | WNOHANG);
    if (found < 0) return fail(ErrorCode::not_exist, "it has ended");
    if (found == tid) {
      if (!WIFSTOPPED(status)) return fail(ErrorCode::not_exist, "it has ended");
      const bool is_ours = status >> 16 == PTRACE_EVENT_STOP;
      return StoppedThread(tid, is_ours ? 0 : WSTOPSIG(status));
    }
    // Our own end lets go of it.
    if (Clock::now() > until) return fail(ErrorCode::timeout, "it does not stop");
    const timespec pause{0, kPauseNs};
    ::nanosleep(&pause, nullptr);
  }
}

StoppedThread::StoppedThread(StoppedThread&& other) noexcept
    : tid_(std::exchange(other.tid_, 0)), signal_(other.signal_) {}

StoppedThread::~StoppedThread() {
  if (tid_ != 0) ::ptrace(PTRACE_DETACH, tid_, nullptr, static_cast<long>(signal_));
}

Result<Registers> StoppedThread::registers() const {
  user_regs_struct raw{};
  iovec where{&raw, sizeof raw};
  if (::ptrace(PTRACE_GETREGSET, tid_, NT_PRSTATUS, &where) != 0)
    return fail(ErrorCode::io_error, std::string("its registers: ") + std::strerror(errno));
  Registers registers;
#if defined(__x86_64__)
  registers.values = {raw.rax, raw.rdx, raw.rcx, raw.rbx, raw.rsi, raw.rdi,
                      raw.rbp, raw.rsp, raw.r8,  raw.r9,  raw.r10, raw.r11,
                      raw.r12, raw.r13, raw.r14, raw.r15, raw.rip};
  registers.pc = raw.rip;
#else
  for (std::size_t i = 0; i < 31; ++i) registers.values[i] = raw.regs[i];
  registers.values[Registers::kStackPointer] = raw.sp;
  registers.pc = raw.pc;
#endif
  return registers;
}

}  // namespace meshbus::stacks
