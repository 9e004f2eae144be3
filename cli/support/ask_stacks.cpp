#include "cli/support/ask_stacks.h"

#include <algorithm>
#include <utility>

#include "cli/support/choose_mesh.h"
#include "client/src/base/wire_reports.h"
#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "common/wire/wire_values.h"
#include "wire/control_generated.h"

namespace meshbus::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// One host, and what it still has to say.
struct Open {
  HostAddr host;
  ConnectionUse way;
  Connection::Answer answer;
};

RankSet left_out_of(const wire::StacksT& stacks) {
  RankSet left;
  for (const auto& ranks : stacks.left_out) left.push_back({ranks.begin(), ranks.end()});
  return left;
}

}  // namespace

std::map<HostAddr, RankSet> live_ranks_by_host(const std::vector<RankReport>& ranks,
                                               const RankSet& meant) {
  std::map<HostAddr, std::vector<std::uint64_t>> live;
  for (const auto& rank : ranks) {
    if (!rank.is_terminal() && is_meant(meant, rank.rank)) live[rank.host].push_back(rank.rank);
  }
  std::map<HostAddr, RankSet> by_host;
  for (const auto& [host, of_host] : live) by_host[host] = to_rank_set(of_host);
  return by_host;
}

AskedStacks ask_stacks(Context& context, const std::string& mesh,
                       const std::map<HostAddr, RankSet>& ranks, bool is_kernel_only,
                       milliseconds limit) {
  AskedStacks asked;
  const auto begin = Clock::now();
  const auto& core = context.core();
  auto todo = ranks;
  while (!todo.empty()) {
    const auto left = limit - std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    std::vector<Open> open;
    for (const auto& [host, wanted] : std::exchange(todo, {})) {
      const auto problem = [&](const Error& error) {
        asked.problems.push_back("host " + host.to_string() + ": " + error.to_string());
      };
      if (left <= milliseconds(0)) {
        problem(Error(ErrorCode::timeout, "ranks " + to_string(wanted) + " were left out"));
        continue;
      }
      auto way = core->find_connection(core, host);
      if (!way) {
        problem(way.error());
        continue;
      }
      wire::GetStacksT question;
      question.mesh = mesh;
      question.ranks = to_wire(wanted);
      question.kernel_only = is_kernel_only;
      auto answer = (*way)->ask(Destination::to_agent(host), std::move(question), left);
      open.push_back({host, std::move(*way), std::move(answer)});
    }
    for (auto& [host, way, answer] : open) {
      const auto said = answer.get();
      if (!said) {
        asked.problems.push_back("host " + host.to_string() + ": " + said.error().to_string());
        continue;
      }
      const auto* stacks = (*said)->body_as_Stacks();
      if (stacks == nullptr) continue;
      stacks->UnPackTo(&asked.answers.emplace_back());
      if (auto rest = left_out_of(asked.answers.back()); !rest.empty())
        todo[host] = std::move(rest);
    }
  }
  asked.took = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
  return asked;
}

}  // namespace meshbus::cli
