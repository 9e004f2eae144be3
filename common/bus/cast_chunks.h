#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/bus/cast.h"
#include "common/bus/chunk_pace.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"
#include "meshbus/shared_body.h"
#include "wire/frame_generated.h"

namespace meshbus {

class CastSender;
class Requests;

/// Casts bodies that are larger than a cast may be: in chunks that every rank answers, so that a
/// body passes each link once, and what is under way stays bounded (spec 9.2). A rank that fails is
/// not waited for any more. Lives on the reactor's thread.
class CastChunks {
 public:
  struct Events {
    /// Whether somebody still waits for the body.
    std::function<bool()> is_wanted;
    /// This rank does not get the body; at most once for each.
    std::function<void(std::uint64_t ordinal, const Error&)> on_failed;
    /// What stands for the body in the message that follows; the error when no rank has the body.
    std::function<void(const Result<wire::ChunkHeader>&)> on_done;
  };

  CastChunks(Reactor& reactor, Requests& requests, CastSender& casts)
      : reactor_(reactor), requests_(requests), casts_(casts) {}
  ~CastChunks();
  CastChunks(const CastChunks&) = delete;
  CastChunks& operator=(const CastChunks&) = delete;

  /// Calls on_done once, never from inside this call, unless the body is not wanted any more. At
  /// least one rank. `id` is of Requests.
  void send(std::uint64_t id, std::shared_ptr<const CastPlan> to, SharedBody body, Events events);
  /// Ends all that are under way.
  void fail_all(const Error& error);
  /// Tells the ranks that no message follows that body.
  void forget(std::uint64_t id, const std::shared_ptr<const CastPlan>& to);
  /// Bodies that are under way.
  std::size_t count() const noexcept { return transfers_.size(); }

 private:
  struct Waiting {
    std::size_t ranks;
    Reactor::Time since;
  };
  struct Transfer {
    std::shared_ptr<const CastPlan> to;
    SharedBody body;
    Events events;
    std::vector<bool> has_failed;
    std::vector<std::size_t> answered;  ///< By each rank: bytes, in order.
    std::size_t failed = 0;
    std::size_t sent = 0;  ///< Bytes that left.
    /// Those that are waited for, by where their chunk begins.
    std::unordered_map<std::size_t, Waiting> waiting = {};
    ChunkPace pace = {};
    Reactor::Time give_up = Reactor::Time::max();  ///< Set while our own queue is full.
    Reactor::TimerId retry = 0;
  };

  void go_on(std::uint64_t id);
  void on_answer(std::uint64_t id, std::size_t offset, std::uint64_t ordinal,
                 const Result<std::string>& answer);
  /// Sends more, or ends, when the state allows that. `last`: why, when no rank is left.
  void check(std::uint64_t id, const Error& last);
  void give_up(std::uint64_t id, const Error& error);

  Reactor& reactor_;
  Requests& requests_;
  CastSender& casts_;
  std::unordered_map<std::uint64_t, Transfer> transfers_;
  /// Lets an answer see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
