#include "client/src/context/message_sender.h"

#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "client/src/context/connection.h"
#include "client/src/context/context_core.h"
#include "common/bus/outgoing.h"

namespace meshbus {
namespace {

std::atomic<std::uint64_t> last_number{0};

/// The way to a proc that this thread has sent to: computing the keys takes longer than sending.
struct Route {
  std::optional<ProcId> proc;
  std::uint64_t sender = 0;  ///< MessageSender::number_.
  std::uint64_t routes = 0;  ///< MessageSender::routes_ when it was found.
  Bus* bus = nullptr;
  Destination keys;  ///< Without the address of the host.
};

Route& route_to(const ProcId& proc) {
  thread_local std::array<Route, 64> routes;
  return routes[std::hash<std::string>()(proc.name().to_string()) % routes.size()];
}

}  // namespace

MessageSender::MessageSender(ContextCore& core)
    : core_(core), number_(++last_number), flusher_([this] {
        // The turn that runs, or the one that comes now, flushes in its place.
        if (!flush_here()) core_.reactor().wake();
      }) {}

Result<void> MessageSender::send(const ProcId& to, std::uint32_t port, const BodyParts& body) {
  if (body.size() > kBodyLimit) return send_large(to, port, body);
  std::string text;
  const auto bytes = body.whole(text);
  const auto* const shared = body.shared();
  const Route& route = route_to(to);
  if (route.sender != number_ || route.proc != to) return send_by_visit(to, port, bytes, shared);
  auto part = detached_part(bytes, shared);
  Bus::Packed packed{Bus::Packed::Outcome::not_now};
  bool is_quiet = false;
  {
    const std::shared_lock lock(packing_);
    if (route.routes == routes_.load(std::memory_order_acquire)) {
      packed = route.bus->pack(route.keys.proc, route.keys.host, port, bytes,
                               part ? &*part : nullptr, {.bytes = SIZE_MAX});
      is_quiet = packed.is_first && route.bus->sent_at() + kPause < Reactor::Clock::now();
    }
  }
  if (packed.outcome != Bus::Packed::Outcome::packed) return send_by_visit(to, port, bytes, shared);
  see_off_packed(packed, is_quiet);
  return {};
}

Result<void> MessageSender::send_large(const ProcId& to, std::uint32_t port,
                                       const BodyParts& body) {
  if (core_.reactor().is_in_turn())
    return fail(ErrorCode::would_block,
                "a body above 1 MiB is sent in chunks, and the library's own thread cannot wait");
  const auto within = [&](const Error& error) {
    return fail(error.within("send to " + to.to_string() + ", port " + std::to_string(port)));
  };
  // Before it is copied, which may take more memory than there is.
  bool is_here = false;
  const auto fits = core_.visit([&]() -> Result<void> {
    const auto way = core_.best_connection(to.host());
    const auto* bus = way ? way->connection->gateway().bus() : nullptr;
    if (bus == nullptr) return {};
    is_here = bus->self() && bus->self()->host() == to.host();
    return bus->check_size(body.size());
  });
  if (!fits) return within(fits.error());
  // Not in the visit: others would wait for the copy.
  auto whole = body.hold(is_here);
  Arrival arrival;
  const auto begun = core_.visit([&]() -> Result<void> {
    const auto way = core_.best_connection(to.host());
    if (!way) return fail(way.error());
    Bus& bus = *way->connection->gateway().bus();
    bus.send_large(Destination::to(to), port, std::move(whole), arrival);
    see_off(bus, /*is_urgent=*/true);
    return {};
  });
  auto done = begun ? arrival.wait(body.size(), std::chrono::milliseconds::max()) : begun;
  if (!done) return within(done.error());
  return done;
}

Result<void> MessageSender::send_by_visit(const ProcId& to, std::uint32_t port, Bytes bytes,
                                          const SharedBody* shared) {
  auto destination = Destination::to(to);
  return core_.visit([&]() -> Result<void> {
    const auto way = core_.best_connection(to.host());
    if (!way) return fail(way.error());
    Bus& bus = *way->connection->gateway().bus();
    auto sent = shared != nullptr ? bus.send(destination, port, *shared)
                                  : bus.send(destination, port, bytes);
    see_off(bus, /*is_urgent=*/!sent);
    // A better way may be found to a host that no connection knows.
    if (way->is_known) {
      bus.share();
      route_to(to) = {to,
                      number_,
                      routes_.load(std::memory_order_relaxed),
                      &bus,
                      {destination.proc, destination.host, {}}};
    }
    if (!sent)
      return fail(
          sent.error().within("send to " + to.to_string() + ", port " + std::to_string(port)));
    return sent;
  });
}

void MessageSender::see_off(Bus& bus, bool is_urgent) {
  if (is_urgent || bus.sent_at() + kPause < Reactor::Clock::now()) return bus.flush();
  if (!flusher_.ask()) core_.reactor().wake();
}

void MessageSender::see_off_packed(const Bus::Packed& packed, bool is_quiet) {
  if (!packed.is_first && !packed.is_full) return;  // a flush has been asked for
  if (core_.reactor().is_in_turn()) return;         // it ends with a flush
  if ((packed.is_full || is_quiet) && flush_here()) return;
  if (!flusher_.ask()) core_.reactor().wake();
}

bool MessageSender::flush_here() {
  const auto visit = core_.reactor().try_visit();
  if (!visit) return false;
  core_.flush();
  return true;
}

void MessageSender::forget_routes() {
  // First, so that threads that send all the time do not keep this one from the lock.
  routes_.fetch_add(1, std::memory_order_release);
  const std::unique_lock lock(packing_);
}

}  // namespace meshbus
