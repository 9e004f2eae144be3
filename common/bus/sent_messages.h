#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "common/wire/frame.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Whether the receiver acknowledges this message (Taken in bus.fbs): it is a message, and its
/// sender wants to hear of it. A call has an answer instead, and the caller notices a lost answer:
/// by the end of its session, or by its deadline.
inline bool is_tracked(const wire::Envelope& envelope) noexcept {
  return envelope.lane() == wire::Lane::data && envelope.kind() == wire::Kind::message &&
         (envelope.flags() & kFlagNoReturn) == 0;
}

/// The messages of a sender that are not acknowledged yet, so that each one that is lost on its
/// way, with a broker or with its receiver, is reported once (fate_unknown, spec 9.3). Pure: it
/// holds no socket and no clock. Messages of one sender to one receiver arrive in order, so a
/// receiver acknowledges ranges of numbers; see Taken in bus.fbs.
class SentMessages {
 public:
  struct Receiver {
    std::uint64_t proc;
    std::uint64_t host;
    bool operator==(const Receiver&) const = default;
  };
  /// Called for each message that may have been taken or not, and nobody knows.
  using Tell = std::function<void(const wire::Envelope&)>;
  struct Totals {
    std::uint64_t sent = 0;      ///< Messages that were added.
    std::uint64_t taken = 0;     ///< Their receivers took them.
    std::uint64_t returned = 0;  ///< See remove().
    std::uint64_t unknown = 0;   ///< Reported with fate_unknown.
    std::uint64_t ignored = 0;   ///< Sent to a receiver that acknowledges nothing (old releases).
  };
  /// `limit`: how many messages may be outstanding.
  explicit SentMessages(std::size_t limit);

  bool has_room(std::size_t count = 1) const noexcept {
    return count_ <= limit_ && count <= limit_ - count_;
  }
  bool empty() const noexcept { return count_ == 0; }
  std::size_t count() const noexcept { return count_; }
  const Totals& totals() const noexcept { return totals_; }

  /// A message is sent; the numbers to one receiver rise.
  void add(const Receiver& to, const wire::Envelope& envelope) {
    Flow& flow = last_ != nullptr && last_receiver_ == to ? *last_ : flow_of(to);
    ++totals_.sent;
    if (flow.is_ignored || flow.entries.size() == 0) {
      add_first(flow, envelope);
    } else {
      flow.entries.push_back(Entry(envelope));
      ++count_;
    }
  }
  /// It came back, or a broker does not know what became of it. False when its end is known
  /// already: then it must not be reported again.
  bool remove(const Receiver& to, const wire::Envelope& envelope, bool is_unknown = false);
  /// The receivers of the message of that number that have not acknowledged it: more than one when
  /// it was cast.
  std::vector<Receiver> holders(std::uint64_t sequence);
  /// The receiver acknowledges. Runs that are known already do nothing.
  void on_taken(const Receiver& from, const std::vector<wire::TakenRun>& runs, const Tell& tell);
  /// No message with a number below `end` is on its way to that receiver any more.
  void settle(const Receiver& to, std::uint64_t end, const Tell& tell);
  /// The receiver never acknowledges anything.
  void ignore(const Receiver& to);

  /// To be called at even intervals: receivers that have acknowledged nothing for one whole
  /// interval though something is outstanding. They are asked about the numbers below that of
  /// on_asked().
  std::vector<Receiver> silent();
  /// All receivers with something outstanding.
  std::vector<Receiver> owing() const;
  void on_asked(const Receiver& receiver, std::uint64_t end);
  /// Questions are about numbers below `end` at most: messages of higher numbers are still here.
  void lower_asked(std::uint64_t end);
  /// The question is answered, or failed. Below which number it asked; 0 = nothing was asked.
  std::uint64_t take_asked(const Receiver& receiver);

 private:
  /// The part of an envelope that is kept.
  struct Entry {
    Entry() = default;
    explicit Entry(const wire::Envelope& envelope)
        : sequence(envelope.sequence()),
          port(envelope.port()),
          length_and_kind(envelope.length() << 8 | static_cast<std::uint32_t>(envelope.kind())) {}
    std::uint64_t sequence = 0;
    std::uint32_t port = 0;
    std::uint32_t length_and_kind = 0;  // a body has 2^20 bytes at most
  };
  /// Entries in the order of their numbers, in one piece of memory that is used again and again.
  class Ring {
   public:
    std::size_t size() const noexcept { return size_; }
    Entry& operator[](std::size_t index) noexcept {
      return slots_[(head_ + index) & (slots_.size() - 1)];
    }
    void push_back(const Entry& entry) {
      if (size_ == slots_.size()) grow();
      slots_[(head_ + size_++) & (slots_.size() - 1)] = entry;
    }
    void pop_front(std::size_t count) noexcept {
      head_ = (head_ + count) & (slots_.size() - 1);
      size_ -= count;
    }
    void erase(std::size_t index) noexcept;
    /// How many numbers there are below this one.
    std::size_t count_below(std::uint64_t sequence) noexcept;

   private:
    void grow();
    std::vector<Entry> slots_;  // a power of two
    std::size_t head_ = 0;
    std::size_t size_ = 0;
  };
  struct Flow {
    Ring entries;
    /// The run that the receiver is in: its first number, and how many of it were acknowledged.
    std::uint64_t run_first = 0;
    std::uint64_t run_count = 0;
    std::uint64_t settled = 0;
    std::uint64_t asked_end = 0;
    /// The first number that was remembered.
    std::uint64_t begin = 0;
    unsigned silent_intervals = 0;
    bool is_ignored = false;
  };
  struct Hash {
    std::size_t operator()(const Receiver& receiver) const noexcept {
      return static_cast<std::size_t>(receiver.proc ^ (receiver.host * 0x9e3779b97f4a7c15U));
    }
  };
  Flow& flow_of(const Receiver& receiver);
  void add_first(Flow& flow, const wire::Envelope& envelope);
  Flow* find(const Receiver& receiver);
  void tell_until(const Receiver& to, Flow& flow, std::uint64_t end, const Tell& tell);
  void forget_idle();

  std::size_t limit_;
  std::size_t count_ = 0;
  std::size_t most_flows_;
  std::unordered_map<Receiver, Flow, Hash> flows_;
  /// The latest flow that was added to: a burst mostly has one receiver.
  Receiver last_receiver_{0, 0};
  Flow* last_ = nullptr;
  Totals totals_;
};

}  // namespace meshbus
