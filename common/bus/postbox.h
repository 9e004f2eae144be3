#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_set>
#include <vector>

#include "common/base/message_part.h"
#include "common/bus/direct_outlets.h"
#include "common/bus/sent_messages.h"
#include "common/bus/session.h"
#include "common/wire/outbox.h"
#include "wire/frame_generated.h"

namespace meshbus {

struct CastPlan;

/// Numbers the messages of a Bus and puts them into the outbox of its session; remembers those
/// whose delivery is tracked. Lives on the reactor's thread, but for pack() and load(), which any
/// thread may call; the session's lock guards what they share (decision 30).
class Postbox {
 public:
  /// Messages on their way to all receivers together, 16 bytes each, before no more are taken.
  static constexpr std::size_t kMostOutstanding = 1024 * 1024;
  /// What waits to leave or to be acknowledged.
  struct Load {
    std::size_t bytes = 0;        ///< Given to us and not yet to the socket.
    std::size_t outstanding = 0;  ///< Messages that are not acknowledged.
    std::size_t queued = 0;       ///< Messages given to us and not yet to the socket.
  };
  /// What may wait to leave.
  struct Most {
    std::size_t bytes;
    std::size_t queued = SIZE_MAX;
  };
  /// What became of a message that was to be packed.
  struct Packed {
    // 16 bits wide, so that the whole fits a register without a hole.
    enum class Outcome : std::uint16_t {
      packed,
      /// It does not fit now; see Load.
      no_room,
      /// It has to be sent by post(): its host is not known to our broker, a session begins, or the
      /// session is not shared.
      not_now,
    } outcome;
    /// Nothing was waiting before it, so nobody is about to flush.
    bool is_first = false;
    /// A pack is full with it.
    bool is_full = false;
  };
  struct Counts {
    SentMessages::Totals sent;
    std::uint64_t outstanding = 0;  ///< Sent and not heard of.
    std::uint64_t no_return = 0;    ///< Sent with the flag no_return.
  };

  explicit Postbox(Session& session) : session_(session) {}

  /// The largest body of a message, call, answer or cast. Above kBodyLimit it travels in chunks.
  /// Any thread.
  std::size_t body_limit() const noexcept { return body_limit_; }
  void set_body_limit(std::uint64_t bytes) noexcept {
    body_limit_ = static_cast<std::size_t>(bytes);
  }

  /// A number that is larger than those of every earlier process with our name, so that an answer
  /// to that process is not taken for one to us. It comes from the clock, 256 ns a number: below
  /// 2^53, which JSON keeps exactly, until 2043.
  static std::uint64_t first_number();

  bool is_up() const noexcept { return session_.is_up(); }
  /// Whether `from` was sent from that host; 0 is our own.
  bool is_of_host(const wire::Envelope& from, std::uint64_t host) const noexcept {
    return from.source_host() == (host == 0 ? own_host_ : host);
  }
  std::uint64_t own_host() const noexcept { return own_host_; }
  /// How a receiver is remembered: our own host is 0.
  SentMessages::Receiver receiver_of(std::uint64_t proc, std::uint64_t host) const noexcept {
    return {proc, host == own_host_ ? 0 : host};
  }

  /// Numbers and queues a message; the number, or 0 when the queue is full. `detached`: the part
  /// that the body is, moved from; null: the body is copied.
  std::uint64_t post(wire::Envelope&& envelope, Bytes body, MessagePart* detached = nullptr);
  /// The same for one piece of a cast: each of its ranks is a receiver. `part` has the whole body,
  /// of which `length` bytes are the sender's.
  std::uint64_t post_cast(const CastPlan& plan, std::size_t piece, wire::Envelope envelope,
                          MessagePart& part, std::size_t length);
  /// post() of a message on any thread, to a host that is known to the broker. It leaves with the
  /// next flush, which the caller has to see to. Only when no more than `most` wait then.
  Packed pack(std::uint64_t proc, std::uint64_t host, std::uint32_t port, Bytes body,
              MessagePart* detached, const Most& most);
  /// Sends a frame from its byte `sent` on, and counts there. True: all has left.
  using SendFrame = std::function<bool(const Frame&, std::size_t& sent)>;
  struct Direct {
    /// `none`: there is no path for it. `behind`: something waits for the path. `refused`: nothing
    /// of it has left. `begun`: some of it has; the body has to stay until the rest has left, too,
    /// or is kept (DirectOutlets::Leaving).
    enum class Outcome { sent, none, behind, refused, begun };
    Outcome outcome = Outcome::none;
    std::uint64_t sequence = 0;
  };
  /// Sends a message by the direct path to that proc at once, without a copy of its body. Reactor's
  /// thread.
  Direct send_direct(std::uint64_t proc, std::uint64_t host, std::uint32_t port, Bytes body,
                     const SendFrame& send);
  /// Whether pack() may be used: not while a new session puts what waits in order.
  void set_packable(bool is_packable);
  /// Whether our broker knows that host, so that pack() may be used.
  void set_known(std::uint64_t host, bool is_known);

  /// A session begins on `own_host` (0: not known): takes out what waits, and pack() says not_now
  /// until put_back().
  Outbox take_queued(std::uint64_t own_host);
  /// Queues that again; what does not fit any more is the result.
  std::vector<wire::Envelope> put_back(Outbox queued);

  /// A tracked message came back, or a broker does not know what became of it. False when its end
  /// is known already: then it must not be reported again.
  bool forget(std::uint64_t proc, std::uint64_t host, const wire::Envelope& envelope,
              bool is_unknown = false);
  /// Runs `use(sent, next)` with the tracked messages and the number of the next message; it must
  /// not call back into this class.
  template <typename Use>
  auto with_sent(Use use) const {
    const auto lock = session_.lock();
    return use(sent_, next_);
  }
  template <typename Use>
  auto with_sent(Use use) {
    const auto lock = session_.lock();
    return use(sent_, next_);
  }
  /// The same with what waits for direct paths, and the outbox of the session.
  template <typename Use>
  auto with_direct(Use use) {
    const auto lock = session_.lock();
    return use(direct_, session_.outbox());
  }
  Load load() const;
  Counts counts() const;

 private:
  /// Writes its number and length into the envelope.
  std::uint64_t post_locked(wire::Envelope& envelope, Bytes body, MessagePart* detached);
  /// The outlet of the direct path that the message leaves by; null: it goes through the broker,
  /// and what waits in an outlet goes before it.
  DirectOutlets::Outlet* outlet_for(const wire::Envelope& envelope, std::size_t bytes);

  Session& session_;
  std::atomic<std::size_t> body_limit_ = kBodyLimit;
  std::uint64_t own_host_ = 0;  // written with the lock held
  // Guarded by the session's lock:
  std::uint64_t next_ = first_number();
  SentMessages sent_{kMostOutstanding};
  std::uint64_t no_return_ = 0;
  bool is_packable_ = false;
  std::unordered_set<std::uint64_t> known_hosts_;
  DirectOutlets direct_;
};

}  // namespace meshbus
