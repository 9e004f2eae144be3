#include "agent/host/stdio/output_relay.h"

#include <algorithm>
#include <memory>

namespace meshbus::host {

void OutputRelay::add(std::uint64_t rank, wire::Stream stream, Bytes bytes) {
  const auto end = bytes.rfind('\n');
  std::string& partial = partial_[{rank, stream}];
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

void OutputRelay::end_stream(std::uint64_t rank, wire::Stream stream) {
  const auto found = partial_.find({rank, stream});
  if (found == partial_.end()) return;
  if (!found->second.empty()) queue(rank, stream, found->second);
  partial_.erase(found);
}

void OutputRelay::end_rank(std::uint64_t rank) {
  end_stream(rank, wire::Stream::out);
  end_stream(rank, wire::Stream::err);
  items_.push_back({rank, wire::Stream::none, {}});
}

void OutputRelay::queue(std::uint64_t rank, wire::Stream stream, Bytes bytes) {
  while (!bytes.empty()) {
    auto size = std::min(bytes.size(), limits_.max_chunk);
    if (size < bytes.size()) {
      const auto line = bytes.rfind('\n', size - 1);
      if (line != Bytes::npos) size = line + 1;
    }
    queued_ += size;
    Item* last = items_.empty() ? nullptr : &items_.back();
    if (last != nullptr && last->rank == rank && last->stream == stream && last->data.size() + size <= limits_.max_chunk) {
      last->data.append(bytes.substr(0, size));
    } else {
      items_.push_back({rank, stream, std::string(bytes.substr(0, size))});
    }
    bytes.remove_prefix(size);
  }
}

std::optional<wire::OutputT> OutputRelay::next() {
  std::optional<wire::OutputT> message;
  std::size_t bytes = 0;
  while (!items_.empty()) {
    Item& item = items_.front();
    const auto size = item.data.size();
    // An empty window takes any chunk, so that a small window cannot stop everything.
    if (size > 0 && under_way_ > 0 && under_way_ + size > limits_.ahead) break;
    if (size > 0 && bytes > 0 && bytes + size > limits_.message) break;
    if (!message) message.emplace();
    if (item.stream == wire::Stream::none) {
      message->ended.push_back(item.rank);
    } else {
      auto chunk = std::make_unique<wire::OutputChunkT>();
      chunk->rank = item.rank;
      chunk->stream = item.stream;
      chunk->data.assign(item.data.begin(), item.data.end());
      message->chunks.push_back(std::move(chunk));
    }
    bytes += size;
    under_way_ += size;
    queued_ -= size;
    items_.pop_front();
  }
  return message;
}

void OutputRelay::taken(std::uint64_t bytes) {
  under_way_ -= static_cast<std::size_t>(std::min<std::uint64_t>(bytes, under_way_));
}

std::size_t OutputRelay::forget_under_way() {
  return std::exchange(under_way_, 0);
}

}  // namespace meshbus::host
