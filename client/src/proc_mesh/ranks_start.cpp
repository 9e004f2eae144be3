#include "client/src/proc_mesh/ranks_start.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "client/src/base/wire_reports.h"
#include "common/base/requester_text.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;

/// A host that cannot start a rank yet is asked again after so long.
constexpr std::chrono::milliseconds kAskAgain{50};

std::vector<std::uint32_t> numbers_of(const flatbuffers::Vector<std::uint32_t>* numbers) {
  return numbers == nullptr ? std::vector<std::uint32_t>()
                            : std::vector<std::uint32_t>(numbers->begin(), numbers->end());
}

/// How a host has bound those of its ranks that are in `block`. Errors: refused, for an older host.
Result<void> add_bindings(const wire::SpawnAccepted* accepted, const RankBlock& block,
                          const HostAddr& host, BindingMap& map) {
  if (accepted == nullptr || accepted->bindings() == nullptr || accepted->bindings()->size() == 0)
    return fail(ErrorCode::refused, "its release of meshbus cannot bind ranks");
  for (const auto* entry : *accepted->bindings()) {
    for (auto rank = std::max(entry->begin(), block.begin);
         rank < std::min(entry->end(), block.end); ++rank)
      map.ranks.push_back({.rank = rank,
                           .cpus = numbers_of(entry->cpus()),
                           .memory_nodes = numbers_of(entry->memory_nodes()),
                           .memory = static_cast<BindMemory>(entry->memory()),
                           .gpu = text_of(entry->gpu()),
                           .visible_devices = text_of(entry->visible_devices())});
  }
  if (accepted->notes() == nullptr) return {};
  for (const auto* note : *accepted->notes()) map.notes.push_back({host, note->str()});
  return {};
}

}  // namespace

Result<void> RanksStart::order() {
  if (stop_.stop_requested()) return given_up(nullptr);
  const auto& hosts = monitor_.mesh().hosts();
  std::map<std::uint64_t, Connection::Answer> answers;
  losses_ = connection_.losses();
  const auto limit = core_.config().duration(keys::spawn_idle);
  for (std::uint64_t host = first_.host; host < hosts.size(); ++host) {
    const auto block = monitor_.mesh().block_of(host).value_or(RankBlock{});
    if (block.size() == 0) continue;
    auto message = recipe_.make(connection_, monitor_, host, block);
    if (!message) return fail(message.error());
    if (spec().restart.on != RestartPolicy::On::never) sent_.emplace(host, *message);
    answers.emplace(
        host, connection_.ask(Destination::to_agent(hosts[host]), std::move(*message), limit));
  }
  Result<void> result;
  for (auto& [host, future] : answers) {
    auto answer = await(host, std::move(future));
    if (answer) {
      monitor_.progress().note_accepted(host);
      if (!spec().binding.is_wanted()) continue;
      const auto block = monitor_.mesh().block_of(host).value_or(RankBlock{});
      const auto bound =
          add_bindings(answer->body_as<wire::SpawnAccepted>(), block, hosts[host], bindings_);
      if (bound) continue;
      answer = fail(bound.error());
    }
    // Whether it was done is not known: what may run there is to be stopped too.
    if (answer.error().code() == ErrorCode::fate_unknown ||
        answer.error().code() == ErrorCode::timeout)
      monitor_.progress().note_accepted(host);
    if (result)
      result = fail(answer.error().within("mesh " + monitor_.name() + ": host " +
                                          hosts[host].to_string() + " did not start its ranks"));
  }
  return result;
}

Result<ControlMessage> RanksStart::await(std::uint64_t host, Connection::Answer answer) {
  auto got = answer.get();
  auto losses = losses_;
  const auto limit = core_.config().duration(keys::spawn_idle);
  const auto end = Clock::now() + limit;
  while (!got && Clock::now() < end && !stop_.stop_requested()) {
    const bool is_unknown = got.error().code() == ErrorCode::fate_unknown;
    if (!is_unknown && got.error().code() != ErrorCode::would_block) break;
    monitor_.progress().wait([](const RankTable&) { return false; }, kAskAgain);
    // Our own broker has gone, and another one is on its way: the order may have been lost with it.
    // An agent that has heard it leaves the ranks as they are.
    const auto known = std::exchange(losses, connection_.losses());
    if (is_unknown && known == losses) break;
    auto message = recipe_.make(connection_, monitor_, host,
                                monitor_.mesh().block_of(host).value_or(RankBlock{}));
    if (!message) return fail(message.error());
    got = connection_
              .ask(Destination::to_agent(monitor_.mesh().hosts()[host]), std::move(*message), limit)
              .get();
  }
  return got;
}

Result<void> RanksStart::wait_ready() {
  const auto is_decided = [this](const RankTable& table) {
    if (stop_.stop_requested()) return true;
    if (first_.rank == 0 && table.created() == table.size()) return true;
    if (first_.rank != 0 && undecided(table).empty()) return true;
    // A partial mesh waits for the others too.
    return is_partial() ? undecided(table).empty() : has_fallen(table);
  };
  const auto idle = core_.config().duration(keys::spawn_idle);
  const std::stop_callback wake(stop_, [this] { monitor_.progress().wake(); });
  const bool is_in_time = monitor_.progress().wait_while_changing(is_decided, idle);
  auto table = monitor_.progress().table();
  if (!is_partial() && has_fallen(table)) {
    // The words of the exit report are worth the time that they take: some ms, more on a busy
    // host.
    monitor_.progress().wait(
        [this](const RankTable& now) {
          return std::all_of(
              now.ranks().begin(), now.ranks().end(),
              [this](const RankReport& rank) { return !is_fallen(rank) || !rank.reason.empty(); });
        },
        RankTable::kExitReportLimit);
    return creation_error(monitor_.progress().table());
  }
  const auto left = undecided(table);
  if (stop_.stop_requested() && !left.empty()) return given_up(table.reports_of(left));
  if (is_in_time || is_partial()) return {};
  const Error error(
      ErrorCode::proc_spawn_error,
      "mesh " + monitor_.name() + ": " + std::to_string(left.size()) + " of " +
          std::to_string(table.size() - first_.rank) +
          " ranks are not ready, and nothing has moved for " + std::to_string(idle.count()) +
          " ms (key spawn.idle): " + describe_stuck(meant(table)) + ". " + table.describe(left));
  return fail(error.about(table.reports_of(left)));
}

