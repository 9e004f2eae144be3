#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshbus {

class CurveTraffic;

/// The handshake of one end of a ZMTP connection (RFC 37, "security mechanism"): commands of the
/// other end in, commands of this end out. Pure: it holds no socket and no clock.
class Mechanism {
 public:
  enum class State {
    /// More commands must come.
    handshake,
    /// A server that knows whose key the other end has: accept() or refuse() goes on.
    asking,
    open,
    failed,
  };
  enum class Failure {
    /// A command that is malformed, out of order or not of this mechanism.
    malformed,
    /// A box that does not open: the other end uses another key, or the bytes were changed.
    forged,
    /// The other end is well-formed and cannot talk to this one (its socket type).
    unfitting,
    /// The other end said ERROR, because it does not authorise our key.
    unauthorised,
    /// The other end said ERROR, because it has no room for this connection now.
    no_room,
    /// The other end said ERROR, for another reason.
    refused,
  };

  Mechanism() = default;
  virtual ~Mechanism() = default;
  Mechanism(const Mechanism&) = delete;
  Mechanism& operator=(const Mechanism&) = delete;

  /// As the greeting says it: "NULL", "CURVE".
  virtual std::string_view name() const noexcept = 0;
  virtual bool is_server() const noexcept { return false; }
  /// The first command of this end; empty when the other end begins.
  virtual std::string begin() = 0;
  /// Takes a command of the other end and returns the next one of this end, or nothing.
  virtual std::string on_command(std::string_view command) = 0;
  /// A server in state `asking`: the other end is authorised. Returns the next command.
  virtual std::string accept() { return {}; }
  /// A server in state `asking`: the other end is not authorised. Returns the last command.
  virtual std::string refuse() { return {}; }
  /// The same, and there is no room for it now. Returns the last command.
  virtual std::string turn_away() { return {}; }
  /// The proven key of the other end (Z85); empty without keys.
  virtual std::string peer_key() const { return {}; }
  /// Encrypts and decrypts messages once the state is `open`; null when they go as they are.
  virtual CurveTraffic* traffic() noexcept { return nullptr; }

  State state() const noexcept { return state_; }
  /// Valid in state `failed`, with words about the other end: "sent ...".
  Failure failure() const noexcept { return failure_; }
  const std::string& why_failed() const noexcept { return why_failed_; }

 protected:
  void set_state(State state) noexcept { state_ = state; }
  /// Ends the handshake. Returns nothing to send.
  std::string fail(Failure failure, std::string why);

 private:
  State state_ = State::handshake;
  Failure failure_ = Failure::malformed;
  std::string why_failed_;
};

/// The properties that READY and INITIATE carry: the type of this end's socket.
std::string socket_properties(std::string_view socket_type);
/// Whether properties are well-formed and name no type that a DEALER or ROUTER cannot talk to.
bool is_fitting_peer(std::string_view properties);

}  // namespace meshbus
