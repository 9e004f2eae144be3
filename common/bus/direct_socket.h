#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/message_part.h"
#include "common/base/unique_fd.h"
#include "common/wire/frame.h"
#include "meshbus/result.h"

namespace meshbus {

/// One end of a pair of connected sockets between two processes of one host (SOCK_SEQPACKET). A
/// frame goes in packets of up to 96 KiB. Never waits. The other end may send anything: what is no
/// frame ends the connection.
class DirectSocket {
 public:
  enum class Outcome {
    done,
    /// There is no room, or nothing to read, now.
    not_now,
    /// The other end has gone, or has sent what is no frame.
    ended,
  };
  /// The largest frame, and the most that one packet has of it.
  static constexpr std::size_t kMostBytes = kBodyLimit + 2 * kPackLimit;
  static constexpr std::size_t kPacket = 96 * 1024 + 512;
  /// Parts of a frame: the packed one, and bodies that ride detached.
  static constexpr std::size_t kMostParts = 8;

  DirectSocket() = default;
  /// Takes over a descriptor that another process has sent. Errors: io_error (it is another kind of
  /// descriptor).
  static Result<DirectSocket> adopt(UniqueFd fd);
  /// Both ends. Errors: io_error.
  static Result<std::pair<DirectSocket, UniqueFd>> make_pair();

  int descriptor() const noexcept { return fd_->get(); }
  /// The descriptor for a thread that waits for room; it is open as long as somebody has it.
  std::shared_ptr<const UniqueFd> shared_descriptor() const noexcept { return fd_; }
  /// Sends a frame from its byte `sent` on, as far as there is room, and counts there. A frame of
  /// which not all was sent may be given up: the next one begins at 0.
  Outcome send(const Frame& frame, std::size_t& sent);
  /// The parts of the next frame.
  Outcome receive(std::vector<MessagePart>& parts);
  /// Bytes of packets that were received, and that wait to be.
  std::uint64_t received() const noexcept { return received_; }
  std::uint64_t waiting() const;
  /// The other end cannot send any more; what it has sent is still received.
  void end_reading();

 private:
  explicit DirectSocket(UniqueFd fd) : fd_(std::make_shared<UniqueFd>(std::move(fd))) {}

  /// Memory of the pool, and goes back there.
  struct Block {
    Block() = default;
    explicit Block(std::size_t bytes);
    Block(Block&& other) noexcept
        : data(std::exchange(other.data, nullptr)), size(std::exchange(other.size, 0)) {}
    Block& operator=(Block&& other) noexcept {
      std::swap(data, other.data);
      std::swap(size, other.size);
      return *this;
    }
    ~Block();
    char* data = nullptr;
    std::size_t size = 0;
  };
  /// Stands before the bytes of each packet.
  struct Prefix {
    std::uint32_t count = 0;
    /// The sizes of all parts of the frame.
    std::array<std::uint32_t, kMostParts> sizes{};
    /// Where in the frame this packet begins.
    std::uint32_t from = 0;
    std::size_t total() const noexcept;
    bool operator==(const Prefix&) const = default;
  };
  static_assert(sizeof(Prefix) == 40, "as it was when a frame was one packet");

  /// Reads a packet to its place in block_. `done`: its frame may be whole now.
  Outcome read_packet();
  /// Whether such a packet may come now.
  bool is_next(const Prefix& prefix, std::size_t size) const;

  std::shared_ptr<const UniqueFd> fd_ = std::make_shared<UniqueFd>();
  /// What has come of a frame, filled_ bytes, and which. A frame that is larger than the one before
  /// goes on in rest_, whose pages nobody has touched until then.
  Block block_;
  std::size_t filled_ = 0;
  Prefix frame_;
  std::unique_ptr<char[]> rest_;
  std::uint64_t received_ = 0;
};

}  // namespace meshbus
