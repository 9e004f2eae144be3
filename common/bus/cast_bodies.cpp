#include "common/bus/cast_bodies.h"

#include <utility>
#include <vector>

namespace meshbus {

/// It lives as long as a part of it is under way.
struct CastBodies::Transfer {
  std::uint64_t id;
  SharedBody body;
  Events events;
  /// Ranks of our host, and one for all others, that are waited for, and those that have it.
  std::size_t waiting = 0;
  std::size_t arrived = 0;
  /// Why the last one that failed did.
  Error last = Error(ErrorCode::internal, "no rank is left");
  /// By ordinal of the plan for the other hosts: the ordinal in the whole plan.
  std::vector<std::uint64_t> elsewhere = {};

  void end_part(const Result<void>& result) {
    if (result) {
      ++arrived;
    } else {
      last = result.error();
    }
    if (--waiting > 0) return;
    if (arrived == 0) return events.on_done(fail(last));
    events.on_done(wire::ChunkHeader(id, body.bytes().size(), 0));
  }
};

void CastBodies::send(std::shared_ptr<const CastPlan> to, SharedBody body, Events events) {
  std::vector<std::uint64_t> here;
  std::vector<std::uint64_t> elsewhere;
  for (std::uint64_t ordinal = 0; ordinal < to->targets.size(); ++ordinal)
    (bodies_.is_shared(body, to->targets[ordinal].host) ? here : elsewhere).push_back(ordinal);
  const auto id = requests_.take_id();
  if (here.empty()) return chunks_.send(id, std::move(to), std::move(body), std::move(events));
  auto transfer = std::make_shared<Transfer>(
      Transfer{.id = id, .body = std::move(body), .events = std::move(events)});
  transfer->waiting = here.size() + (elsewhere.empty() ? 0 : 1);
  transfer->elsewhere = std::move(elsewhere);
  for (const auto ordinal : here) send_here(transfer, *to, ordinal);
  if (!transfer->elsewhere.empty()) send_elsewhere(transfer, *to);
}

void CastBodies::send_here(const std::shared_ptr<Transfer>& transfer, const CastPlan& to,
                           std::uint64_t ordinal) {
  const auto& target = to.targets[ordinal];
  bodies_.send(transfer->id, {target.proc, target.host, {}}, transfer->body,
               transfer->events.is_wanted, [transfer, ordinal](const auto& header) {
                 if (header) return transfer->end_part({});
                 const auto on_failed = transfer->events.on_failed;
                 if (on_failed) on_failed(ordinal, header.error());
                 transfer->end_part(fail(header.error()));
               });
}

void CastBodies::send_elsewhere(const std::shared_ptr<Transfer>& transfer, const CastPlan& to) {
  // It cannot fail: the whole view was planned.
  auto plan = CastPlan::make(to.view, postbox_.own_host()).value();
  Events events{.is_wanted = transfer->events.is_wanted,
                .on_failed =
                    [transfer](std::uint64_t ordinal, const Error& error) {
                      const auto on_failed = transfer->events.on_failed;
                      if (on_failed) on_failed(transfer->elsewhere[ordinal], error);
                    },
                .on_done =
                    [transfer](const auto& header) {
                      transfer->end_part(header ? Result<void>() : fail(header.error()));
                    }};
  chunks_.send(transfer->id, std::move(plan), transfer->body, std::move(events));
}

}  // namespace meshbus
