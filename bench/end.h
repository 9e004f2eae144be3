#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "meshbus/shared_body.h"

namespace meshbus::bench {

/// How long an end waits for a message before it gives up.
inline constexpr std::chrono::seconds kAnswerLimit{20};

/// One end of a pair of processes that send each other messages, over whatever there is in between.
/// Both ends are programs of this build; on every transport they do the same. Throws
/// std::runtime_error when nothing comes for kAnswerLimit or what is in between fails.
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
  /// The same; an end that can sends a large body without a copy.
  virtual void send(const SharedBody& body) { send(body.bytes()); }
  /// Produces as long as it can, consumes what comes, and so on until the last message.
  virtual void run(const Program& program) = 0;
  /// What the other end needs to know to reach this one: a line.
  virtual std::string name() const { return "ready"; }
};

struct EndOptions {
  /// The address of the broker or server in between: a ZeroMQ endpoint, or a port of NATS.
  std::string address;
  /// What End::name() of the other one said; empty: this is the one that answers, and it waits for
  /// ever.
  std::string other = {};
  /// Every message leaves before the next one is made, instead of packed with others.
  bool flush_each = false;

  bool is_asker() const noexcept { return !other.empty(); }
};

/// Ends on our library.
std::unique_ptr<End> make_bus_end(const EndOptions& options, bool is_calls);

}  // namespace meshbus::bench
