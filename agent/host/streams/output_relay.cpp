#include "agent/host/streams/output_relay.h"

#include <algorithm>
#include <memory>

#include "wire/logs_generated.h"

namespace meshbus::host {

void OutputRelay::add(std::uint64_t rank, wire::Stream stream, Bytes bytes) {
  const auto end = bytes.rfind('\n');
  std::string& partial = streams_[{rank, stream}].partial;
  if (end != Bytes::npos) {
    // The first line may have begun in an earlier read.
    if (!partial.empty()) {
      const auto first = bytes.find('\n') + 1;
      partial.append(bytes.substr(0, first));
      queue(rank, stream, partial);
      partial.clear();
      if (first <= end) queue(rank, stream, bytes.substr(first, end + 1 - first));
    } else {
      queue(rank, stream, bytes.substr(0, end + 1));
    }
    bytes.remove_prefix(end + 1);
  }
  partial.append(bytes);
  if (partial.size() >= limits_.max_chunk) {
    queue(rank, stream, partial);
    partial.clear();
  }
}

void OutputRelay::restore(std::uint64_t rank, wire::Stream stream, std::uint64_t offset) {
  streams_[{rank, stream}] = Stream{.end = offset, .taken = offset, .partial = {}};
}

bool OutputRelay::has(std::uint64_t rank) const {
  return streams_.contains({rank, wire::Stream::out}) ||
         streams_.contains({rank, wire::Stream::err}) ||
         std::any_of(items_.begin(), items_.end(),
                     [rank](const Item& item) { return item.rank == rank; });
}

void OutputRelay::end_stream(std::uint64_t rank, wire::Stream stream) {
  const auto found = streams_.find({rank, stream});
  if (found == streams_.end()) return;
  if (!found->second.partial.empty()) queue(rank, stream, found->second.partial);
  found->second.partial = std::string();
}

void OutputRelay::end_rank(std::uint64_t rank) {
  end_stream(rank, wire::Stream::out);
  end_stream(rank, wire::Stream::err);
  items_.push_back({rank, wire::Stream::none, 0, {}});
}

void OutputRelay::queue(std::uint64_t rank, wire::Stream stream, Bytes bytes) {
  Stream& at = streams_[{rank, stream}];
  while (!bytes.empty()) {
    auto size = std::min(bytes.size(), limits_.max_chunk);
    if (size < bytes.size()) {
      const auto line = bytes.rfind('\n', size - 1);
      if (line != Bytes::npos) size = line + 1;
    }
    queued_ += size;
    Item* last = has_items() ? &items_.back() : nullptr;
    if (last != nullptr && last->rank == rank && last->stream == stream &&
        last->data.size() + size <= limits_.max_chunk) {
      last->data.append(bytes.substr(0, size));
    } else {
      items_.push_back({rank, stream, at.end, std::string(bytes.substr(0, size))});
    }
    at.end += size;
    bytes.remove_prefix(size);
  }
}

std::optional<wire::OutputT> OutputRelay::next() {
  std::optional<wire::OutputT> message;
  std::size_t bytes = 0;
  for (; has_items(); ++sent_) {
    const Item& item = items_[sent_];
    const auto size = item.data.size();
    // An empty window takes any chunk, so that a small window cannot stop everything.
    if (size > 0 && under_way() > 0 && under_way() + size > limits_.ahead) break;
    if (size > 0 && bytes > 0 && bytes + size > limits_.message) break;
    if (!message) message.emplace();
    if (item.stream == wire::Stream::none) {
      message->ended.push_back(item.rank);
      message->ends.emplace_back(item.rank, streams_[{item.rank, wire::Stream::out}].end,
                                 streams_[{item.rank, wire::Stream::err}].end);
    } else {
      auto chunk = std::make_unique<wire::OutputChunkT>();
      chunk->rank = item.rank;
      chunk->stream = item.stream;
      chunk->offset = item.offset;
      chunk->data.assign(item.data.begin(), item.data.end());
      message->chunks.push_back(std::move(chunk));
    }
    bytes += size;
    sent_bytes_ += size;
    queued_ -= size;
  }
  return message;
}

void OutputRelay::taken(std::uint64_t bytes) {
  credit_ += static_cast<std::size_t>(std::min<std::uint64_t>(bytes, under_way()));
  while (sent_ > 0) {
    const Item& item = items_.front();
    if (item.data.size() > credit_) break;
    credit_ -= item.data.size();
    if (item.stream == wire::Stream::none) {
      known_ends_.insert(item.rank);
    } else {
      streams_[{item.rank, item.stream}].taken = item.offset + item.data.size();
      progress_.push_back({item.rank, item.stream, item.offset + item.data.size()});
    }
    pop();
  }
}

void OutputRelay::taken(std::uint64_t rank, wire::Stream stream, std::uint64_t offset) {
  const auto found = streams_.find({rank, stream});
  if (found == streams_.end() || offset > found->second.end) return;  // we have never sent so much
  if (offset > found->second.taken) {
    found->second.taken = offset;
    progress_.push_back({rank, stream, offset});
  }
  pop_taken();
}

void OutputRelay::end_known(std::uint64_t rank) {
  const auto is_its_end = [&](const Item& item) {
    return item.rank == rank && item.stream == wire::Stream::none;
  };
  if (std::any_of(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(sent_), is_its_end))
    known_ends_.insert(rank);
  pop_taken();
}

bool OutputRelay::is_taken(const Item& item) const {
  if (item.stream == wire::Stream::none) return known_ends_.contains(item.rank);
  const auto found = streams_.find({item.rank, item.stream});
  return found != streams_.end() && item.offset + item.data.size() <= found->second.taken;
}

void OutputRelay::pop_taken() {
  // In the order in which they were sent: that is how they are taken.
  while (sent_ > 0 && is_taken(items_.front())) pop();
}

void OutputRelay::pop() {
  const Item& item = items_.front();
  if (item.stream == wire::Stream::none) {
    known_ends_.erase(item.rank);
    streams_.erase({item.rank, wire::Stream::out});
    streams_.erase({item.rank, wire::Stream::err});
  }
  sent_bytes_ -= item.data.size();
  credit_ = std::min(credit_, sent_bytes_);
  --sent_;
  items_.pop_front();
}

std::size_t OutputRelay::resend() {
  const auto again = under_way();
  queued_ += sent_bytes_;
  sent_ = sent_bytes_ = credit_ = 0;
  return again;
}

std::uint64_t OutputRelay::taken_of(std::uint64_t rank, wire::Stream stream) const {
  const auto found = streams_.find({rank, stream});
  return found == streams_.end() ? 0 : found->second.taken;
}

}  // namespace meshbus::host
