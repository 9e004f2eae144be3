#include "cli/run/job_stacks.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "cli/support/ask_stacks.h"
#include "cli/watch/stack_tree.h"

namespace meshbus::cli {
namespace {

/// A job that is about to be stopped does not wait longer for it.
constexpr std::chrono::milliseconds kJobLookLimit{5000};
/// Between two looks at a job that seems to stand still, and the CPU time, in milliseconds, that
/// says that it works.
constexpr std::chrono::milliseconds kPause{1000};
constexpr std::uint64_t kLeastWork = 10;

}  // namespace

JobStacks::JobStacks()
    : looks_(std::make_unique<nlohmann::ordered_json>(nlohmann::ordered_json::array())) {}

JobStacks::~JobStacks() = default;

std::optional<std::string> JobStacks::look(JobHosts& hosts, const JobParts& parts,
                                           const std::string& why, Unless unless) {
  const auto by_host = live_ranks_by_host(parts.mesh->known().ranks, {});
  if (by_host.empty()) return std::nullopt;
  const auto name = parts.mesh->ref().mesh().to_string();
  const auto ask = [&](bool is_kernel_only, StackTree& tree) {
    auto asked = ask_stacks(hosts.context(), name, by_host, is_kernel_only, kJobLookLimit);
    for (const auto& answer : asked.answers) tree.add(answer);
    return asked;
  };
  std::uint64_t cpu_before = 0;
  if (unless == Unless::a_thread_runs) {
    // Processes that ranks have started may be at work, also while one look finds them asleep.
    StackTree first;
    ask(/*is_kernel_only=*/true, first);
    if (first.has_running()) return std::nullopt;
    cpu_before = first.cpu_ms();
    std::this_thread::sleep_for(kPause);
  }
  StackTree tree;
  const auto asked = ask(/*is_kernel_only=*/false, tree);
  const bool works = tree.has_running() || tree.cpu_ms() > cpu_before + kLeastWork;
  if (unless == Unless::a_thread_runs && works) return std::nullopt;
  say(why + ": this is where the ranks are");
  for (const auto& problem : asked.problems) say(problem);
  const auto text = tree.text(/*main_only=*/false);
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, text.data(), text.size());
  nlohmann::ordered_json look = {
      {"why", why}, {"took_ms", asked.took.count()}, {"not_done", asked.problems}};
  look.update(tree.json());
  looks_->push_back(std::move(look));
  std::string odd;
  for (const auto& one : tree.odd_ranks()) {
    odd += odd.empty() ? "" : "; ";
    odd += one.ranks.size() == 1 ? "rank " : "ranks ";
    odd += to_string(to_rank_set({one.ranks.begin(), one.ranks.end()})) + ": " + one.where;
  }
  return odd;
}

}  // namespace meshbus::cli
