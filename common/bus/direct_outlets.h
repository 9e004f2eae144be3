#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/message_part.h"
#include "common/wire/frame.h"
#include "common/wire/outbox.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// What waits to leave on the direct paths to procs of our host, and which procs we talk to enough
/// that a path would pay. Pure: it holds no socket. The session's lock guards it; what takes
/// messages out lives on the reactor's thread.
class DirectOutlets {
 public:
  /// A path is asked for only after so many messages and calls to the same proc.
  static constexpr std::uint32_t kEnough = 64;
  /// Larger bodies go through the broker.
  static constexpr std::size_t kMostBody = kBodyLimit;
  /// Procs with a path at a time.
  static constexpr std::size_t kMostPaths = 64;

  /// A message whose sender waits until all of it has left from where it lies, and how much has.
  struct Leaving {
    std::uint64_t sequence = 0;
    Frame frame;
    std::size_t sent = 0;
  };
  /// What waits for one proc.
  struct Outlet {
    /// `closed`: messages go through the broker. `holding`: they wait here until the receiver has
    /// those that went through the broker before. `open`: they leave by the path.
    enum class State : std::uint8_t { closed, holding, open };
    State state = State::closed;
    /// The path takes nothing now.
    bool is_blocked = false;
    /// The path is tried again after so many messages.
    std::uint32_t enough = kEnough;
    /// Messages that have left by the path since it was opened.
    std::uint64_t carried = 0;
    /// Messages since it was closed; see kEnough.
    std::uint32_t count_closed = 0;
    /// It leaves before all that waits.
    std::optional<Leaving> leaving;
    FrameWriter open{wire::Lane::data};
    std::deque<Frame> frames;
    /// Bytes of the first frame that have left.
    std::size_t first_sent = 0;
    std::size_t bytes = 0;
    std::size_t count = 0;

    bool is_used() const noexcept { return state != State::closed; }
    /// A message may leave by the path now, before any other.
    bool is_free() const noexcept {
      return state == State::open && !is_blocked && empty() && !leaving;
    }
    bool empty() const noexcept { return count == 0; }
    bool is_full() const noexcept { return open.bytes() >= kPackLimit; }
    void push(const wire::Envelope& envelope, Bytes body, MessagePart* detached);
    /// Its sender does not wait any more: what it sends is copied, and waits before all others.
    void keep_leaving();
  };

  void set_enabled(bool is_enabled) noexcept { is_enabled_ = is_enabled; }
  bool is_enabled() const noexcept { return is_enabled_; }
  /// The proc that this is of: there is no path to itself.
  void set_own(std::uint64_t proc) noexcept { own_ = proc; }
  /// Whether that message may go by a path: a message, call or answer by itself, of that size.
  static bool is_fit(const wire::Envelope& envelope, std::size_t bytes) noexcept;

  /// Where a data message to that proc of our host waits; null: in the session's outbox, for now.
  /// It counts as sent.
  Outlet* outlet_for(const wire::Envelope& envelope);
  /// The same without counting.
  Outlet* find_used(std::uint64_t proc) {
    Outlet* const outlet = is_enabled_ ? find(proc) : nullptr;
    return outlet != nullptr && outlet->is_used() ? outlet : nullptr;
  }
  /// Where that message still leaves from where it lies; null: it does not.
  Outlet* find_leaving(std::uint64_t proc, std::uint64_t sequence) {
    Outlet* const outlet = find_used(proc);
    const bool is_there = outlet != nullptr && outlet->leaving.has_value();
    return is_there && outlet->leaving->sequence == sequence ? outlet : nullptr;
  }
  /// The procs that a path would pay for, since the last call.
  std::vector<std::uint64_t> take_wanted();

  /// From now on what is sent to that proc waits here.
  void hold(std::uint64_t proc);
  /// What waits may leave, if all since hold() waits.
  void open(std::uint64_t proc);
  /// The path takes nothing now, or again.
  void set_blocked(std::uint64_t proc, bool is_blocked);
  /// The path did not do: it is tried again after twice as many messages as the last time, or as at
  /// first when it had carried many.
  void put_off(std::uint64_t proc, Outbox& outbox);
  /// From now on messages to that proc go through the broker, those that wait first. Reactor's
  /// thread.
  void close(std::uint64_t proc, Outbox& outbox);
  /// The proc has no path any more.
  void forget(std::uint64_t proc, Outbox& outbox);

  /// The frame that leaves next, the proc that it is for, and how much of it has left.
  struct Front {
    std::uint64_t proc = 0;
    Frame* frame = nullptr;
    std::size_t* sent = nullptr;
  };
  /// The next frame of an open outlet; nothing when there is none. pop() when it has left.
  /// Reactor's thread.
  std::optional<Front> front();
  void pop(std::uint64_t proc);
  /// What waits.
  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t count() const noexcept { return count_; }
  void push(Outlet& outlet, const wire::Envelope& envelope, Bytes body, MessagePart* detached);
  /// See Outlet::keep_leaving().
  void keep_leaving(Outlet& outlet);

 private:
  /// Null when that proc has no outlet.
  Outlet* find(std::uint64_t proc);
  void count_one(std::uint64_t proc);

  bool is_enabled_ = false;
  std::uint64_t own_ = 0;
  std::unordered_map<std::uint64_t, Outlet> outlets_;
  /// Messages to procs without a path.
  std::unordered_map<std::uint64_t, std::uint32_t> counts_;
  std::vector<std::uint64_t> wanted_;
  /// The latest one that was sent to: a burst mostly has one receiver.
  std::uint64_t last_proc_ = 0;
  Outlet* last_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t count_ = 0;
};

}  // namespace meshbus
