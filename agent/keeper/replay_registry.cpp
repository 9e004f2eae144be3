#include "agent/keeper/replay_registry.h"

#include <fcntl.h>

#include <algorithm>
#include <vector>

namespace meshbus::keeper {

namespace {

// A copy with descriptors of its own for the pipes; nothing when there are not enough.
std::optional<Birth> copy_of(const Birth& birth) {
  Birth copy;
  copy.id = birth.id;
  copy.failure = birth.failure;
  copy.pid = birth.pid;
  copy.spawned_realtime_ns = birth.spawned_realtime_ns;
  copy.started_realtime_ns = birth.started_realtime_ns;
  copy.started_monotonic_ns = birth.started_monotonic_ns;
  const auto duplicate = [](const UniqueFd& from, UniqueFd& to) {
    if (from) to = UniqueFd(::fcntl(from.get(), F_DUPFD_CLOEXEC, 3));
    return !from || to;
  };
  if (!duplicate(birth.stdin_pipe, copy.stdin_pipe) ||
      !duplicate(birth.stdout_pipe, copy.stdout_pipe) ||
      !duplicate(birth.stderr_pipe, copy.stderr_pipe))
    return std::nullopt;
  return copy;
}

}  // namespace

bool ReplayRegistry::add(const Birth& birth) {
  auto copy = copy_of(birth);
  if (!copy) return false;
  // Born while a new agent is being told of the others: it is told of this one at once.
  records_.insert_or_assign(birth.id, Record{std::move(*copy), std::nullopt, false, false});
  return true;
}

void ReplayRegistry::on_exit(const Exit& exit) {
  if (const auto known = records_.find(exit.id); known != records_.end()) known->second.exit = exit;
}

void ReplayRegistry::on_gone(const Gone& gone) {
  const auto known = records_.find(gone.id);
  if (known == records_.end()) return;
  known->second.gone = true;
  known->second.birth.stdin_pipe.reset();
}

void ReplayRegistry::close_input(std::uint64_t id) {
  if (const auto known = records_.find(id); known != records_.end())
    known->second.birth.stdin_pipe.reset();
}

void ReplayRegistry::start_replay() {
  std::vector<std::uint64_t> ids;
  ids.reserve(records_.size());
  for (auto& [id, record] : records_) {
    record.waiting = true;
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  replay_.assign(ids.begin(), ids.end());
}

bool ReplayRegistry::is_waiting(std::uint64_t id) const {
  const auto known = records_.find(id);
  return known != records_.end() && known->second.waiting;
}

bool ReplayRegistry::pack_next(EventPacker& packer, const std::function<int(pid_t)>& find_pidfd) {
  const auto known = records_.find(replay_.front());
  if (known != records_.end()) {
    Record& record = known->second;
    auto birth = copy_of(record.birth);
    if (!birth) return false;
    birth->pidfd = UniqueFd(::fcntl(find_pidfd(record.birth.pid), F_DUPFD_CLOEXEC, 3));
    record.waiting = false;
    packer.add(std::move(*birth));
    if (record.exit) packer.add(*record.exit);
    if (record.gone) packer.add(Gone{known->first});
  }
  replay_.pop_front();
  return true;
}

}  // namespace meshbus::keeper
