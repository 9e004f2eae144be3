#include "agent/host/model/exit_report.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "wire/ranks_generated.h"

namespace meshbus::host {
namespace {

/// A limit is compared with ticks that found the process running, what it has used is measured
/// exactly: on a busy machine the ticks were seen to say a quarter more.
constexpr std::chrono::milliseconds kCpuSlack{100};

bool is_ours(const ProcEnd& end, const EndFacts& facts) {
  return end.code >= 0 && end.code < 64 && (facts.sent_signals >> end.code & 1) != 0;
}

bool has_used(const EndFacts& facts, std::uint64_t seconds) {
  constexpr std::uint64_t a_century = 3'200'000'000;
  return seconds < a_century &&
         facts.cpu_time + facts.cpu_time / 2 + kCpuSlack >= std::chrono::seconds(seconds);
}

/// ": it has used 1.03 s of CPU time, RLIMIT_CPU is 1 s"
std::string used_up(const EndFacts& facts, const char* limit, std::uint64_t seconds) {
  std::array<char, 32> used{};
  std::snprintf(used.data(), used.size(), "%.2f",
                static_cast<double>(facts.cpu_time.count()) / 1e6);
  return std::string(": it has used ") + used.data() + " s of CPU time, " + limit + " is " +
         std::to_string(seconds) + " s";
}

/// "it has reached its limit of 64MiB of memory"
std::string why_killed(const EndFacts& facts) {
  if (facts.memory_limit_hit) return "it has reached its " + facts.memory_limit;
  return "not because of its " + facts.memory_limit +
         ", but of one above it, or of the whole machine";
}

}  // namespace

std::string signal_name(int signal) {
  if (const char* name = sigabbrev_np(signal); name != nullptr) return std::string("SIG") + name;
  if (signal >= SIGRTMIN && signal <= SIGRTMAX)
    return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  return "signal " + std::to_string(signal);
}

bool is_unexplained_kill(const ProcEnd& end, const EndFacts& facts) {
  return end.signaled && end.code == SIGKILL && !is_ours(end, facts);
}

EndWords describe_end(const ProcEnd& end, const EndFacts& facts) {
  using wire::Cause;
  // Not the proc itself, as far as one can see, but others of it.
  const std::string killed = facts.memory_kills == 0
                                 ? ""
                                 : "; the kernel has killed " + std::to_string(facts.memory_kills) +
                                       " of its processes for want of memory: " + why_killed(facts);
  if (!end.signaled) return {Cause::exited, "exit " + std::to_string(end.code) + killed};
  std::string text = "killed by " + signal_name(end.code);
  if (end.core_dumped) text += " (core dumped)";
  if (is_ours(end, facts)) return {Cause::signaled, std::move(text)};
  if (end.code == SIGKILL && facts.memory_kills != 0)
    return {Cause::out_of_memory, text + ", out of memory: " + why_killed(facts)};
  if (end.code == SIGXCPU) {
    if (has_used(facts, facts.cpu_soft))
      return {Cause::cpu_limit, text + used_up(facts, "RLIMIT_CPU", facts.cpu_soft)};
    // There is no smaller limit.
    if (has_used(facts, 1))
      return {Cause::cpu_limit,
              text + ": its CPU time is over (an RLIMIT_CPU that it has set itself)"};
  }
  if (end.code != SIGKILL) return {Cause::signaled, text + killed};
  if (facts.out_of_memory == OutOfMemory::yes)
    return {Cause::out_of_memory,
            text + ", out of memory: the kernel has killed for want of memory in " +
                facts.memory_cgroup};
  if (has_used(facts, facts.cpu_hard))
    return {Cause::cpu_limit, text + used_up(facts, "the hard RLIMIT_CPU", facts.cpu_hard)};
  if (facts.out_of_memory == OutOfMemory::no)
    return {Cause::killed_from_outside, text + ", not sent by meshbus"};
  return {Cause::killed_from_outside, text + ", not sent by meshbus, possibly out of memory"};
}

std::string describe_spawn_failure(const os::SpawnFailure& failure, std::string_view program,
                                   std::string_view host) {
  using Stage = os::SpawnStage;
  const bool is_exec = failure.stage == Stage::lookup || failure.stage == Stage::exec ||
                       failure.stage == Stage::interpreter;
  std::string text = is_exec ? "cannot execute '" : "cannot start '";
  text += is_exec && !failure.file.empty() ? failure.file : std::string(program);
  text += "': ";
  if (failure.stage == Stage::working_directory) {
    text += "cannot enter directory '" + failure.file + "': ";
  } else if (!is_exec && !failure.file.empty()) {
    text += failure.file + ": ";
  }
  text += failure.error != 0 ? std::strerror(failure.error) : "not possible";
  text += " (step: ";
  text += os::to_string(failure.stage);
  text += ") on host ";
  return text.append(host);
}

}  // namespace meshbus::host
