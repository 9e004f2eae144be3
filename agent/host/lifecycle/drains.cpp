#include "agent/host/lifecycle/drains.h"

#include <algorithm>

#include "common/base/requester_text.h"
#include "wire/ledger_generated.h"

namespace meshbus::host {

Drains::Entry* Drains::find(const DrainScope& scope) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.order.scope == scope; });
  return found == entries_.end() ? nullptr : &*found;
}

Result<void> Drains::start(DrainOrder order, Drain::Done done) {
  Entry* entry = find(order.scope);
  if (entry == nullptr) {
    if (entries_.size() >= kMost)
      return fail(ErrorCode::queue_full, "host " + host_ + " has " + std::to_string(kMost) +
                                             " drains under way or held, that is its limit; drain "
                                             "the whole host, or end some (ResumeHost)");
    entry = &entries_.emplace_back(Entry{std::move(order), nullptr});
  } else {
    entry->order.hold = entry->order.hold || order.hold;
    if (entry->work) {
      is_changed_ = true;
      entry->work->join(order.stop, order.in_flight, std::move(done));
      return {};
    }
  }
  is_changed_ = true;
  const auto& known = entry->order;
  entry->work = std::make_unique<Drain>(reactor_, table_, ending_, known.scope, known.stop,
                                        known.in_flight, std::move(done));
  return {};
}

void Drains::resume(const DrainScope& scope) {
  Entry* entry = find(scope);
  if (entry == nullptr) return;
  is_changed_ = true;
  entry->order.hold = false;  // pump() does the rest
}

Result<void> Drains::check_start(std::string_view mesh, const ProcId& owner) const {
  for (const auto& [order, work] : entries_) {
    if (!order.scope.covers(mesh, owner)) continue;
    std::string why =
        "host " + host_ + (work ? " is being drained of " : " is kept drained of ") +
        order.scope.words() + ", asked for by " +
        (order.stop.requester.empty() ? "somebody" : requester_text(order.stop.requester)) + ": " +
        order.stop.reason;
    why +=
        order.hold
            ? "; nothing of that is started here until the hold is ended (meshbus drain --resume)"
            : "; nothing of that is started here until its " +
                  std::to_string(work ? work->left() : 0) + " procs that are left have ended";
    return fail(ErrorCode::refused, std::move(why));
  }
  return {};
}

void Drains::on_ended(const Proc& proc, bool ok) {
  for (const auto& entry : entries_) {
    if (entry.work) entry.work->on_ended(proc, ok);
  }
}

void Drains::on_empty(const Proc& proc) {
  for (const auto& entry : entries_) {
    if (entry.work) entry.work->on_empty(proc);
  }
}

void Drains::pump() {
  for (auto& entry : entries_) {
    if (!entry.work) continue;
    entry.work->pump();
    if (!entry.work->is_done()) continue;
    entry.work.reset();
    is_changed_ = true;
  }
  std::erase_if(entries_, [](const Entry& entry) { return !entry.work && !entry.order.hold; });
}

std::vector<wire::DrainT> Drains::to_wire() const {
  std::vector<wire::DrainT> list;
  for (const auto& [order, work] : entries_) {
    wire::DrainT& drain = list.emplace_back();
    drain.owner = order.scope.owner;
    drain.mesh = order.scope.mesh;
    drain.reason = order.stop.reason;
    drain.requester = order.stop.requester;
    drain.hold = order.hold;
    drain.left = work ? work->left() : 0;
  }
  return list;
}

std::optional<std::vector<wire::LedgerDrainT>> Drains::take_changed() {
  if (!std::exchange(is_changed_, false)) return std::nullopt;
  std::optional<std::vector<wire::LedgerDrainT>> list(std::in_place);
  for (const auto& [order, work] : entries_) {
    wire::LedgerDrainT& drain = list->emplace_back();
    drain.owner = order.scope.owner;
    drain.mesh = order.scope.mesh;
    drain.reason = order.stop.reason;
    drain.requester = order.stop.requester;
    drain.grace_ms = static_cast<std::uint64_t>(order.stop.grace.count());
    drain.in_flight =
        static_cast<std::uint32_t>(std::min<std::size_t>(order.in_flight, UINT32_MAX));
    drain.hold = order.hold;
  }
  return list;
}

}  // namespace meshbus::host
