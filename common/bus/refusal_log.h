#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>

#include "meshbus/result.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Logs the requests that are refused: those of a sender whose role is too low once only, because
/// such a sender may ask as often as it likes.
class RefusalLog {
 public:
  void add(const wire::Envelope& from, const Error& error);
  /// Requests of senders whose role was too low.
  std::uint64_t unauthorised() const noexcept { return unauthorised_; }

 private:
  static constexpr std::size_t kMostSenders = 4096;
  std::unordered_set<std::uint64_t> senders_;
  std::uint64_t unauthorised_ = 0;
};

}  // namespace meshbus
