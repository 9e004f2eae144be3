#pragma once

#include <optional>

#include <zmq.hpp>

namespace meshbus {

/// The context of libzmq for the tool sockets of one broker. It is made when the first tool
/// connects: a broker that nobody looks at has no threads of libzmq.
class ToolContext {
 public:
  zmq::context_t& get() {
    if (!context_) context_.emplace(1);
    return *context_;
  }

 private:
  std::optional<zmq::context_t> context_;
};

}  // namespace meshbus
