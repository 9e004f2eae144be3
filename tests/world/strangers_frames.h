#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "wire/control_generated.h"

namespace meshbus::test {

/// The parts of one message.
using Parts = std::vector<std::string>;
using Random = std::mt19937_64;

/// Makes what strangers send: valid frames of every kind that a peer or a link may send to a
/// broker, and such frames spoilt a little, so that they get deep before they are found out. Names
/// no address that anybody could be reached at.
class StrangerFrames {
 public:
  /// `proc`, `host`: keys of a proc and a host that exist.
  StrangerFrames(Random& random, std::uint64_t proc, std::uint64_t host)
      : random_(random), proc_(proc), host_(host) {}

  /// A Hello that is let in over a unix socket and with --insecure: of a new launcher, or a link.
  Parts hello(bool is_link);
  /// A Hello that says something else.
  Parts odd_hello();
  /// Messages of any kind, in any number.
  Parts frame(bool is_link);
  /// The same for that destination only, with large bodies.
  Parts flood(std::uint64_t proc);
  /// Bytes changed, cut off, added or moved; fields of headers and envelopes set to what hurts
  /// most; parts added or lost.
  Parts spoil(Parts parts);
  Parts garbage();

 private:
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }
  wire::BodyUnion body();
  std::string text();
  void spoil_envelope(std::string& part, bool is_link);

  Random& random_;
  std::uint64_t proc_;
  std::uint64_t host_;
};

}  // namespace meshbus::test
