#include "agent/host/streams/log_reader.h"

#include <algorithm>
#include <memory>

#include "wire/logs_generated.h"

namespace meshbus::host {

void LogReader::add(const StreamId& stream, std::uint64_t offset, LogSource& source) {
  Cursor& cursor = cursors_[stream];
  cursor.offset = offset;
  if (!options_.follow) cursor.limit = source.end(stream);
  ++open_;
  queue(stream, cursor);
}

void LogReader::queue(const StreamId& stream, Cursor& cursor) {
  if (!std::exchange(cursor.is_queued, true)) ready_.push_back(stream);
}

void LogReader::on_output(const StreamId& stream) {
  const auto found = cursors_.find(stream);
  if (found != cursors_.end() && (!found->second.is_over || options_.follow))
    queue(stream, found->second);
}

std::optional<wire::LogT> LogReader::next(LogSource& source, bool is_last) {
  wire::LogT log;
  Message message{.sequence = next_sequence_, .cost = 0, .from = {}};
  while (!ready_.empty()) {
    const auto used = under_way_cost_ + message.cost;
    const auto room = std::min(options_.window - std::min(options_.window, used),
                               kMessageSize - std::min(kMessageSize, message.cost));
    if (room <= kChunkCost) break;
    const StreamId stream = ready_.front();
    ready_.pop_front();
    Cursor& cursor = cursors_.at(stream);
    cursor.is_queued = false;
    const auto end = std::min(cursor.limit, source.end(stream));
    if (cursor.is_over) {
      if (cursor.offset >= end) continue;
      // Another incarnation of that rank writes on.
      cursor.is_over = false;
      ++open_;
    }
    if (cursor.offset < end) {
      const auto most = std::min<std::uint64_t>(room - kChunkCost, end - cursor.offset);
      auto piece = source.read(stream, cursor.offset, static_cast<std::size_t>(most));
      // What is gone is gone, up to the end if need be: the next offset says so.
      message.from.push_back({stream, cursor.offset});
      if (piece.bytes.empty() || piece.offset >= end) {
        cursor.offset = end;
      } else {
        piece.bytes.resize(static_cast<std::size_t>(
            std::min<std::uint64_t>(piece.bytes.size(), end - piece.offset)));
        cursor.offset = piece.offset + piece.bytes.size();
        auto chunk = std::make_unique<wire::LogChunkT>();
        chunk->rank = stream.first;
        chunk->stream = stream.second;
        chunk->offset = piece.offset;
        chunk->data.assign(piece.bytes.begin(), piece.bytes.end());
        message.cost += kChunkCost + chunk->data.size();
        log.chunks.push_back(std::move(chunk));
      }
    }
    if (cursor.offset < end) {
      queue(stream, cursor);  // behind the others: all have their turn
      continue;
    }
    const bool is_ended = source.is_ended(stream) && cursor.offset >= source.end(stream);
    if (!is_ended && cursor.offset < cursor.limit) continue;
    log.ends.emplace_back(stream.first, cursor.offset, stream.second);
    if (message.from.empty() || message.from.back().stream != stream)
      message.from.push_back({stream, cursor.offset});
    message.cost += kChunkCost;
    cursor.is_over = true;
    --open_;
  }
  if (!done_sent_ && open_ == 0 && ready_.empty() && is_last) log.done = done_sent_ = true;
  if (log.chunks.empty() && log.ends.empty() && !log.done) return std::nullopt;
  log.stream = options_.stream;
  log.since = since_;
  log.sequence = next_sequence_++;
  message.cost = std::max(message.cost, kChunkCost);
  under_way_cost_ += message.cost;
  under_way_.push_back(std::move(message));
  return log;
}

void LogReader::taken(std::uint64_t sequence) {
  if (sequence >= next_sequence_) return;  // never sent
  while (!under_way_.empty() && under_way_.front().sequence <= sequence) {
    under_way_cost_ -= under_way_.front().cost;
    under_way_.pop_front();
  }
}

void LogReader::rewind() {
  if (under_way_.empty()) return;
  since_ = next_sequence_;
  for (auto message = under_way_.rbegin(); message != under_way_.rend(); ++message) {
    for (auto sent = message->from.rbegin(); sent != message->from.rend(); ++sent) {
      Cursor& cursor = cursors_.at(sent->stream);
      cursor.offset = sent->offset;
      if (std::exchange(cursor.is_over, false)) ++open_;
      queue(sent->stream, cursor);
    }
  }
  under_way_.clear();
  under_way_cost_ = 0;
  done_sent_ = false;
}

}  // namespace meshbus::host
