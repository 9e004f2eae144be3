#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "common/bus/destination.h"
#include "common/bus/requests.h"
#include "common/bus/share_ticket.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"
#include "meshbus/shared_body.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Hands bodies in sealed memory to procs of our host, without a copy (decision 53): asks whether
/// there is room, puts the descriptor into the inbox of the receiver, and says that it is there.
/// Lives on the reactor's thread.
class ShareSender {
 public:
  /// From a question to its answer, and for how long a body is offered that finds no room.
  static constexpr std::chrono::seconds kLimit{30};
  /// The pause when our own queue to the broker is full, and when the receiver has no room.
  static constexpr std::chrono::milliseconds kRetry{5};
  static constexpr std::chrono::milliseconds kRoomRetry{50};

  /// What stands for the body in the message that follows, or why the receiver does not have it.
  using Done = std::function<void(const Result<wire::ChunkHeader>&)>;
  /// Whether somebody still waits for the body.
  using IsWanted = std::function<bool()>;

  ShareSender(Reactor& reactor, Requests& requests) : reactor_(reactor), requests_(requests) {}
  ~ShareSender();
  ShareSender(const ShareSender&) = delete;
  ShareSender& operator=(const ShareSender&) = delete;

  /// Whether a body that was refused so may go in chunks: the receiver knows no shared memory,
  /// cannot be reached by it, or is of another user.
  static bool may_go_in_chunks(ErrorCode code) noexcept;

  /// Calls `done` once, never from inside this call, unless the body is not wanted any more.
  /// `transfer`: an id of Requests. The body has a descriptor.
  void send(std::uint64_t transfer, const Destination& to, SharedBody body, IsWanted is_wanted,
            Done done);
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
    /// The ticket of the descriptor that was handed over; zero: nothing was.
    ShareTicket ticket = {};
    Error refusal = Requests::queue_is_full();     ///< Why it could not go on last.
    Reactor::Time give_up = Reactor::Time::max();  ///< Set while there is no room.
    Reactor::TimerId retry = 0;
  };

  /// Asks, or says that the descriptor is there.
  void go_on(std::uint64_t number);
  void on_answer(std::uint64_t number, const Result<std::string>& answer);
  void retry_after(std::uint64_t number, std::chrono::milliseconds pause);
  void finish(std::uint64_t number, const Result<wire::ChunkHeader>& result);
  /// Nobody wants the body any more.
  void drop(std::uint64_t number);

  Reactor& reactor_;
  Requests& requests_;
  /// A cast has the same id for each of its ranks, so they have numbers of their own here.
  std::unordered_map<std::uint64_t, Transfer> transfers_;
  std::uint64_t next_ = 1;
  /// Lets an answer see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
