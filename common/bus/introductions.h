#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "common/bus/destination.h"

namespace meshbus {

class Postbox;
class Requests;

/// Tells our broker the addresses of the other hosts that this peer sends to: each host once, and
/// again when a new session begins or the broker has forgotten it. Lives on the reactor's thread.
class Introductions {
 public:
  Introductions(Requests& requests, Postbox& postbox) : requests_(requests), postbox_(postbox) {}

  /// Before the first message to that host.
  void introduce(const Destination& to);
  /// To the broker of a new session, before what waits for other hosts leaves.
  void repeat();
  /// The broker does not know that host any more: the next message introduces it again.
  void forget(std::uint64_t host);

 private:
  void send(std::uint64_t key, const std::string& host);

  Requests& requests_;
  Postbox& postbox_;
  std::unordered_map<std::uint64_t, std::string> hosts_;  // by key
};

}  // namespace meshbus
