#include "agent/host/records/event_book.h"

#include "agent/host/model/real_time.h"
#include "agent/host/records/event_text.h"
#include "meshbus/point.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

/// How much of the log one answer may read: a few milliseconds.
constexpr std::uint64_t kMostLookedAt = 4 << 20;
/// Files of the log are larger, so that they keep to their size.
constexpr std::size_t kMostCollected = 64 * 1024;

std::string point_of(const Proc& proc) {
  const auto& region = proc.mesh.spec.region;
  const auto ordinal = region.ordinal_of(proc.rank());
  if (!ordinal) return {};
  const auto point = region.extent().point_of(*ordinal);
  return point ? point->to_string() : std::string();
}

bool is_about(const wire::EventT& event, std::string_view mesh) {
  return mesh.empty() || event.mesh.empty() || event.mesh == mesh ||
         std::string_view(event.mesh).substr(0, event.mesh.rfind('-')) == mesh;
}

}  // namespace

void EventBook::add(wire::EventT event) {
  if (!log_) return;
  event.time_ns = now_ns();
  lines_ += to_line(event);
  if (lines_.size() > kMostCollected) write();
}

void EventBook::add(wire::EventKind kind, std::string mesh, std::string by, std::string text) {
  wire::EventT event;
  event.kind = kind;
  event.mesh = std::move(mesh);
  event.by = std::move(by);
  event.text = std::move(text);
  add(std::move(event));
}

void EventBook::add_end(const Proc& proc) {
  if (!log_ || proc.exit.report() == nullptr) return;
  wire::EventT event;
  event.kind = wire::EventKind::proc_ended;
  event.mesh = proc.mesh.name;
  event.point = point_of(proc);
  event.state = std::make_unique<wire::RankState>(proc.state.to_wire());
  event.exit_report = std::make_unique<wire::ExitReportT>(*proc.exit.report());
  add(std::move(event));
}

void EventBook::add_limited(wire::EventT event) {
  const auto left_out = limit_.on_line(std::chrono::steady_clock::now());
  if (!left_out) return;
  if (*left_out > 0)
    event.text += " (and " + std::to_string(*left_out) + " more like this before it)";
  add(std::move(event));
}

void EventBook::write() {
  if (lines_.empty()) return;
  log_.append(lines_);
  lines_.clear();
}

wire::EventListT EventBook::find(std::string_view mesh, std::uint64_t from,
                                 std::size_t bytes) const {
  wire::EventListT list;
  std::size_t used = 0;
  const auto stop = log_.read(from, kMostLookedAt, [&](std::string_view line) {
    if (!may_concern(line, mesh)) return true;
    auto event = parse_event(line);
    if (!event || event->kind == wire::EventKind::none || !is_about(*event, mesh)) return true;
    // In memory a table takes a little more than its keys do as text.
    const auto size = line.size() + 64;
    if (used > 0 && used + size > bytes) return false;
    used += size;
    list.events.push_back(std::make_unique<wire::EventT>(std::move(*event)));
    return true;
  });
  list.next = stop.next;
  list.more = !stop.at_end;
  return list;
}

}  // namespace meshbus::host
