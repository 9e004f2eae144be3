#include "cli/watch/line_folder.h"

namespace meshbus::cli {
namespace {

/// What a line costs beside its bytes.
constexpr std::size_t kOverhead = 128;

}  // namespace

void LineFolder::add(std::uint64_t rank, Stream stream, std::string text, Time now) {
  const auto line = lines_.try_emplace({stream, std::move(text)}).first;
  const auto queue = queues_.try_emplace({rank, stream}).first;
  queue->second.push_back({line, next_number_++, now});
  ++line->second.waiting[rank];
  bytes_ += line->first.second.size() + kOverhead;
  if (queue->second.size() == 1) note_first(queue);
  // The oldest one goes, whatever comes before it.
  while (bytes_ > kMaxBytes) show(first_.begin()->second->second.front().line);
}

void LineFolder::note_first(Queues::iterator queue) {
  const Waiting& waiting = queue->second.front();
  first_.emplace(waiting.number, queue);
  waiting.line->second.first.insert(queue->first.first);
}

void LineFolder::flush(Time time) {
  while (!first_.empty() && first_.begin()->second->second.front().since < time) {
    auto chosen = first_.begin()->second->second.front().line;
    for (const auto& [number, queue] : first_) {
      const Waiting& waiting = queue->second.front();
      if (waiting.since >= time) break;
      const Ranks& ranks = waiting.line->second;
      if (ranks.first.size() != ranks.waiting.size()) continue;  // somebody says it later
      chosen = waiting.line;
      break;
    }
    show(chosen);
  }
}

void LineFolder::show(Lines::iterator line) {
  const auto& [stream, text] = line->first;
  const auto ranks = std::exchange(line->second.first, {});
  sink_(stream, to_rank_set({ranks.begin(), ranks.end()}), text);
  for (const auto rank : ranks) {
    const auto queue = queues_.find({rank, stream});
    first_.erase(queue->second.front().number);
    queue->second.pop_front();
    bytes_ -= text.size() + kOverhead;
    if (const auto waiting = line->second.waiting.find(rank); --waiting->second == 0)
      line->second.waiting.erase(waiting);
    if (queue->second.empty()) {
      queues_.erase(queue);
    } else {
      note_first(queue);
    }
  }
  if (line->second.waiting.empty()) lines_.erase(line);
}

}  // namespace meshbus::cli
