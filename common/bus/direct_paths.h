#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "common/base/bytes.h"
#include "common/bus/destination.h"
#include "common/bus/direct_path.h"
#include "common/bus/direct_socket.h"
#include "common/bus/postbox.h"
#include "common/bus/requests.h"
#include "common/bus/responder.h"
#include "common/bus/share_inbox.h"
#include "common/bus/share_ticket.h"
#include "common/loop/reactor.h"
#include "common/wire/frame.h"
#include "meshbus/result.h"
#include "wire/bus_generated.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// The direct paths of a Bus: two procs of one host that talk enough exchange the two ends of a
/// pair of sockets, and send messages, calls and answers to each other without the broker (decision
/// 73). The broker says which proc is at the other end, since a path is agreed upon through it.
///
/// Order: a sender uses one way at a time. Before it changes to the path, it asks the receiver
/// through the broker, and sends on once that is answered: what went through the broker has been
/// handed out then. It may change back at any time, because a receiver hands out all that the path
/// has brought before each message of that sender from the broker. Lives on the reactor's thread.
/// Large because: both sides of the agreement meet here; one path is DirectPath, what waits to
/// leave DirectOutlets.
class DirectPaths {
 public:
  /// The other end tells its inbox within this, or there is no path.
  static constexpr std::chrono::milliseconds kLimit{1000};
  /// It has what came before within this, or the path is not used now. Messages wait meanwhile, and
  /// would wait for the same in the broker.
  static constexpr std::chrono::milliseconds kAskLimit{10'000};
  /// A path that nobody has used for one to two of these is closed.
  static constexpr std::chrono::seconds kIdle{30};

  /// Hands out a message, as if it came from the broker. `frame` as Session's on_data.
  using Deliver =
      std::function<void(const FrameReader::Message&, const std::shared_ptr<const void>& frame)>;

  /// Bytes that were handed out and wait for the program.
  using Backlog = std::function<std::size_t()>;

  DirectPaths(Reactor& reactor, Postbox& postbox, Requests& requests, Responder& responder,
              ShareInbox& inbox, Backlog backlog, Deliver deliver);
  ~DirectPaths();
  DirectPaths(const DirectPaths&) = delete;
  DirectPaths& operator=(const DirectPaths&) = delete;

  /// Whether this side uses paths at all. Without, nobody is asked, and others that ask are
  /// refused.
  void set_wanted(bool is_wanted);
  /// The broker says so (DirectRule); until then paths are not allowed.
  void set_allowed(bool is_allowed);
  /// A call with flag `direct`; it is answered.
  void on_call(const wire::Envelope& from, const wire::CallHeader& header, Bytes body);
  /// A message of that proc of our host has come through the broker: what its path has brought is
  /// handed out.
  void receive_from(std::uint64_t proc);
  /// Sends what waits, and asks for paths that would pay. True when something has left.
  bool flush();
  /// What became of a message that was to leave at once.
  struct SentNow {
    bool has_left = false;
    /// It goes by the path that has this socket, once there is room.
    std::shared_ptr<const UniqueFd> full = nullptr;
    /// Some of it has left; for go_on() and keep().
    std::uint64_t begun = 0;
  };
  /// Sends a message at once, without a copy of its body, behind what waits for the same path.
  /// Nothing has happened when it has neither left nor begun to.
  SentNow send_now(const Destination& to, std::uint32_t port, Bytes body);
  /// Goes on with a message that has begun to leave, and whose body is still there.
  SentNow go_on(std::uint64_t proc, std::uint64_t begun);
  /// Copies what is left of it: nobody waits any more.
  void keep(std::uint64_t proc, std::uint64_t begun);
  /// The broker answers a Watch of ours. False when it was none.
  bool on_gone(std::uint64_t request);
  /// See Session::hold_data.
  void hold_data(bool is_held);
  /// Hands out what has come. All goes through the broker again.
  void on_session_lost();
  /// A proc of our host has ended.
  void forget(std::uint64_t proc);
  bool empty() const noexcept { return paths_.empty(); }
  std::size_t count() const noexcept { return paths_.size(); }
  std::size_t inbox_bytes() const noexcept;

 private:
  using PathPtr = std::shared_ptr<DirectPath>;

  DirectPath::Events path_events(Backlog backlog, Deliver deliver);
  PathPtr find(std::uint64_t proc) const;
  /// A path to that proc would pay.
  void begin(std::uint64_t proc);
  /// It has told us where its inbox is.
  void offer(std::uint64_t proc, const std::string& inbox);
  PathPtr add(std::uint64_t proc, DirectSocket socket, const ShareTicket& ticket);
  /// Messages to the proc wait until it has answered that it has all that came before.
  void ask(const PathPtr& path);
  void on_asked(const PathPtr& path, bool is_well);
  /// A call to port 0 of the proc.
  void call(std::uint64_t proc, const ShareTicket& ticket, std::chrono::milliseconds limit,
            std::function<void(Result<std::string>)> answer);
  /// Errors: io_error, malformed_message.
  Result<std::string> answer_to(const wire::Envelope& from, Bytes body);
  Result<std::string> answer_to_question(const wire::Envelope& from);
  Result<void> accept(const wire::Envelope& from, const ShareTicket& ticket);
  void bind(DirectPath& path, const wire::Envelope& from);
  /// Sends a frame that waits for that proc. False when it does not go now.
  bool send_to(std::uint64_t proc, const Frame& frame, std::size_t& sent);
  void count(const Frame& frame);
  /// Sends with `send`, which is told how, by that path, and says what came of it.
  SentNow send_by(const PathPtr& path,
                  const std::function<Postbox::Direct(const Postbox::SendFrame&)>& send);
  /// Nothing comes by it any more, and what waits for it goes through the broker.
  void end(const PathPtr& path);
  void end_all();
  /// Has the broker tell us when the proc ends, or may not be connected any more.
  void watch(std::uint64_t proc);
  void apply();
  void report_later();
  /// Closes paths that are idle, from time to time.
  void watch_idle();

  Reactor& reactor_;
  Postbox& postbox_;
  Requests& requests_;
  Responder& responder_;
  ShareInbox& inbox_;
  const DirectPath::Events events_;
  std::unordered_map<std::uint64_t, PathPtr> paths_;
  /// Procs that we have asked for their inbox; or whether all that came before has arrived.
  std::unordered_set<std::uint64_t> begun_;
  std::unordered_set<std::uint64_t> asked_;
  /// Procs that were told our inbox, and until when they may offer a path.
  std::unordered_map<std::uint64_t, Reactor::Time> expected_;
  /// Procs that have or had a path, and the requests by which the broker tells of their end.
  std::unordered_map<std::uint64_t, std::uint64_t> watches_;
  bool is_wanted_ = false;
  bool is_allowed_ = false;
  bool is_held_ = false;
  /// What has left by paths since the session began.
  wire::DirectTrafficT traffic_;
  Reactor::TimerId report_timer_ = 0;
  Reactor::TimerId idle_timer_ = 0;
  /// Lets answers see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
