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

/// Whether the receiver says that it took this message (Taken in bus.fbs): messages, unless their
/// sender does not want to hear of them. A call is answered itself; of an answer that is lost its
/// caller hears: by the end of its session, or by its deadline.
inline bool has_fate(const wire::Envelope& envelope) noexcept {
  return envelope.lane() == wire::Lane::data && envelope.kind() == wire::Kind::message &&
         (envelope.flags() & kFlagNoReturn) == 0;
}

/// What a sender remembers of the messages that their receivers have not taken yet, so that each
/// one that dies on its way, with a broker or with its receiver, is told to be of unknown fate,
/// once (spec 9.3). Pure: holds no socket and no clock. Messages of one sender to one receiver come
/// in order, so a receiver says what it took by numbers; see Taken in bus.fbs.
class SentFates {
 public:
  struct Receiver {
    std::uint64_t proc;
    std::uint64_t host;
    bool operator==(const Receiver&) const = default;
  };
  /// Called for each message whose fate nobody knows.
  using Tell = std::function<void(const wire::Envelope&)>;
  struct Totals {
    std::uint64_t sent = 0;      ///< Messages that were added.
    std::uint64_t taken = 0;     ///< Their receivers took them.
    std::uint64_t returned = 0;  ///< See remove().
    std::uint64_t unknown = 0;   ///< Told to be of unknown fate.
    std::uint64_t ignored = 0;   ///< Sent to a receiver that says nothing (an older release).
  };
  /// `limit`: how many messages may be outstanding.
  explicit SentFates(std::size_t limit);

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
  /// It came back, or a broker said that nobody knows. False when its end is known already: then
  /// nobody is to be told again.
  bool remove(const Receiver& to, const wire::Envelope& envelope, bool is_unknown = false);
  /// Who is to get the message of that number and has not said that it took it: more than one when
  /// it was cast.
  std::vector<Receiver> holders(std::uint64_t sequence);
  /// The receiver says what it took. Runs that are known already do nothing.
  void on_taken(const Receiver& from, const std::vector<wire::TakenRun>& runs, const Tell& tell);
  /// Nothing with a number below `end` is under way to that receiver any more.
  void settle(const Receiver& to, std::uint64_t end, const Tell& tell);
  /// That receiver never says anything.
  void ignore(const Receiver& to);

  /// To be called at even intervals: receivers that have said nothing for one whole interval and
  /// owe something. They are asked about what is below the number that on_asked() names.
  std::vector<Receiver> silent();
  /// All that owe something.
  std::vector<Receiver> owing() const;
  void on_asked(const Receiver& receiver, std::uint64_t end);
  /// What is below `end`, at most, is asked about: what has a higher number is still to leave.
  void lower_asked(std::uint64_t end);
  /// The question is answered, or failed: about what it was, 0 = nothing was asked.
  std::uint64_t take_asked(const Receiver& receiver);

 private:
  /// What is kept of an envelope.
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
    /// Of the run that the receiver is in: its first number, and how many it had taken of it when
    /// we last heard.
    std::uint64_t run_first = 0;
    std::uint64_t run_count = 0;
    std::uint64_t settled = 0;
    std::uint64_t asked_end = 0;
    /// Since when its numbers are remembered here.
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
  /// The one that was added to last: a burst mostly has one receiver.
  Receiver last_receiver_{0, 0};
  Flow* last_ = nullptr;
  Totals totals_;
};

/// What a receiver has taken from each source, and has not yet said. Pure.
class TakenCounts {
 public:
  struct Source {
    std::uint64_t proc;
    std::uint64_t host;
    std::uint64_t incarnation;
    bool operator==(const Source&) const = default;
  };
  struct Report {
    Source to;
    std::vector<wire::TakenRun> runs;
  };

  TakenCounts();
  /// A message (see has_fate) is taken. True when so many are unsaid that it is time to report.
  bool take(const wire::Envelope& envelope) {
    const Source source{envelope.source_proc(), envelope.source_host(),
                        envelope.source_incarnation()};
    State& state = last_ != nullptr && last_source_ == source ? *last_ : state_of(source);
    ++taken_;
    if (!state.is_open) {
      begin_run(state, envelope.sequence());
    } else {
      state.open.mutate_last(envelope.sequence() > state.open.last() ? envelope.sequence()
                                                                     : state.open.last());
      state.open.mutate_count(state.open.count() + 1);
    }
    if (state.unsaid == 0) unsaid_.push_back(source);
    return ++state.unsaid >= kMostUnsaid;
  }
  bool has_unsaid() const noexcept { return !unsaid_.empty(); }
  /// Everything that is unsaid; it is said with this.
  std::vector<Report> reports();
  /// What there is to say to one source.
  Report report(const Source& source);
  /// A new session: messages of the old one may be lost, so what comes now begins a new run.
  /// Everything is said again.
  void restart();
  /// Messages taken in all.
  std::uint64_t taken() const noexcept { return taken_; }

 private:
  /// A receiver that has taken so many of one source says so without waiting.
  static constexpr std::uint32_t kMostUnsaid = 8192;
  struct State {
    /// Those of earlier sessions, and the present one.
    std::vector<wire::TakenRun> closed;
    wire::TakenRun open;
    bool is_open = false;
    std::uint32_t unsaid = 0;
  };
  struct Hash {
    std::size_t operator()(const Source& source) const noexcept {
      return static_cast<std::size_t>(source.proc ^ (source.host * 0x9e3779b97f4a7c15U) ^
                                      (source.incarnation << 1));
    }
  };
  State& state_of(const Source& source);
  static void begin_run(State& state, std::uint64_t sequence);
  static std::vector<wire::TakenRun> runs_of(const State& state);

  std::unordered_map<Source, State, Hash> states_;
  std::size_t most_states_;
  Source last_source_{0, 0, 0};
  State* last_ = nullptr;
  std::vector<Source> unsaid_;
  std::uint64_t taken_ = 0;
};

}  // namespace meshbus
