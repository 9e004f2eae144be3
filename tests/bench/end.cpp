#include "tests/bench/end.h"

#include <array>
#include <stdexcept>
#include <utility>

namespace meshbus::bench {

namespace {

constexpr std::array<std::pair<Transport, std::string_view>, 6> kTransportNames = {
    {{Transport::zmq, "zmq"},
     {Transport::zmq_packed, "zmq-packed"},
     {Transport::bus, "bus"},
     {Transport::bus_calls, "bus-calls"},
     {Transport::nats, "nats"},
     {Transport::nats_library, "nats-library"}}};

}  // namespace

std::string_view to_string(Transport transport) noexcept {
  for (const auto& [one, name] : kTransportNames)
    if (one == transport) return name;
  return "?";
}

Transport transport_named(std::string_view name) {
  for (const auto& [one, its] : kTransportNames)
    if (its == name) return one;
  throw std::runtime_error("there is no transport \"" + std::string(name) + "\"");
}

std::unique_ptr<End> make_end(Transport transport, const EndOptions& options) {
  switch (transport) {
    case Transport::zmq: return make_zmq_end(options, false);
    case Transport::zmq_packed: return make_zmq_end(options, true);
    case Transport::bus: return make_bus_end(options, false);
    case Transport::bus_calls: return make_bus_end(options, true);
    case Transport::nats: return make_nats_end(options);
    case Transport::nats_library: return make_nats_library_end(options);
  }
  throw std::runtime_error("no such transport");
}

}  // namespace meshbus::bench
