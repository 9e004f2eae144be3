#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace meshbus::bench {

/// How long an end waits for a message before it gives up.
inline constexpr std::chrono::seconds kPatience{20};

/// One end of a pair of processes that send each other messages, over whatever there is in between. Both ends are programs of this build;
/// on every transport they do the same. Throws std::runtime_error when nothing comes for kPatience or what is in between fails.
class End {
 public:
  struct Program {
    /// Sends one message if it is time to; false when not. May be empty.
    std::function<bool()> produce = {};
    /// A message came; may send. False: that was the last one.
    std::function<bool(std::string_view)> consume = {};
  };
  virtual ~End() = default;
  /// Queues a message for the other end; only from within run().
  virtual void send(std::string_view body) = 0;
  /// Produces as long as it can, consumes what comes, and so on until the last message.
  virtual void run(const Program& program) = 0;
  /// What the other end needs to know to reach this one: a line.
  virtual std::string name() const { return "ready"; }
};

/// Two ends and how they do it.
enum class Transport {
  zmq,           ///< One ZeroMQ message each.
  zmq_packed,    ///< Many small envelopes packed in one ZeroMQ message.
  bus,           ///< Our library, messages.
  bus_calls,     ///< Our library, calls.
  nats,          ///< The text protocol of NATS on a bare socket, by ourselves.
  nats_library,  ///< NATS's C library.
};
std::string_view to_string(Transport transport) noexcept;
Transport transport_named(std::string_view name);

struct EndOptions {
  /// Of what is in between: a ZeroMQ endpoint, or a port of NATS.
  std::string address;
  /// What End::name() of the other one said; empty: this is the one that answers, and it waits for ever.
  std::string other = {};
  /// Every message leaves before the next one is made, instead of packed with others.
  bool flush_each = false;

  bool is_asker() const noexcept { return !other.empty(); }
};

std::unique_ptr<End> make_end(Transport transport, const EndOptions& options);

// One for each file.
std::unique_ptr<End> make_zmq_end(const EndOptions& options, bool is_packed);
std::unique_ptr<End> make_bus_end(const EndOptions& options, bool is_calls);
std::unique_ptr<End> make_nats_end(const EndOptions& options);
std::unique_ptr<End> make_nats_library_end(const EndOptions& options);
/// Whether this program was built with NATS's C library.
bool has_nats_library() noexcept;

}  // namespace meshbus::bench
