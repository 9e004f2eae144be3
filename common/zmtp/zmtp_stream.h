#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "common/base/unique_fd.h"
#include "common/wire/frame.h"

namespace meshbus {

/// One end of a connection over a unix socket that speaks ZMTP 3.0 (RFC 23; security NULL): its
/// bytes become messages, and messages bytes. It never waits and watches nothing: whoever has it
/// says when to read and to write on (LocalSocket, and the broker's LocalRouter).
class ZmtpStream {
 public:
  /// Room for what is read, needed between fill() and the next() after it that says `none`, and so
  /// shared by all streams of a thread. As large as is worth copying: of a larger part the rest is
  /// read where it belongs.
  using Buffer = std::array<char, 16 * 1024>;
  enum class Next {
    /// Not before fill() has read more.
    none,
    /// The handshake is over.
    opened,
    message,
  };

  /// `socket_type`: ours, "DEALER" or "ROUTER". The descriptor does not block.
  ZmtpStream(UniqueFd fd, std::string_view socket_type, Buffer& buffer);

  int descriptor() const noexcept { return fd_.get(); }
  /// Says who we are. False, with errno: it cannot be said.
  bool greet();
  /// The handshake is over.
  bool is_open() const noexcept { return state_ == State::open; }
  /// Nothing more will come, and what had come has been handed out. Why, for people, without who
  /// the other side is: "closed it".
  bool is_ended() const noexcept { return state_ == State::ended; }
  const std::string& why_ended() const noexcept { return why_ended_; }
  /// It ended because the other side asks for keys or a password, which a unix socket does without.
  bool has_other_mechanism() const noexcept { return has_other_mechanism_; }
  /// It ended because what came is not ZMTP 3 as it is spoken here.
  bool is_refused() const noexcept { return is_refused_; }
  /// Whether the handshake ever was over.
  bool was_open() const noexcept { return was_open_; }

  /// Reads once, not much more than `most` bytes; call it when next() says `none`. The bytes read,
  /// 0 when nothing is there now, or never will be.
  std::size_t fill(std::size_t most = SIZE_MAX);
  /// Goes on with what was read. `message`: the parts of the next one, at most kMostParts. The
  /// vector is empty before.
  Next next(std::vector<zmq::message_t>& parts);

  /// Takes the parts of the frame and writes as much as goes; or takes nothing and returns false,
  /// while there is something left of an earlier one.
  bool send(Frame& frame);
  /// Takes them behind what is left.
  void send_behind(Frame& frame);
  /// Writes what is left; false when the socket is full. When it cannot be written to, for whatever
  /// reason, what is left is forgotten and the connection ends: fill() will tell, after what had
  /// come.
  bool write_on();
  bool has_left_over() const noexcept { return !leaving_.empty(); }
  /// Waits until there is room or the time is over; false then.
  bool wait_writable(std::chrono::steady_clock::time_point until) const;

 private:
  enum class State { greeting, ready, open, ended };
  /// A part that is being received: as much of it as has come.
  struct Incoming {
    zmq::message_t part;
    std::size_t filled = 0;
    bool has_more = false;
    bool is_command = false;
  };
  /// Of what is being sent.
  struct Piece {
    std::array<std::uint8_t, 9> header{};
    std::size_t header_size = 0;
    zmq::message_t body;
  };

  std::size_t unread() const noexcept { return filled_ - taken_; }
  /// Moves bytes from the buffer to partial_ until there are so many. False when there are fewer.
  bool collect(std::size_t size);
  bool take_greeting();
  /// Begins the next part, or goes on with it. True when one is whole.
  bool take_part();
  bool begin_part();
  bool write_pieces();
  void on_command(std::string_view command);
  void add_piece(zmq::message_t body, std::uint8_t flags);
  void end(std::string why);
  /// Ends it, and forgets what came.
  void refuse(std::string why);

  UniqueFd fd_;
  const std::string_view socket_type_;
  Buffer& buffer_;
  State state_ = State::greeting;
  bool has_other_mechanism_ = false;
  bool is_refused_ = false;
  bool was_open_ = false;
  std::string why_ended_;

  /// Of the buffer, what has come and was not taken lies in [taken_, filled_).
  std::size_t taken_ = 0, filled_ = 0;
  /// The beginning of a greeting or header whose rest has not come.
  std::string partial_;
  std::optional<Incoming> incoming_;
  /// Of the message that is being received: its parts so far, and their bytes.
  std::vector<zmq::message_t> parts_;
  std::size_t bytes_ = 0;

  std::vector<Piece> leaving_;
  /// The first piece that has not left whole, and how much of it has, its header included.
  std::size_t next_ = 0, left_ = 0;
  /// What a heartbeat of the other side is to be answered with, once there is room.
  std::optional<std::string> pong_;
};

}  // namespace meshbus
