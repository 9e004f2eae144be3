#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace meshbus {

/// Why a message was dropped without a report to anybody (spec 9.1).
enum class Drop : std::uint8_t {
  no_return,   ///< It could not be delivered, and its sender did not want it back.
  not_needed,  ///< An answer or notice of the broker itself whose receiver is gone, or whose queue
               ///< is full.
  false_source,     ///< A link claimed a source that is not of its host.
  old_incarnation,  ///< It came from an incarnation of another host's broker that is over.
};
inline constexpr std::size_t kDropReasons = 4;

/// What became of every message that a broker took from a peer or link (`received`) or made itself
/// (`originated`). At any time received + originated = delivered + handled + returned +
/// fate_unknown + all dropped + what is held in queues; see Broker::held().
/// Large because: each member counts another thing.
struct Counters {
  std::uint64_t received = 0;
  std::uint64_t received_bytes = 0;  ///< Their bytes, envelopes included.
  std::uint64_t direct = 0;          ///< Went past this broker by direct paths, as peers report.
  std::uint64_t direct_bytes = 0;    ///< Their bytes, envelopes included.
  std::uint64_t originated = 0;
  std::uint64_t delivered =
      0;  ///< Handed to the socket of the receiver, or taken by the broker of its host.
  std::uint64_t handled = 0;       ///< Was for the broker itself.
  std::uint64_t returned = 0;      ///< Could not be delivered; an Undeliverable was originated.
  std::uint64_t fate_unknown = 0;  ///< Sent to a peer that has ended, and may have been taken; an
                                   ///< Undeliverable was originated.
  std::array<std::uint64_t, kDropReasons> dropped{};
  std::uint64_t malformed_frames = 0;
  std::uint64_t ignored_frames =
      0;  ///< Frames from connections that have not registered, except their Hello.
  std::uint64_t refused_hellos = 0;
  std::uint64_t refused_keys = 0;  ///< Connections whose key is not authorised.
  std::uint64_t refused_handshakes =
      0;  ///< Connections without keys, with another one for us, or that left in their handshake.
  std::uint64_t refused_messages =
      0;  ///< Messages, calls and introductions that the sender's role or rate does not allow.
  std::uint64_t replayed_frames = 0;   ///< Frames of links sent again after a connection broke.
  std::uint64_t duplicate_frames = 0;  ///< Frames of links that came again and were dropped.

  void drop(Drop reason) noexcept { ++dropped[static_cast<std::size_t>(reason)]; }
  std::uint64_t all_dropped() const noexcept;
  /// One line for the log.
  std::string to_string() const;
};

}  // namespace meshbus
