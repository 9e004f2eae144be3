#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "common/wire/frame.h"
#include "tests/world/tcp_proxy.h"
#include "wire/frame_generated.h"

namespace meshbus::test {

/// A man in the middle of links without keys: reads ZMTP from both sides of a proxy, and of the
/// whole frames of a link that are numbered (spec 9.3) hands some on again, at once or behind later
/// ones, or swaps them with the next one. Everything else passes as it is.
class FrameMeddler {
 public:
  /// How many of a hundred frames are changed.
  struct Odds {
    unsigned again = 0;       ///< Come twice, one behind the other.
    unsigned late_again = 0;  ///< Come twice, the second time behind up to 20 later ones.
    unsigned swapped = 0;     ///< Change places with the next one (data lane only).
  };
  FrameMeddler(TcpProxy& proxy, Odds odds, std::uint64_t seed) : odds_(odds), random_(seed) {
    proxy.change([this](std::uint64_t connection, int side, std::string_view bytes) {
      return pass({connection, side}, bytes);
    });
  }

  /// From now on everything passes as it is.
  void stop() { is_on_ = false; }
  std::uint64_t doubled() const { return doubled_; }
  std::uint64_t swapped() const { return swapped_; }

 private:
  using Stream = std::pair<std::uint64_t, int>;
  struct Late {
    std::string frame;
    std::uint64_t frames_before;
  };
  struct State {
    std::size_t greeted = 0;
    std::string unread;
    /// Bytes of `unread` that are whole parts of a message that is not whole yet.
    std::size_t parts = 0;
    std::size_t first_part = 0;
    std::optional<std::string> held;
    std::deque<Late> late;
  };
  static constexpr std::size_t kGreeting = 64;

  std::string pass(const Stream& stream, std::string_view bytes) {
    State& state = streams_[stream];
    // Each side waits for parts of the other's greeting: it passes as it comes.
    const auto greeting = std::min(bytes.size(), kGreeting - state.greeted);
    state.greeted += greeting;
    std::string out(bytes.substr(0, greeting));
    state.unread.append(bytes.substr(greeting));
    while (auto message = next(state)) out += meddle(state, std::move(*message));
    return out;
  }
  /// The next whole message, or command, with the headers of its parts.
  static std::optional<std::string> next(State& state) {
    for (;;) {
      const std::string_view rest = std::string_view(state.unread).substr(state.parts);
      if (rest.size() < 2) return std::nullopt;
      const auto flags = static_cast<unsigned char>(rest[0]);
      const bool has_more = (flags & 1) != 0, is_long = (flags & 2) != 0,
                 is_command = (flags & 4) != 0;
      if (is_long && rest.size() < 9) return std::nullopt;
      std::uint64_t size = static_cast<unsigned char>(rest[1]);
      for (std::size_t i = 2; is_long && i < 9; ++i)
        size = size << 8 | static_cast<unsigned char>(rest[i]);
      const std::size_t header = is_long ? 9 : 2;
      if (rest.size() - header < size) return std::nullopt;
      if (is_command) {
        // Also between two parts of a message.
        std::string command(rest.substr(0, header + size));
        state.unread.erase(state.parts, command.size());
        return command;
      }
      if (state.parts == 0) state.first_part = header;
      state.parts += header + size;
      if (has_more) continue;
      std::string message = state.unread.substr(0, state.parts);
      state.unread.erase(0, std::exchange(state.parts, 0));
      return message;
    }
  }
  /// The lane of a link's frame that is numbered.
  static std::optional<wire::Lane> lane_of(const std::string& message, std::size_t at) {
    wire::FrameHeader header;
    wire::LinkHeader link;
    const bool is_command = (message[0] & 4) != 0;
    if (is_command || message.size() < at + sizeof header + sizeof link) return std::nullopt;
    std::memcpy(&header, message.data() + at, sizeof header);
    std::memcpy(&link, message.data() + at + sizeof header, sizeof link);
    if (header.magic() != kFrameMagic || (header.flags() & kFrameFlagLink) == 0 ||
        link.sequence() == 0)
      return std::nullopt;
    return header.lane();
  }
  std::string meddle(State& state, std::string message) {
    const auto lane = lane_of(message, state.first_part);
    std::string out;
    if (state.held && lane) {
      out = message + *std::exchange(state.held, std::nullopt);
      ++swapped_;
    } else if (is_on_ && !state.held && lane == wire::Lane::data && happens(odds_.swapped)) {
      state.held = std::move(message);
      return out;
    } else {
      out = message;
    }
    for (auto& late : state.late) {
      if (--late.frames_before == 0) out += late.frame;
    }
    while (!state.late.empty() && state.late.front().frames_before == 0) state.late.pop_front();
    if (!is_on_ || !lane) return out;
    if (happens(odds_.again)) {
      out += message;
      ++doubled_;
    } else if (happens(odds_.late_again)) {
      // Frames that came earlier are handed on earlier.
      const auto least = state.late.empty() ? 0 : state.late.back().frames_before;
      state.late.push_back({message, least + 1 + random_() % 20});
      ++doubled_;
    }
    return out;
  }
  bool happens(unsigned of_hundred) { return random_() % 100 < of_hundred; }

  Odds odds_;
  std::mt19937_64 random_;
  std::map<Stream, State> streams_;
  bool is_on_ = true;
  std::uint64_t doubled_ = 0;
  std::uint64_t swapped_ = 0;
};

}  // namespace meshbus::test
