#include "agent/host/updates/change_list.h"

#include <algorithm>
#include <utility>

namespace meshbus::host {
namespace {

constexpr std::size_t kLineBytes = 200;
/// So much of a stream is searched for its last line.
constexpr std::size_t kSearchedBytes = 1024;
/// About the size of a table, with its vector offsets and length fields.
constexpr std::size_t kEntryBytes = 160;

std::string last_line_of(const LineTail& tail, std::size_t bytes) {
  auto text = tail.from(tail.end() - std::min<std::uint64_t>(tail.end(), kSearchedBytes));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const auto begin = text.rfind('\n');
  if (begin != Bytes::npos) text.remove_prefix(begin + 1);
  return std::string(text.substr(0, bytes));
}

/// Adds what there is to tell of the proc; returns about how many bytes that takes.
std::size_t add(const Proc& proc, wire::MeshStateT& state) {
  std::size_t bytes = sizeof(wire::RankState);
  state.ranks.push_back(proc.state.to_wire());
  if (is_in_trouble(proc)) {
    state.troubles.push_back(proc.trouble);
    bytes += sizeof(wire::RankTrouble);
    if (proc.stuck != nullptr) {
      state.stuck.push_back(std::make_unique<wire::StuckHandlerT>(*proc.stuck));
      bytes += kEntryBytes + proc.stuck->handler.size();
    }
  }
  if (!proc.has_ended() && proc.sample.seen.sampled_ns() != 0) {
    state.usage.push_back(proc.sample.seen);
    bytes += sizeof(wire::RankUsage);
  }
  if (const auto* report = proc.exit.report()) {
    auto exit_report = std::make_unique<wire::ExitReportT>(*report);
    exit_report->stderr_tail.clear();
    bytes += kEntryBytes + report->reason.size() + report->stopped_by.size() +
             report->stop_reason.size();
    state.exit_reports.push_back(std::move(exit_report));
    ++state.cut;
  }
  if (auto line = last_line_of(proc, kLineBytes); !line.empty()) {
    auto told = std::make_unique<wire::RankLineT>();
    told->rank = proc.rank();
    told->bytes.assign(line.begin(), line.end());
    bytes += 48 + line.size();
    state.lines.push_back(std::move(told));
  }
  return bytes;
}

}  // namespace

std::string last_line_of(const Proc& proc, std::size_t bytes) {
  const auto& first = proc.stamp.is_err_last ? proc.output.err : proc.output.out;
  const auto& second = proc.stamp.is_err_last ? proc.output.out : proc.output.err;
  auto line = last_line_of(first.tail, bytes);
  return line.empty() ? last_line_of(second.tail, bytes) : line;
}

wire::MeshListT make_change_list(const ProcTable::Meshes& meshes, const ChangeBook& book,
                                 const ChangeQuery& query, std::size_t bytes) {
  wire::MeshListT list;
  list.sequence = book.sequence();
  list.since = query.since;
  if (query.since != 0) list.forgotten = book.forgotten_after(query.since);
  std::size_t used = kEntryBytes;
  for (const auto& name : list.forgotten) used += name.size() + 16;
  for (auto entry = meshes.lower_bound(query.from); entry != meshes.end(); ++entry) {
    const Mesh& mesh = *entry->second;
    if (mesh.stamp.changed <= query.since) continue;
    auto state = make_mesh_head(mesh);
    used += size_of(state);
    const bool is_first = list.meshes.empty();
    auto proc =
        entry->first == query.from ? mesh.procs.lower_bound(query.from_rank) : mesh.procs.begin();
    for (; proc != mesh.procs.end() && (used < bytes || (is_first && state.ranks.empty()));
         ++proc) {
      if (proc->second->stamp.changed > query.since && mesh.has(proc->first))
        used += add(*proc->second, state);
    }
    list.more = proc != mesh.procs.end() || used >= bytes;
    list.meshes.push_back(std::make_unique<wire::MeshStateT>(std::move(state)));
    if (!list.more) continue;
    if (proc != mesh.procs.end()) {
      list.next = entry->first;
      list.next_rank = proc->first;
    } else if (++entry != meshes.end()) {
      list.next = entry->first;
    } else {
      list.more = false;
    }
    break;
  }
  return list;
}

}  // namespace meshbus::host
