#include "client/controller/event_history.h"

#include "client/controller/actors_name.h"

namespace meshbus {
namespace {

bool is_kept(const WatchEvent& event) {
  using Kind = WatchEvent::Kind;
  if (ActorsName::is_meant(event.mesh)) return false;
  return event.kind == Kind::state || event.kind == Kind::restarting ||
         event.kind == Kind::given_up || event.kind == Kind::resized;
}

}  // namespace

void EventHistory::add(const std::vector<WatchEvent>& events, Time now) {
  for (const auto& event : events) {
    if (is_kept(event)) events_.emplace_back(now, event);
  }
  while (!events_.empty() && (events_.size() > kMost || now - events_.front().first > kMemory))
    events_.pop_front();
}

std::vector<WatchEvent> EventHistory::events() const {
  std::vector<WatchEvent> all;
  all.reserve(events_.size());
  for (const auto& [time, event] : events_) all.push_back(event);
  return all;
}

}  // namespace meshbus
