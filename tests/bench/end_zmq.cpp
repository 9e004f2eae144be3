// Ends on bare ZeroMQ, for the relays: what is in libzmq's power.
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include <zmq.hpp>

#include "tests/bench/end.h"

namespace meshbus::bench {

namespace {

/// The head of a packed message: 64 bytes with the length in front, as large as our envelopes. The
/// body follows, padded to 8.
struct PackedHead {
  std::uint64_t length = 0;
  char rest[56] = {};
};
constexpr std::size_t kPackBytes = 32 * 1024;

class ZmqEnd : public End {
 public:
  ZmqEnd(const EndOptions& options, bool is_packed)
      : is_packed_(is_packed), socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    // The programs bound what is on the way.
    socket_.set(zmq::sockopt::sndhwm, 0);
    socket_.set(zmq::sockopt::rcvhwm, 0);
    socket_.connect(options.address);
    if (options.is_asker()) {
      socket_.set(zmq::sockopt::rcvtimeo,
                  static_cast<int>(std::chrono::milliseconds(kAnswerLimit).count()));
    } else {
      // The relay learns of this end by a message, and says so by sending it back.
      zmq::message_t echo;
      socket_.send(zmq::str_buffer("here"), zmq::send_flags::none);
      if (!socket_.recv(echo)) throw std::runtime_error("no answer from the relay");
    }
  }

  void send(const SharedBody& body) override {
    if (is_packed_ || body.bytes().size() <= kPackBytes) return send(body.bytes());
    auto* const owner = new std::shared_ptr<const void>(body.owner());
    zmq::message_t message(
        const_cast<char*>(body.bytes().data()), body.bytes().size(),
        [](void*, void* hint) { delete static_cast<std::shared_ptr<const void>*>(hint); }, owner);
    socket_.send(message, zmq::send_flags::none);
  }
  void send(std::string_view body) override {
    if (!is_packed_) {
      socket_.send(zmq::buffer(body), zmq::send_flags::none);
      return;
    }
    PackedHead head;
    head.length = body.size();
    pack_.append(reinterpret_cast<const char*>(&head), sizeof head);
    pack_.append(body);
    pack_.append((8 - body.size() % 8) % 8, '\0');
    if (pack_.size() >= kPackBytes) flush();
  }

  void run(const Program& program) override {
    for (;;) {
      while (program.produce && program.produce()) {
      }
      flush();
      zmq::message_t message;
      if (!socket_.recv(message)) throw std::runtime_error("no message through the relay");
      do {
        if (!consume(program, message)) return;
      } while (socket_.recv(message, zmq::recv_flags::dontwait));
      flush();
    }
  }

 private:
  bool consume(const Program& program, const zmq::message_t& message) const {
    if (!is_packed_) return program.consume(message.to_string_view());
    std::string_view left = message.to_string_view();
    while (!left.empty()) {
      PackedHead head;
      if (left.size() < sizeof head) throw std::runtime_error("a pack was cut");
      std::memcpy(&head, left.data(), sizeof head);
      left.remove_prefix(sizeof head);
      const std::size_t padded = head.length + (8 - head.length % 8) % 8;
      if (padded > left.size()) throw std::runtime_error("a pack was cut");
      if (!program.consume(left.substr(0, head.length))) return false;
      left.remove_prefix(padded);
    }
    return true;
  }
  void flush() {
    if (pack_.empty()) return;
    socket_.send(zmq::buffer(pack_), zmq::send_flags::none);
    pack_.clear();
  }

  bool is_packed_;
  zmq::context_t context_{1};
  zmq::socket_t socket_;
  std::string pack_;
};

}  // namespace

std::unique_ptr<End> make_zmq_end(const EndOptions& options, bool is_packed) {
  return std::make_unique<ZmqEnd>(options, is_packed);
}

}  // namespace meshbus::bench
