#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "common/bus/chunk_pace.h"
#include "common/bus/destination.h"
#include "common/bus/requests.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"
#include "meshbus/shared_body.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Sends bodies that are larger than a message may be, in chunks that the receiver answers one by
/// one, so that what is under way stays bounded and other messages go in between (spec 9.2). Lives
/// on the reactor's thread.
class ChunkSender {
 public:
  /// From a chunk to its answer, at most: the limit of a delivery (spec 9.3).
  static constexpr std::chrono::seconds kChunkLimit{30};
  /// The pause when our own queue to the broker is full.
  static constexpr std::chrono::milliseconds kRetry{5};
  /// The pause when the receiver has no room for another body.
  static constexpr std::chrono::milliseconds kRoomRetry{50};

  /// What stands for the body in the message that follows, or why the body has not arrived.
  using Done = std::function<void(const Result<wire::ChunkHeader>&)>;
  /// Whether somebody still waits for the body.
  using IsWanted = std::function<bool()>;

  ChunkSender(Reactor& reactor, Requests& requests) : reactor_(reactor), requests_(requests) {}
  ~ChunkSender();
  ChunkSender(const ChunkSender&) = delete;
  ChunkSender& operator=(const ChunkSender&) = delete;

  /// Calls `done` once, never from inside this call, unless the body is not wanted any more. The
  /// first chunk goes alone: while the receiver has no room for the body, it is sent again.
  /// `transfer`: an id of Requests.
  void send(std::uint64_t transfer, const Destination& to, SharedBody body, IsWanted is_wanted,
            Done done);
  /// Tells the receiver that no message follows that body.
  void forget(std::uint64_t transfer, const Destination& to);
  /// Ends all that are under way.
  void fail_all(const Error& error);
  /// Bodies that are under way.
  std::size_t count() const noexcept { return transfers_.size(); }

 private:
  struct Transfer {
    std::uint64_t id;
    Destination to;
    SharedBody body;
    IsWanted is_wanted;
    Done done;
    std::size_t sent = 0;      ///< Bytes that left.
    std::size_t answered = 0;  ///< Chunks whose answer came.
    std::size_t under_way = 0;
    ChunkPace pace = {};
    Error refusal = Requests::queue_is_full();     ///< Why it could not go on last.
    Reactor::Time give_up = Reactor::Time::max();  ///< Set while a chunk finds no room.
    Reactor::TimerId retry = 0;
  };

  /// Sends as many chunks as may be under way.
  void go_on(std::uint64_t number);
  void on_answer(std::uint64_t number, Reactor::Time sent, const Result<std::string>& answer);
  void finish(std::uint64_t number, const Result<wire::ChunkHeader>& result);
  void retry_after(Transfer& transfer, std::uint64_t number, std::chrono::milliseconds pause);

  Reactor& reactor_;
  Requests& requests_;
  /// A cast has the same id for each of its ranks, so they have numbers of their own here.
  std::unordered_map<std::uint64_t, Transfer> transfers_;
  std::uint64_t next_ = 1;
  /// Lets an answer see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
