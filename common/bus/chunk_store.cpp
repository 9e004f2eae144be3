#include "common/bus/chunk_store.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

#include "meshbus/large_text.h"

namespace meshbus {

void ChunkStore::forget_former(const Sender& from) {
  const auto first = bodies_.lower_bound({{from.proc, from.host, 0}, 0});
  const auto end = bodies_.upper_bound({{from.proc, from.host, UINT64_MAX}, UINT64_MAX});
  for (auto at = first; at != end;)
    at = at->first.from.incarnation == from.incarnation ? std::next(at) : bodies_.erase(at);
}

Result<ChunkStore::Body*> ChunkStore::begin(const Key& key, std::uint64_t total) {
  forget_former(key.from);
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
  return &bodies_.emplace(key, Body{.room = std::make_unique<Room>(bytes_, total), .total = total})
              .first->second;
}

Result<void> ChunkStore::reserve(const Sender& from, std::uint64_t transfer, std::uint64_t total,
                                 Time now) {
  const Key key{from, transfer};
  if (total == 0 || bodies_.contains(key))
    return fail(ErrorCode::malformed_message, "a body that has begun, or has no bytes");
  auto begun = begin(key, total);
  if (!begun) return fail(begun.error());
  (*begun)->last = now;
  return {};
}

Result<void> ChunkStore::check_reserved(const Sender& from, std::uint64_t transfer,
                                        std::uint64_t total) const {
  const auto found = bodies_.find({from, transfer});
  if (found != bodies_.end() && found->second.total == total && found->second.text == nullptr &&
      found->second.mapped == nullptr)
    return {};
  return fail(ErrorCode::malformed_message, "a body that no room was reserved for");
}

void ChunkStore::put(const Sender& from, std::uint64_t transfer, std::shared_ptr<const void> mapped,
                     Time now) {
  Body& body = bodies_.at({from, transfer});
  body.mapped = std::move(mapped);
  body.last = now;
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
  const std::size_t here = body->text == nullptr ? 0 : body->text->size();
  if (body->mapped != nullptr || header.total() != body->total || header.offset() != here ||
      bytes.empty() || bytes.size() > body->total - here) {
    bodies_.erase(key);
    return fail(ErrorCode::malformed_message, "a chunk that does not continue its body");
  }
  if (body->text == nullptr) {
    body->text = std::make_unique<std::string>();
    try {
      reserve_large(*body->text, body->total);
    } catch (const std::bad_alloc&) {
      bodies_.erase(key);
      return fail(ErrorCode::queue_full, "the receiver has no memory for a body of " +
                                             std::to_string(header.total()) + " bytes");
    }
  }
  body->text->append(bytes);
  body->last = now;
  return {};
}

Result<ChunkStore::Taken> ChunkStore::take(const Sender& from, const wire::ChunkHeader& header) {
  auto node = bodies_.extract({from, header.transfer()});
  const bool is_whole =
      node && header.total() == node.mapped().total &&
      (node.mapped().mapped != nullptr ||
       (node.mapped().text != nullptr && node.mapped().text->size() == header.total()));
  if (!is_whole)
    return fail(ErrorCode::not_exist,
                "the body of this message has not come, or was forgotten after " +
                    std::to_string(kIdle.count()) + " s");
  auto body = std::make_shared<Body>(std::move(node.mapped()));
  std::string* const text = body->text.get();
  const Bytes bytes = text != nullptr ? Bytes(*text) : bytes_of(body->mapped.get(), body->total);
  return Taken{SharedBody(bytes, std::move(body)), text};
}

void ChunkStore::expire(Time now) {
  std::erase_if(bodies_, [&](const auto& entry) { return now - entry.second.last >= kIdle; });
}

}  // namespace meshbus
