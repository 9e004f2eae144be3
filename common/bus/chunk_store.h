#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/bytes.h"
#include "meshbus/result.h"
#include "meshbus/shared_body.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Puts together bodies that come in chunks, and has those that come as shared memory. What senders
/// may have here is bounded: in bytes by what they have announced, and in time. Pure: the time is
/// the caller's.
class ChunkStore {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// A body whose next chunk, or message, does not come within this is forgotten: a sender that is
  /// alive answers for a chunk within half of it (ChunkSender::kChunkLimit).
  static constexpr std::chrono::seconds kIdle{60};
  /// Bodies that one sender may have here at a time, with `limit` bytes in all.
  static constexpr std::size_t kMostOfOne = 256;
  struct Sender {
    std::uint64_t proc;
    std::uint64_t host;
    std::uint64_t incarnation;
    auto operator<=>(const Sender&) const = default;
  };

  /// A body that has come. It counts as here until nobody has a share of it.
  struct Taken {
    SharedBody body;
    /// The body, when it came in chunks: may be moved from when nobody else reads it.
    std::string* text = nullptr;
  };

  /// `limit`: the largest body. All together may have twice as much.
  explicit ChunkStore(std::uint64_t limit) : limit_(limit) {}
  void set_limit(std::uint64_t limit) noexcept { limit_ = limit; }

  /// Errors: too_large, queue_full (no room for it now), malformed_message (not the next chunk).
  Result<void> add(const Sender& from, const wire::ChunkHeader& header, Bytes bytes, Time now);
  /// Room for a body that is to come as shared memory, or else in chunks. Errors: as add().
  Result<void> reserve(const Sender& from, std::uint64_t transfer, std::uint64_t total, Time now);
  /// Whether room was reserved, and nothing has come yet. Errors: malformed_message.
  Result<void> check_reserved(const Sender& from, std::uint64_t transfer,
                              std::uint64_t total) const;
  /// The body for which room was reserved: `mapped` is all of it.
  void put(const Sender& from, std::uint64_t transfer, std::shared_ptr<const void> mapped,
           Time now);
  /// The whole body. Errors: not_exist (it has not come, or was forgotten).
  Result<Taken> take(const Sender& from, const wire::ChunkHeader& header);
  /// Forgets those that are idle.
  void expire(Time now);
  /// Bodies that are not whole, or not taken.
  std::size_t count() const noexcept { return bodies_.size(); }
  /// Bytes that are announced or here, those that were taken and are still in use included.
  std::uint64_t bytes() const noexcept { return bytes_->load(); }

 private:
  struct Key {
    Sender from;
    std::uint64_t transfer;
    auto operator<=>(const Key&) const = default;
  };
  /// What counts as here, while it lives.
  class Room {
   public:
    Room(std::shared_ptr<std::atomic<std::uint64_t>> all, std::uint64_t bytes)
        : all_(std::move(all)), bytes_(bytes) {
      *all_ += bytes_;
    }
    ~Room() { *all_ -= bytes_; }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

   private:
    std::shared_ptr<std::atomic<std::uint64_t>> all_;
    std::uint64_t bytes_;
  };
  struct Body {
    std::unique_ptr<Room> room;
    std::uint64_t total = 0;
    Time last{};
    /// In chunks, once the first has come; or as shared memory.
    std::unique_ptr<std::string> text = nullptr;
    std::shared_ptr<const void> mapped = nullptr;
  };

  /// What an incarnation of the sender before began will never be whole.
  void forget_former(const Sender& from);
  Result<Body*> begin(const Key& key, std::uint64_t total);

  std::uint64_t limit_ = 0;
  std::map<Key, Body> bodies_;
  /// Shared with what was taken, which may outlive this, and be let go on any thread.
  std::shared_ptr<std::atomic<std::uint64_t>> bytes_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace meshbus
