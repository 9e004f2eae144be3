#include <algorithm>
#include <map>

#include "client/src/base/time_left.h"
#include "client/src/base/wire_reports.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;
/// A host that did not take the order is asked again so often.
constexpr std::chrono::milliseconds kStopAgain{250};
/// For one answer: an agent acknowledges at once.
constexpr std::chrono::seconds kStopAskLimit{5};

/// Hosts that still have ranks of the set.
std::vector<std::uint64_t> hosts_with(const RankTable& table,
                                      const std::vector<std::uint64_t>& ranks) {
  std::vector<std::uint64_t> hosts;
  for (const auto rank : ranks) {
    const auto host = table.rank(rank).host_index;
    if (hosts.empty() || hosts.back() != host) hosts.push_back(host);
  }
  return hosts;
}

/// Whether its controller is to restart nothing any more, which hosts tell it that hear of the stop
/// of a whole mesh, also those whose ranks have all ended.
bool is_to_end_restarts(const MeshMonitor& monitor, const StopOptions& options) {
  return options.ranks.empty() && monitor.has_restarts() && monitor.progress().is_handed_over();
}

std::vector<std::uint64_t> hosts_to_ask(const MeshMonitor& monitor, const RankTable& table,
                                        const StopOptions& options) {
  if (!is_to_end_restarts(monitor, options))
    return hosts_with(table, table.not_ended(options.ranks));
  std::vector<std::uint64_t> hosts;
  for (std::uint64_t host = 0; host < monitor.mesh().hosts().size(); ++host) {
    if (const auto block = monitor.mesh().block_of(host); block && block->begin < block->end)
      hosts.push_back(host);
  }
  return hosts;
}

Connection::Answer order(Connection& connection, const MeshMonitor& monitor,
                         const StopOptions& options, std::uint64_t host,
                         std::chrono::milliseconds deadline) {
  wire::StopProcsT stop;
  stop.mesh = monitor.name();
  if (!is_to_end_restarts(monitor, options))
    stop.ranks = to_wire(ranks_on(monitor.mesh(), host, options.ranks));
  stop.reason = options.reason;
  stop.requester = connection.self();
  stop.because = options.because;
  stop.grace_ms = static_cast<std::uint32_t>(std::clamp<std::int64_t>(
      options.grace.value_or(monitor.options().grace).count(), 0, UINT32_MAX));
  return connection.ask_again(Destination::to_agent(monitor.mesh().hosts()[host]), std::move(stop),
                              deadline);
}

}  // namespace

RankSet ranks_on(const ProcMeshRef& mesh, std::uint64_t host_index, const RankSet& ranks) {
  const auto block = mesh.block_of(host_index).value_or(RankBlock{});
  if (ranks.empty()) return {block};
  RankSet here;
  for (const auto& one : ranks) {
    const RankBlock common{std::max(one.begin, block.begin), std::min(one.end, block.end)};
    if (common.begin < common.end) here.push_back(common);
  }
  return here;
}

void order_stop(ContextCore& core, Connection& connection, MeshMonitor& monitor,
                const StopOptions& options) {
  if (!core.check_process()) return;
  monitor.stop_restarts(options.ranks);
  const auto table = monitor.progress().table();
  for (const auto host : hosts_to_ask(monitor, table, options))
    order(connection, monitor, options, host, kStopAskLimit);
}

Result<MeshOutcome> stop_ranks(ContextCore& core, Connection& connection, MeshMonitor& monitor,
                               const StopOptions& options) {
  if (auto fine = core.check_may_wait(); !fine) return fail(fine.error());
  monitor.stop_restarts(options.ranks);
  const auto grace = options.grace.value_or(monitor.options().grace);
  const auto end =
      Clock::now() + options.deadline.value_or(grace + core.config().duration(keys::stop_idle));
  const auto is_done = [&options](const RankTable& table) {
    return table.not_ended(options.ranks).empty();
  };
  std::map<std::uint64_t, std::string> problems;
  std::vector<std::uint64_t> to_ask;
  {
    const auto table = monitor.progress().table();
    to_ask = hosts_to_ask(monitor, table, options);
  }
  while (!to_ask.empty()) {
    std::vector<Connection::Answer> answers;
    const auto limit = std::min<std::chrono::milliseconds>(kStopAskLimit, left_until(end));
    for (const auto host : to_ask)
      answers.push_back(order(connection, monitor, options, host, limit));
    std::vector<std::uint64_t> failed;
    for (std::size_t i = 0; i < to_ask.size(); ++i) {
      const auto answer = answers[i].get();
      problems.erase(to_ask[i]);
      if (answer) continue;
      // Asking again makes no operator of us.
      if (answer.error().code() == ErrorCode::unauthorised)
        return fail(
            answer.error().within("stop: host " + monitor.mesh().hosts()[to_ask[i]].to_string()));
      failed.push_back(to_ask[i]);
      problems[to_ask[i]] = answer.error().to_string();
    }
    to_ask = std::move(failed);
    if (monitor.progress().wait(
            is_done, to_ask.empty() ? left_until(end) : std::min(kStopAgain, left_until(end))))
      break;
    if (Clock::now() >= end) break;
  }
  const auto table = monitor.progress().table();
  const auto left = table.not_ended(options.ranks);
  if (!left.empty()) {
    std::string detail = "mesh " + monitor.name() + ": " + std::to_string(left.size()) + " of " +
                         std::to_string(table.size()) +
                         " ranks are not ended: " + table.describe(left);
    for (const auto& [host, problem] : problems)
      detail +=
          "; " + monitor.mesh().hosts()[host].to_string() + " did not take the order: " + problem;
    return fail(Error(ErrorCode::stop_error, std::move(detail)).about(table.reports_of(left)));
  }
  // Exit reports, and handlers of ranks that have failed before the stop, are a matter of
  // milliseconds; without them it is an end all the same.
  if (table.is_ended())
    monitor.progress().wait_settled(
        std::min<std::chrono::milliseconds>(RankTable::kExitReportLimit, left_until(end)));
  return monitor.progress().outcome();
}

}  // namespace meshbus
