#pragma once

#include <sys/types.h>

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
/// frame is one packet: it goes whole or not at all. Never waits. The other end may send anything:
/// what is no frame ends the connection.
class DirectSocket {
 public:
  enum class Outcome {
    done,
    /// There is no room, or nothing to read, now.
    not_now,
    /// The other end has gone, or has sent what is no frame.
    ended,
  };
  /// The largest frame: its parts and what describes them.
  static constexpr std::size_t kMostBytes = 200 * 1024;

  DirectSocket() = default;
  /// Takes over a descriptor that another process has sent. Errors: io_error (it is another kind of
  /// descriptor).
  static Result<DirectSocket> adopt(UniqueFd fd);
  /// Both ends. Errors: io_error.
  static Result<std::pair<DirectSocket, UniqueFd>> make_pair();

  int descriptor() const noexcept { return fd_->get(); }
  /// The descriptor for a thread that waits for room; it is open as long as somebody has it.
  std::shared_ptr<const UniqueFd> shared_descriptor() const noexcept { return fd_; }
  Outcome send(const Frame& frame);
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
  /// Reads a packet into block_, which then is no larger than such a packet needs. As recv(2).
  ssize_t read_packet();

  std::shared_ptr<const UniqueFd> fd_ = std::make_shared<UniqueFd>();
  /// Where the next packet is read to; null until then. One that is larger than the one before goes
  /// on in rest_, whose pages nobody has touched until then.
  Block block_;
  std::unique_ptr<char[]> rest_;
  std::size_t last_size_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace meshbus
