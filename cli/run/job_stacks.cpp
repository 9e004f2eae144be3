#include "cli/run/job_stacks.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "cli/run/say.h"
#include "cli/support/ask_stacks.h"
#include "client/src/stacks/stack_tree.h"

namespace meshbus::cli {
namespace {

/// A job that is about to be stopped does not wait longer for it.
constexpr std::chrono::milliseconds kJobLookLimit{5000};
/// Between two looks at a job that seems to stand still, and the CPU time, in milliseconds, that
/// says that it works.
constexpr std::chrono::milliseconds kPause{1000};
constexpr std::uint64_t kLeastWork = 10;

/// What hosts have said about the ranks of one role.
struct RoleStacks {
  std::string name;
  StackTree tree;
  AskedStacks asked;
};

/// Roles without a live rank are left out.
std::vector<RoleStacks> ask(Context& context, const RoleViews& roles, bool is_kernel_only) {
  std::vector<RoleStacks> all;
  for (const auto& role : roles) {
    const auto by_host = live_ranks_by_host(role.mesh.known().ranks, {});
    if (by_host.empty()) continue;
    RoleStacks stacks{role.name,
                      {},
                      ask_stacks(context, role.mesh.ref().mesh().to_string(), by_host,
                                 is_kernel_only, kJobLookLimit)};
    for (const auto& answer : stacks.asked.answers) stacks.tree.add(answer);
    all.push_back(std::move(stacks));
  }
  return all;
}

bool has_running(const std::vector<RoleStacks>& all) {
  return std::any_of(all.begin(), all.end(),
                     [](const RoleStacks& stacks) { return stacks.tree.has_running(); });
}

std::uint64_t cpu_of(const std::vector<RoleStacks>& all) {
  std::uint64_t cpu = 0;
  for (const auto& stacks : all) cpu += stacks.tree.cpu_ms();
  return cpu;
}

}  // namespace

JobStacks::JobStacks()
    : looks_(std::make_unique<nlohmann::ordered_json>(nlohmann::ordered_json::array())) {}

JobStacks::~JobStacks() = default;

std::optional<std::string> JobStacks::look(Context& context, const RoleViews& roles,
                                           const std::string& why, Unless unless) {
  std::uint64_t cpu_before = 0;
  if (unless == Unless::a_thread_runs) {
    // Processes that ranks have started may be at work, also while one look finds them asleep.
    const auto first = ask(context, roles, /*is_kernel_only=*/true);
    if (has_running(first)) return std::nullopt;
    cpu_before = cpu_of(first);
    std::this_thread::sleep_for(kPause);
  }
  const auto all = ask(context, roles, /*is_kernel_only=*/false);
  if (all.empty()) return std::nullopt;
  const bool works = has_running(all) || cpu_of(all) > cpu_before + kLeastWork;
  if (unless == Unless::a_thread_runs && works) return std::nullopt;
  std::string odd;
  for (const auto& [name, tree, asked] : all) {
    say(why + ": this is where the ranks " + (name.empty() ? "" : "of " + name + " ") + "are");
    for (const auto& problem : asked.problems) say(problem);
    const auto text = tree.text(/*main_only=*/false);
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, text.data(), text.size());
    nlohmann::ordered_json look = {
        {"why", why}, {"took_ms", asked.took.count()}, {"not_done", asked.problems}};
    if (!name.empty()) look["role"] = name;
    look.update(tree.json());
    looks_->push_back(std::move(look));
    for (const auto& one : tree.odd_ranks()) {
      odd += (odd.empty() ? "" : "; ") + (name.empty() ? "" : name + " ");
      odd += one.ranks.size() == 1 ? "rank " : "ranks ";
      odd += to_string(to_rank_set({one.ranks.begin(), one.ranks.end()})) + ": " + one.where;
    }
  }
  return odd;
}

}  // namespace meshbus::cli
