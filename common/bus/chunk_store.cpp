#include "common/bus/chunk_store.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace meshbus {

Result<ChunkStore::Body*> ChunkStore::begin(const Key& key, std::uint64_t total) {
  if (total > limit_)
    return fail(ErrorCode::too_large, "a body of " + std::to_string(total) +
                                          " bytes; the receiver takes at most " +
                                          std::to_string(limit_) + " (setting message.limit)");
  if (total > 2 * limit_ - std::min(bytes_->load(), 2 * limit_))
    return fail(ErrorCode::queue_full,
                "the receiver has no room for a body of " + std::to_string(total) + " bytes: " +
                    std::to_string(bytes_->load()) + " are on their way to it or in use");
  const auto first = bodies_.lower_bound({key.from, 0});
  const auto end = bodies_.upper_bound({key.from, UINT64_MAX});
  std::uint64_t of_sender = 0;
  for (auto at = first; at != end; ++at) of_sender += at->second.total;
  if (static_cast<std::size_t>(std::distance(first, end)) >= kMostOfOne ||
      total > limit_ - std::min(of_sender, limit_))
    return fail(ErrorCode::queue_full,
                std::to_string(of_sender) +
                    " bytes of large bodies of this sender are on their way already");
  *bytes_ += total;
  Body body{.bytes = std::shared_ptr<std::string>(new std::string,
                                                  [total, all = bytes_](std::string* text) {
                                                    delete text;
                                                    *all -= total;
                                                  }),
            .total = total};
  try {
    body.bytes->reserve(total);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::queue_full,
                "the receiver has no memory for a body of " + std::to_string(total) + " bytes");
  }
  return &bodies_.emplace(key, std::move(body)).first->second;
}

Result<void> ChunkStore::add(const Sender& from, const wire::ChunkHeader& header, Bytes bytes,
                             Time now) {
  const Key key{from, header.transfer()};
  if (header.total() == 0) {
    bodies_.erase(key);
    return {};
  }
  const auto found = bodies_.find(key);
  Body* body = found == bodies_.end() ? nullptr : &found->second;
  if (body == nullptr) {
    if (header.offset() != 0)
      return fail(ErrorCode::malformed_message, "a chunk of a body that has not begun");
    auto begun = begin(key, header.total());
    if (!begun) return fail(begun.error());
    body = *begun;
  }
  const std::size_t here = body->bytes->size();
  if (header.total() != body->total || header.offset() != here || bytes.empty() ||
      bytes.size() > body->total - here) {
    bodies_.erase(key);
    return fail(ErrorCode::malformed_message, "a chunk that does not continue its body");
  }
  body->bytes->append(bytes);
  body->last = now;
  return {};
}

Result<std::shared_ptr<std::string>> ChunkStore::take(const Sender& from,
                                                      const wire::ChunkHeader& header) {
  auto body = bodies_.extract({from, header.transfer()});
  if (!body || body.mapped().bytes->size() != body.mapped().total ||
      header.total() != body.mapped().total)
    return fail(ErrorCode::not_exist,
                "the body of this message has not come, or was forgotten after " +
                    std::to_string(kIdle.count()) + " s");
  return std::move(body.mapped().bytes);
}

void ChunkStore::expire(Time now) {
  std::erase_if(bodies_, [&](const auto& entry) { return now - entry.second.last >= kIdle; });
}

}  // namespace meshbus
