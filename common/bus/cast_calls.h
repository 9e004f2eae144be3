#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/bus/cast.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// The calls to every rank of a view that are not answered by all of them yet. Each rank ends
/// exactly once: with an answer, an error, or the deadline. Lives on the reactor's thread.
class CastCalls {
 public:
  /// The answer of one rank, by its ordinal in the view.
  using Answer = std::function<void(std::uint64_t ordinal, Result<std::string>)>;
  using Ordinals = std::vector<std::uint64_t>;

  explicit CastCalls(Reactor& reactor) : reactor_(reactor) {}
  /// Requests that are open then are never answered.
  ~CastCalls();
  CastCalls(const CastCalls&) = delete;
  CastCalls& operator=(const CastCalls&) = delete;

  /// `id`: of no other one that is open. After `deadline` the ranks that are open fail with
  /// timeout.
  void add(std::uint64_t id, std::shared_ptr<const CastPlan> to, std::chrono::milliseconds deadline,
           Answer answer);
  /// The message that carries the next piece of it has that number; 0: it was not sent.
  void add_sequence(std::uint64_t id, std::uint64_t sequence);
  bool contains(std::uint64_t id) const { return calls_.contains(id); }
  /// The view that was called.
  const CastPlan& plan(std::uint64_t id) const { return *calls_.at(id).to; }

  /// It was not sent: nobody hears of it.
  void drop(std::uint64_t id);
  /// The end of one rank. Nothing when it has ended already.
  void finish(std::uint64_t id, std::uint64_t ordinal, Result<std::string> answer);
  /// The end of those ranks, from a later turn, because an answer must not run inside the call that
  /// asked.
  void fail_later(std::uint64_t id, Ordinals ordinals, Error error);
  /// For the ranks that are open.
  void fail(std::uint64_t id, const Error& error);
  /// The message of this envelope came back: for one rank, all ranks of one host, or all ranks of
  /// its piece.
  void fail_returned(const wire::Envelope& envelope, std::uint64_t own_host, const Error& error);
  /// The proc will not answer any more.
  void fail_to(std::uint64_t proc, const Error& error);
  /// Those that are open now: an answer may ask again.
  void fail_all(const Error& error);

 private:
  struct Call {
    std::shared_ptr<const CastPlan> to;
    Answer answer;
    std::vector<bool> is_open = {};
    std::uint64_t left = 0;
    /// One for each piece; 0 = it was not sent.
    std::vector<std::uint64_t> sequences = {};
    Reactor::TimerId timer = 0;
  };

  Reactor& reactor_;
  std::map<std::uint64_t, Call> calls_;
  std::unordered_map<std::uint64_t, std::uint64_t> id_of_sequence_;
  /// Lets posted work see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
