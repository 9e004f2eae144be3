// meshbus-stacks: says where the threads of processes are. Started by the host agent for one
// request, so that nothing here can harm it: it may hang or crash on what it reads. Writes one
// control message with Stacks to its stdout.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/stacks/process_reader.h"
#include "agent/stacks/stack_table.h"
#include "agent/stacks/user_look.h"

namespace {

using namespace meshbus;

constexpr int kExitUsage = 2;
/// What one answer may have; a message has 1 MiB.
constexpr std::size_t kRoom = 700'000;
/// A request is not begun for another rank later than that.
constexpr std::chrono::seconds kBeginLimit{8};

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const auto* const end = text.data() + text.size();
  return !text.empty() && std::from_chars(text.data(), end, number).ptr == end;
}

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const auto n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
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
  ::alarm(stacks::kLookSeconds);
  be_ordinary();
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  int next = 1;
  stacks::LookLimits limits{.room = kRoom, .until = std::chrono::steady_clock::now() + kBeginLimit};
  if (next < argc && std::string_view(argv[next]) == "--kernel") {
    limits.is_kernel_only = true;
    ++next;
  }
  std::vector<stacks::ProcessReader::Target> targets;
  for (; next < argc; ++next) {
    const std::string_view word = argv[next];
    const auto colon = word.find(':');
    stacks::ProcessReader::Target target;
    if (colon == std::string_view::npos || !parse(word.substr(0, colon), target.rank) ||
        !parse(word.substr(colon + 1), target.pid) || target.pid <= 0)
      return usage();
    targets.push_back(std::move(target));
  }
  stacks::StackTable table;
  for (const auto& [user, others] : stacks::look(targets, limits, table)) {
    limits.room = kRoom - std::min(kRoom, table.size());
    stacks::look_as(user, others, limits, table);
  }
  return write_all(table.encode()) ? 0 : 1;
}
