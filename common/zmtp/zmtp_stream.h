#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/message_part.h"
#include "common/base/unique_fd.h"
#include "common/wire/frame.h"
#include "common/zmtp/mechanism.h"
#include "common/zmtp/zmtp_heartbeats.h"
#include "common/zmtp/zmtp_receiver.h"
#include "common/zmtp/zmtp_sender.h"

namespace meshbus {

/// One end of a connection that speaks ZMTP 3 (RFC 23 and 37) over a unix or tcp socket: its bytes
/// become messages, and messages bytes. It never waits and watches nothing: its holder says when to
/// read and to write on (StreamSocket, and the broker's StreamRouter).
/// Large because: it joins handshake, receiver, sender and heartbeats, and says how each stands.
class ZmtpStream {
 public:
  using Buffer = ZmtpReceiver::Buffer;
  enum class Next {
    /// Not before fill() has read more.
    none,
    /// The other end has proven whose key it has: accept() or refuse_key() goes on.
    asks,
    /// The handshake is over.
    opened,
    message,
  };
  /// What the other end may send before the handshake is over, greeting included.
  static constexpr std::size_t kHandshakeLimit = 8 * 1024;

  /// The descriptor does not block.
  ZmtpStream(UniqueFd fd, std::unique_ptr<Mechanism> mechanism, Buffer& buffer);
  ZmtpStream(ZmtpStream&&) noexcept;
  ~ZmtpStream();

  int descriptor() const noexcept { return fd_.get(); }
  /// Sends the greeting and the first command. False, with errno: the socket does not take them.
  bool greet();
  /// The handshake is over.
  bool is_open() const noexcept { return state_ == State::open; }
  /// Nothing more will come, and what had come has been handed out. Why, for people, with words
  /// about the other end: "closed it".
  bool is_ended() const noexcept { return state_ == State::ended; }
  const std::string& why_ended() const noexcept { return why_ended_; }
  /// It ended because the other end asks for another security mechanism.
  bool has_other_mechanism() const noexcept { return has_other_mechanism_; }
  /// The other end has sent something.
  bool has_heard() const noexcept { return has_heard_; }
  /// It ended because what came is not ZMTP 3 as it is spoken here.
  bool is_refused() const noexcept { return is_refused_; }
  /// Whether the handshake ever was over.
  bool was_open() const noexcept { return was_open_; }
  /// Knows whose key the other end has, and how its handshake failed.
  const Mechanism& mechanism() const noexcept { return *mechanism_; }

  /// Reads once, not much more than `most` bytes; call it when next() says `none`. The bytes read,
  /// 0 when nothing is there now, or never will be.
  std::size_t fill(std::size_t most = SIZE_MAX);
  /// Goes on with what was read. `message`: the parts of the next one, at most kMostParts. The
  /// vector is empty before.
  Next next(std::vector<MessagePart>& parts);
  /// After Next::asks: the other end may send messages, and the stream is open.
  void accept();
  /// After Next::asks: tells the other end that its key is not authorised. The stream has ended.
  void refuse_key();
  /// After Next::asks: tells the other end that there is no room for it now. The stream has ended.
  void turn_away();
  /// Ends it, because of what the other end did.
  void refuse(std::string why);
  /// Ends it, for a reason of the holder's.
  void close(std::string why) { end(std::move(why)); }
  /// A message has come in part.
  bool is_in_message() const noexcept {
    return is_open() && (receiver_.has_begun() || !parts_.empty());
  }
  /// What that message takes so far, and its part that is being received takes in all.
  std::size_t unfinished_bytes() const noexcept { return is_in_message() ? bytes_ : 0; }
  /// Messages that have come whole.
  std::uint64_t messages() const noexcept { return messages_; }

  /// Takes the parts of the frame and writes as much as goes; or takes nothing and returns false,
  /// while there is something left of an earlier one.
  bool send(Frame& frame);
  /// Takes them behind what is left.
  void send_behind(Frame& frame);
  /// Asks for a sign of life: ZmtpHeartbeats::ask().
  void ping(std::chrono::milliseconds time_to_live);
  /// ZmtpHeartbeats::time_to_live().
  std::chrono::milliseconds time_to_live() const noexcept { return heartbeats_.time_to_live(); }
  /// Writes what is left; false when the socket is full. When it cannot be written to, for whatever
  /// reason, what is left is forgotten and the connection ends: fill() will tell, after what had
  /// come.
  bool write_on();
  bool has_left_over() const noexcept { return !sender_.empty(); }
  /// The last call over tcp, when nothing is left over: tells the other end that nothing more comes
  /// and drops what it still sends. True once the other host has everything, or has hung up. Should
  /// the descriptor be closed before, one more message of the other end makes the kernel forget
  /// what has not arrived.
  bool has_arrived();
  /// Waits until there is room or the time is over; false then.
  bool wait_writable(std::chrono::steady_clock::time_point until) const;

 private:
  enum class State { greeting, handshake, asking, open, ended };
  bool take_greeting();
  /// Begins the next part, or goes on with it. Returns it once it is whole.
  std::optional<ZmtpReceiver::Part> take_part();
  bool begin_part();
  /// False when the size ends the connection.
  bool check_size(std::uint64_t size);
  void shake_hands(const ZmtpReceiver::Part& whole);
  /// Decrypts a part that has come whole. False: it ends the connection.
  bool decrypt(ZmtpReceiver::Part& whole);
  /// Sends the last command of a handshake, and ends it.
  void part_with(std::string command);
  void add(MessagePart body, std::uint8_t flags);
  void open();
  void end(std::string why);

  UniqueFd fd_;
  std::unique_ptr<Mechanism> mechanism_;
  ZmtpReceiver receiver_;
  State state_ = State::greeting;
  bool has_other_mechanism_ = false;
  bool has_heard_ = false;
  bool is_refused_ = false;
  bool was_open_ = false;
  std::string why_ended_;

  /// The parts so far of the message that is being received, and their bytes; before the connection
  /// is open, all bytes of its handshake.
  std::vector<MessagePart> parts_;
  std::size_t bytes_ = 0;
  std::uint64_t messages_ = 0;

  ZmtpSender sender_;
  ZmtpHeartbeats heartbeats_;
};

}  // namespace meshbus
