#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/wire/frame.h"
#include "meshbus/point.h"
#include "meshbus/proc.h"
#include "wire/frame_generated.h"

namespace meshbus::mesh_proc {

/// Messages that came together, as one piece of work for the handlers' thread: filled on the
/// reactor's thread, then handled, while the reactor's thread may look how far that is. The bodies
/// lie where they were received.
class MessageRun {
 public:
  static constexpr std::size_t kMost = 512;
  static constexpr std::size_t kNoFrame = SIZE_MAX;
  struct Message {
    Message(const ProcProgram::Handler* its_handler, const wire::Envelope& its_envelope,
            Bytes its_body, const Point* its_point, std::size_t its_frame)
        : handler(its_handler),
          envelope(copy_fields(its_envelope)),
          body(its_body),
          point(its_point),
          frame(its_frame) {}

    const ProcProgram::Handler* handler;  ///< Null: see add_waiting().
    wire::Envelope envelope;
    Bytes body;
    const Point* point;  ///< The place of this rank in a cast; may be null.
    std::size_t frame;   ///< For owner_of().
  };

  /// `frame` keeps the body; it may be null.
  void add(const ProcProgram::Handler& handler, const wire::Envelope& envelope, Bytes body,
           const Point* point, const std::shared_ptr<const void>& frame);
  /// Adds a message that is not for a handler, and only waits for its turn.
  void add_waiting(const wire::Envelope& envelope);
  /// What keeps the body of a message while it is handled; null: nothing does.
  const std::shared_ptr<const void>* owner_of(const Message& message) const noexcept {
    return message.frame == kNoFrame ? nullptr : &frames_[message.frame];
  }
  /// A place for a point that lives as long as this.
  const Point* keep(Point point) { return &points_.emplace_back(std::move(point)); }
  bool is_full() const noexcept { return messages_.size() >= kMost; }
  std::size_t size() const noexcept { return messages_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }
  const std::vector<Message>& messages() const noexcept { return messages_; }

  /// Handlers' thread, once: calls `handle` for each message that has a handler.
  template <typename Handle>
  void run(Handle handle) {
    for (std::size_t at = 0; at < messages_.size(); ++at) {
      taken_.store(at + 1, std::memory_order_release);
      if (messages_[at].handler != nullptr) handle(messages_[at]);
    }
    frames_.clear();
    is_over_.store(true, std::memory_order_release);
  }

  /// Reactor's thread: calls `taken` for each message that was taken since the last time. How many.
  template <typename Taken>
  std::size_t tell_taken(Taken taken) {
    const std::size_t end = taken_.load(std::memory_order_acquire);
    const std::size_t begin = std::exchange(told_, end);
    for (std::size_t at = begin; at < end; ++at) taken(messages_[at].envelope);
    return end - begin;
  }
  /// Reactor's thread: messages that wait behind the one that is handled; 0 before the first one.
  std::size_t left() const noexcept {
    const std::size_t taken = taken_.load(std::memory_order_acquire);
    return taken == 0 ? 0 : messages_.size() - taken;
  }
  bool is_over() const noexcept {
    return told_ == messages_.size() && is_over_.load(std::memory_order_acquire);
  }
  /// Empties it, to be filled again.
  void reset();

 private:
  void count(std::size_t body);

  std::vector<Message> messages_;
  std::vector<std::shared_ptr<const void>> frames_;
  std::deque<Point> points_;
  std::size_t bytes_ = 0;
  std::size_t told_ = 0;
  std::atomic<std::size_t> taken_{0};
  std::atomic<bool> is_over_{false};
};

/// The runs of one proc: the one that is filled, and those that are not told to be taken to their
/// end. Reactor's thread.
class MessageRuns {
 public:
  /// The run to add to.
  MessageRun& open();
  bool is_open() const noexcept { return open_ != nullptr; }
  std::size_t open_size() const noexcept { return open_ == nullptr ? 0 : open_->size(); }
  std::size_t open_bytes() const noexcept { return open_ == nullptr ? 0 : open_->bytes(); }
  /// The one that was filled, which is on its way now. Only when one is open.
  std::shared_ptr<MessageRun> close();
  /// The last one that was closed will not be handled.
  void drop_last();
  /// Messages that are in them and not told to be taken.
  std::size_t untaken() const noexcept { return untaken_ + open_size(); }
  /// Messages that wait behind the one that is handled, in the same run.
  std::size_t left() const noexcept { return runs_.empty() ? 0 : runs_.front()->left(); }
  /// Calls `taken` for each message that was taken since the last time, in order.
  template <typename Taken>
  void tell_taken(Taken taken) {
    while (!runs_.empty()) {
      untaken_ -= runs_.front()->tell_taken(taken);
      if (!runs_.front()->is_over()) return;
      recycle();
    }
  }

 private:
  void recycle();

  std::shared_ptr<MessageRun> open_;
  std::shared_ptr<MessageRun> spare_;
  std::deque<std::shared_ptr<MessageRun>> runs_;
  std::size_t untaken_ = 0;
};

}  // namespace meshbus::mesh_proc
