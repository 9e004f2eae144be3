#include "agent/host/stdio/output_relay.h"

#include <algorithm>
#include <memory>

#include "common/token.h"

namespace meshbus::host {

OutputRelay::OutputRelay(Limits limits) : limits_(limits), session_(random_u64() | 1) {}

void OutputRelay::add(std::uint64_t rank, wire::Stream stream, Bytes bytes) {
  const auto end = bytes.rfind('\n');
  Partial& partial = streams_[{rank, stream}];
  if (end != Bytes::npos) {
    // The first line may have begun in an earlier read.
    if (!partial.text.empty()) {
      const auto first = bytes.find('\n') + 1;
      partial.text.append(bytes.substr(0, first));
      queue(rank, stream, partial, std::exchange(partial.text, {}));
      if (first <= end) queue(rank, stream, partial, bytes.substr(first, end + 1 - first));
    } else {
      queue(rank, stream, partial, bytes.substr(0, end + 1));
    }
    bytes.remove_prefix(end + 1);
  }
  partial.text.append(bytes);
  if (partial.text.size() >= limits_.max_chunk) queue(rank, stream, partial, std::exchange(partial.text, {}));
}

void OutputRelay::end_stream(std::uint64_t rank, wire::Stream stream) {
  const auto found = streams_.find({rank, stream});
  if (found == streams_.end()) return;
  if (!found->second.text.empty()) queue(rank, stream, found->second, std::exchange(found->second.text, {}));
}

void OutputRelay::end_rank(std::uint64_t rank) {
  end_stream(rank, wire::Stream::out);
  end_stream(rank, wire::Stream::err);
  streams_.erase({rank, wire::Stream::out});
  streams_.erase({rank, wire::Stream::err});
  items_.push_back({.rank = rank, .stream = wire::Stream::none, .data = {}});
}

void OutputRelay::queue(std::uint64_t rank, wire::Stream stream, Partial& from, Bytes bytes) {
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
      items_.push_back({.rank = rank, .stream = stream, .data = std::string(bytes.substr(0, size)), .position = from.position});
    }
    from.position += size;
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
      chunk->position = item.position;
      message->chunks.push_back(std::move(chunk));
    }
    bytes += size;
    under_way_ += size;
    queued_ -= size;
    sent_.push_back(std::move(item));
    items_.pop_front();
  }
  if (message) message->session = session_;
  return message;
}

std::vector<OutputRelay::Taken> OutputRelay::taken(std::uint64_t bytes, std::uint64_t session) {
  std::vector<Taken> taken;
  if (session != 0 && session != session_) return taken;
  auto left = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, under_way_));
  under_way_ -= left;
  while (!sent_.empty()) {
    Item& item = sent_.front();
    const auto size = std::min(left, item.data.size() - item.taken);
    item.taken += size;
    left -= size;
    if (item.taken < item.data.size()) break;
    if (item.stream != wire::Stream::none) taken.push_back({item.rank, item.stream, item.position + item.data.size()});
    sent_.pop_front();
  }
  return taken;
}

std::size_t OutputRelay::send_again() {
  const auto lost = std::exchange(under_way_, 0);
  session_ = random_u64() | 1;
  for (; !sent_.empty(); sent_.pop_back()) {
    sent_.back().taken = 0;
    queued_ += sent_.back().data.size();
    items_.push_front(std::move(sent_.back()));
  }
  return lost;
}

}  // namespace meshbus::host
