#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/message_part.h"
#include "common/loop/reactor.h"
#include "common/wire/frame.h"

namespace meshbus {

/// One connection to a broker, from its opening to its end: ZeroMQ messages (frames) in both
/// directions. It never connects again. Lives on the reactor's thread. Handlers may destroy it.
class BrokerSocket {
 public:
  /// How a handshake failed.
  enum class Failure {
    /// Our key is not taken.
    unauthorised,
    /// There are as many connections with our key as the broker lets one key have.
    no_room,
    /// One side has keys and the other does not.
    mechanism,
    /// The other side ended it without a word, or with one that means nothing to us.
    silent,
    /// The other side ended it before it said anything at all: a broker without room does.
    no_greeting,
  };
  struct Events {
    /// The handshake is over: frames may be sent.
    std::function<void()> on_open;
    std::function<void(Failure)> on_handshake_failed;
    /// There may be something to receive: takes a bounded share of it. True: it stopped early and
    /// is to be called again.
    std::function<bool()> on_readable;
    /// It takes frames again, after send() did not.
    std::function<void()> on_writable;
    /// It has ended, or could not be made; why, as far as that is known, is for people. on_readable
    /// was called for all that had come.
    std::function<void(const std::string& why)> on_ended;
  };
  /// For a connection with keys (CURVE, Z85).
  struct Keys {
    std::string public_key;
    std::string secret_key;
    std::string server_key;
  };
  struct Options {
    /// ZeroMQ spelling.
    std::string endpoint;
    /// Tcp only. Null: not encrypted.
    const Keys* keys = nullptr;
    /// Tcp only: the other end is to miss this one as soon as this one misses it.
    bool is_link = false;
  };
  /// Begins to connect (StreamSocket). Throws std::system_error when that cannot work, with why.
  static std::unique_ptr<BrokerSocket> open(Reactor& reactor, const Options& options,
                                            Events events);

  BrokerSocket() = default;
  virtual ~BrokerSocket() = default;
  BrokerSocket(const BrokerSocket&) = delete;
  BrokerSocket& operator=(const BrokerSocket&) = delete;

  /// The parts of the next message, at most kMostParts; false when no whole one has come yet. The
  /// vector is empty before.
  virtual bool receive(std::vector<MessagePart>& parts) = 0;
  /// Takes the parts of the frame, or nothing and returns false: later, when on_writable is called.
  virtual bool send(Frame& frame) = 0;
  /// Calls on_readable in the next turn, without new bytes.
  virtual void read_again() = 0;
  /// Destroying it afterwards lets what was taken leave, for so long. 0 at first.
  virtual void set_linger(std::chrono::milliseconds linger) = 0;
};

}  // namespace meshbus