tl::unexpected<Error> RanksStart::given_up(
    std::shared_ptr<const std::vector<RankReport>> ranks) const {
  const Error error(
      ErrorCode::proc_spawn_error,
      "mesh " + monitor_.name() + ": the spawn was given up before all ranks were ready");
  return fail(error.about(std::move(ranks)));
}

bool RanksStart::has_fallen(const RankTable& table) const {
  return std::any_of(table.ranks().begin(), table.ranks().end(),
                     [this](const RankReport& rank) { return is_fallen(rank); });
}

std::vector<std::uint64_t> RanksStart::undecided(const RankTable& table) const {
  std::vector<std::uint64_t> ranks;
  for (auto number = first_.rank; number < table.size(); ++number) {
    const auto& rank = table.rank(number);
    if (rank.state != ProcState::ready && !rank.is_terminal()) ranks.push_back(number);
  }
  return ranks;
}

std::vector<RankReport> RanksStart::meant(const RankTable& table) const {
  return {table.ranks().begin() + static_cast<std::ptrdiff_t>(first_.rank), table.ranks().end()};
}

std::optional<RankReport> RanksStart::first_failure(const RankTable& table) const {
  if (first_.rank == 0) return table.outcome().first_failure;
  const auto failures = table.failures();
  const auto found = std::find_if(failures.begin(), failures.end(), [this](const RankReport& rank) {
    return rank.rank >= first_.rank;
  });
  return found == failures.end() ? std::nullopt : std::optional(*found);
}

tl::unexpected<Error> RanksStart::creation_error(const RankTable& table) const {
  std::vector<std::uint64_t> fallen;
  for (const auto& rank : table.ranks()) {
    if (is_fallen(rank)) fallen.push_back(rank.rank);
  }
  std::string detail = "mesh " + monitor_.name() + ": ";
  if (fallen.size() > 1)
    detail += std::to_string(fallen.size()) + " of " + std::to_string(table.size() - first_.rank) +
              " ranks ended before all were ready: ";
  detail += table.describe(fallen);
  const auto first = first_failure(table);
  // What its host ended because its time was over did not end by itself, and those that are not
  // ready yet are about to be ended likewise.
  const bool is_late = first && first->code == ErrorCode::timeout;
  auto named = fallen;
  if (is_late) {
    detail += ". Not ready: " + describe_stuck(meant(table));
    const auto left = undecided(table);
    named.insert(named.end(), left.begin(), left.end());
  }
  const auto stopped = std::find_if(fallen.begin(), fallen.end(), [&table](std::uint64_t rank) {
    return !table.rank(rank).stop_reason.empty();
  });
  if (stopped != fallen.end()) {
    const auto& by = table.rank(*stopped).stopped_by;
    detail += ". Stopped" + (by.empty() ? "" : " by " + requester_text(by)) + ": " +
              table.rank(*stopped).stop_reason;
  }
  if (first && !first->stderr_tail.empty()) {
    detail += "\nlast lines of rank " + std::to_string(first->rank) + " on stderr:\n" +
              first->stderr_tail;
  }
  const Error error(is_late ? ErrorCode::proc_spawn_error : ErrorCode::proc_creation_error,
                    std::move(detail));
  return fail(error.about(table.reports_of(named)));
}

Result<void> RanksStart::undo(const std::string& reason) {
  const auto& hosts = monitor_.mesh().hosts();
  const auto table = monitor_.progress().table();
  std::map<std::uint64_t, Connection::Answer> answers;
  const auto not_started = [&](std::uint64_t host) {
    core_.run([&] { monitor_.lose_block(host, "the rank was not started"); });
  };
  for (std::uint64_t index = first_.host; index < hosts.size(); ++index) {
    const auto block = monitor_.mesh().block_of(index).value_or(RankBlock{});
    if (block.size() == 0) continue;
    if (!monitor_.progress().is_accepted(index)) {
      not_started(index);
    } else if (table.rank(block.begin).state == ProcState::unknown) {
      // Nothing was heard of it: the order may not have arrived.
      wire::GetStateT get;
      get.mesh = monitor_.name();
      answers.emplace(index, connection_.ask(Destination::to_agent(hosts[index]), std::move(get),
                                             std::chrono::seconds(5)));
    }
  }
  for (auto& [host, future] : answers) {
    const auto answer = future.get();
    if (!answer && answer.error().code() == ErrorCode::not_exist) not_started(host);
  }
  StopOptions stop{.reason = reason};
  const auto now = monitor_.progress().table();
  if (const auto first = first_failure(now)) stop.because = first->rank;
  if (first_.rank != 0) stop.ranks = {{first_.rank, now.size()}};
  const auto stopped = stop_ranks(core_, connection_, monitor_, stop);
  if (!stopped) return fail(stopped.error());
  return {};
}

}  // namespace meshbus
