// meshbus-stacks: says where the threads of processes are. Started by the host agent for one
// request, so that nothing here can harm it: it may hang or crash on what it reads. Writes one
// control message with Stacks to its stdout.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "agent/stacks/process_reader.h"
#include "agent/stacks/stack_table.h"
#include "wire/control_generated.h"

namespace {

using namespace meshbus;

constexpr int kExitUsage = 2;
/// What one answer may have; a message has 1 MiB.
constexpr std::size_t kRoom = 700'000;
/// A request is not begun for another rank later than that.
constexpr std::chrono::seconds kBeginLimit{8};
/// Nothing takes longer: then it hangs.
constexpr unsigned kLifetimeSeconds = 20;

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const auto* const end = text.data() + text.size();
  return !text.empty() && std::from_chars(text.data(), end, number).ptr == end;
}

bool write_all(const std::uint8_t* bytes, std::size_t size) {
  while (size > 0) {
    const auto n = ::write(STDOUT_FILENO, bytes, size);
    if (n <= 0) return false;
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

/// The agent comes last for the OOM killer, and its children with it; this one need not.
void be_ordinary() {
  if (std::FILE* file = std::fopen("/proc/self/oom_score_adj", "w"); file != nullptr) {
    std::fputs("0", file);
    std::fclose(file);
  }
}

int usage() {
  std::fprintf(stderr, "usage: meshbus-stacks [--kernel] RANK:PID...\n");
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::alarm(kLifetimeSeconds);
  be_ordinary();
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  int next = 1;
  bool is_kernel_only = false;
  if (next < argc && std::string_view(argv[next]) == "--kernel") {
    is_kernel_only = true;
    ++next;
  }
  stacks::StackTable table;
  stacks::ProcessReader reader(table, is_kernel_only);
  const auto until = std::chrono::steady_clock::now() + kBeginLimit;
  for (; next < argc; ++next) {
    const std::string_view word = argv[next];
    const auto colon = word.find(':');
    std::uint64_t rank = 0;
    pid_t pid = 0;
    if (colon == std::string_view::npos || !parse(word.substr(0, colon), rank) ||
        !parse(word.substr(colon + 1), pid) || pid <= 0)
      return usage();
    if (table.size() > kRoom || std::chrono::steady_clock::now() > until)
      table.leave_out(rank);
    else
      reader.read_rank(rank, pid);
  }
  wire::ControlT control;
  control.is_answer = true;
  control.body.Set(table.take());
  flatbuffers::FlatBufferBuilder builder;
  wire::FinishControlBuffer(builder, wire::Control::Pack(builder, &control));
  return write_all(builder.GetBufferPointer(), builder.GetSize()) ? 0 : 1;
}
