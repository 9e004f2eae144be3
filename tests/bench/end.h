#pragma once

#include <memory>
#include <string_view>

#include "bench/end.h"

namespace meshbus::bench {

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

std::unique_ptr<End> make_end(Transport transport, const EndOptions& options);

// One for each file; ours is in bench.
std::unique_ptr<End> make_zmq_end(const EndOptions& options, bool is_packed);
std::unique_ptr<End> make_nats_end(const EndOptions& options);
std::unique_ptr<End> make_nats_library_end(const EndOptions& options);
/// Whether this program was built with NATS's C library.
bool has_nats_library() noexcept;

}  // namespace meshbus::bench
