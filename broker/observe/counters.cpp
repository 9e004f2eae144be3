#include "broker/observe/counters.h"

#include <numeric>

namespace meshbus {

std::uint64_t Counters::all_dropped() const noexcept {
  return std::accumulate(dropped.begin(), dropped.end(), std::uint64_t{0});
}

std::string Counters::to_string() const {
  const auto number = [](const char* name, std::uint64_t value) {
    return std::string(name) + "=" + std::to_string(value) + " ";
  };
  return number("received", received) + number("originated", originated) +
         number("delivered", delivered) + number("handled", handled) +
         number("returned", returned) + number("fate_unknown", fate_unknown) +
         number("dropped.no_return", dropped[0]) + number("dropped.not_needed", dropped[1]) +
         number("dropped.false_source", dropped[2]) +
         number("dropped.old_incarnation", dropped[3]) +
         number("malformed_frames", malformed_frames) + number("ignored_frames", ignored_frames) +
         number("replayed_frames", replayed_frames) + number("duplicate_frames", duplicate_frames) +
         number("refused_keys", refused_keys) + number("refused_handshakes", refused_handshakes) +
         number("refused_messages", refused_messages) +
         "refused_hellos=" + std::to_string(refused_hellos);
}

}  // namespace meshbus
