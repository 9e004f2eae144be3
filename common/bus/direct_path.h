#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "common/bus/data_inbox.h"
#include "common/bus/direct_pace.h"
#include "common/bus/direct_socket.h"
#include "common/bus/share_ticket.h"
#include "common/loop/reactor.h"
#include "common/wire/frame.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// One direct path: the socket to one proc, what it has brought, and whether it takes more. Lives
/// on the reactor's thread. Handlers may let go of it.
class DirectPath : public std::enable_shared_from_this<DirectPath> {
 public:
  /// A path that takes nothing for so long is left: the broker's credit paces a sender whose
  /// receiver is slow.
  static constexpr std::chrono::milliseconds kBlocked{200};

  /// A receiver that waits with reading (DirectPace) looks again after this.
  static constexpr std::chrono::milliseconds kPause{1};

  struct Events {
    /// Bytes that were handed out and wait for the program.
    std::function<std::size_t()> backlog;
    /// A message has come; its source is what the broker says of the other end.
    std::function<void(const FrameReader::Message&, const std::shared_ptr<const void>& frame)>
        on_message;
    /// It may take more, after send() did not.
    std::function<void(DirectPath&)> on_room;
    /// It has taken nothing for kBlocked.
    std::function<void(DirectPath&)> on_blocked;
    /// The other end has gone, or has sent what is no frame. All before that was handed out.
    std::function<void(DirectPath&)> on_ended;
  };

  DirectPath(Reactor& reactor, std::uint64_t proc, DirectSocket socket, const ShareTicket& ticket,
             const Events& events);
  ~DirectPath();
  DirectPath(const DirectPath&) = delete;
  DirectPath& operator=(const DirectPath&) = delete;

  /// The key of the proc at the other end, and what both ends call the path.
  std::uint64_t proc() const noexcept { return proc_; }
  const ShareTicket& ticket() const noexcept { return ticket_; }
  /// The broker says of the other end what this envelope does: what the path brings is handed out
  /// from now on.
  void bind(const wire::Envelope& source, bool is_held);
  bool is_bound() const noexcept { return is_bound_; }

  /// Sends a frame from its byte `sent` on, as DirectSocket; on_room follows when there was not
  /// enough room.
  DirectSocket::Outcome send(const Frame& frame, std::size_t& sent);
  /// The same for a caller that waits itself for room in this descriptor.
  DirectSocket::Outcome try_send(const Frame& frame, std::size_t& sent);
  std::shared_ptr<const UniqueFd> shared_descriptor() const noexcept {
    return socket_.shared_descriptor();
  }
  /// Hands out all that has come until now, whether it is held or not.
  void receive_all();
  /// The other end can send no more; hands out all that has come, and lets go of the socket.
  void end();
  /// While held, what comes stays in the socket.
  void hold(bool is_held);
  std::size_t inbox_bytes() const noexcept { return inbox_.bytes(); }
  /// Whether something has gone by it since the last call.
  bool take_used() noexcept { return std::exchange(is_used_, false); }

 private:
  /// As Reactor::SocketHandler.
  bool on_event();
  void on_writable();
  /// Whether the program has enough to do for now.
  bool must_wait();
  void watch(bool for_writing);
  void watch_blocked();
  void forget();
  /// Reads frames into the inbox: all that there are, or a bounded share.
  DirectSocket::Outcome read(bool all);
  DataInbox::Outcome hand_out(bool all);

  Reactor& reactor_;
  const std::uint64_t proc_;
  const ShareTicket ticket_;
  const Events& events_;
  DirectSocket socket_;
  DataInbox inbox_;
  wire::Envelope source_;
  bool is_bound_ = false;
  bool is_used_ = true;
  /// It takes nothing now.
  bool is_full_ = false;
  /// Runs since it was full; `has_moved_`: it has taken something since.
  Reactor::TimerId blocked_ = 0;
  bool has_moved_ = false;
  DirectPace pace_;
  Reactor::TimerId pause_ = 0;
};

}  // namespace meshbus
