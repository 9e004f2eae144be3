#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/broker_socket.h"
#include "common/unique_fd.h"

namespace meshbus {

/// A connection to a unix socket that speaks ZMTP 3.0 (RFC 23; security NULL, as a DEALER) on the reactor's own thread. libzmq would have a
/// thread of its own read and write, and wake this one: a message then costs three sleeps instead of one (docs/decisions/0023).
class LocalSocket : public BrokerSocket {
 public:
  /// Throws std::system_error when nobody listens there, or is not ready for more.
  LocalSocket(Reactor& reactor, const std::string& endpoint, Events events);
  /// Blocks while it lingers and the other side does not take what is left.
  ~LocalSocket() override;

  bool receive(std::vector<zmq::message_t>& parts) override;
  bool send(Frame& frame) override;
  void read_again() override { reactor_.call_again(this); }
  /// From now on; send() waits as well then.
  void set_linger(std::chrono::milliseconds linger) override;

 private:
  enum class State { greeting, ready, open, ended };
  /// A part that is being received: as much of it as has come.
  struct Incoming {
    zmq::message_t part;
    std::size_t filled = 0;
    bool has_more = false;
    bool is_command = false;
  };

  void watch(bool for_writing);
  bool on_event();
  /// Takes what the other side says before messages come. False: not all of it is there yet, or it is nothing that we can speak to.
  bool shake_hands();
  /// Reads once, into the part that is under way, or into the buffer. False when nothing is there, or never will be.
  bool fill();
  /// Begins the next part, or goes on with it, out of the buffer. True when one is whole.
  bool parse();
  bool begin_part();
  /// Writes what is left of a frame; false when the socket is full.
  bool write_on();
  /// While it lingers. False when it does not, or no longer.
  bool wait_writable();
  void end(std::string why);
  /// Ends it, and forgets what came.
  void refuse(const std::string& what);
  std::size_t buffered() const noexcept { return filled_ - taken_; }

  /// What handlers need while they run, as they may destroy this.
  struct Handlers {
    Events on;
    bool is_gone = false;
  };

  Reactor& reactor_;
  std::shared_ptr<Handlers> handlers_;
  UniqueFd fd_;
  State state_ = State::greeting;
  std::string why_ended_;
  Reactor::Time lingers_until_{};

  /// What has come and was not taken lies in [taken_, filled_).
  std::unique_ptr<char[]> buffer_;
  std::size_t taken_ = 0, filled_ = 0;
  std::optional<Incoming> incoming_;
  /// Of the message that is being received.
  std::vector<zmq::message_t> parts_;

  /// Of the frame that is being sent.
  struct Piece {
    std::array<std::uint8_t, 9> header{};
    std::size_t header_size = 0;
    zmq::message_t body;
  };
  std::vector<Piece> leaving_;
  /// The first piece that has not left whole, and how much of it has, its header included.
  std::size_t next_ = 0, left_ = 0;
  bool watches_writing_ = false;
};

}  // namespace meshbus
