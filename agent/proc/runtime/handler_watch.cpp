#include "agent/proc/runtime/handler_watch.h"

namespace meshbus::mesh_proc {

std::optional<HandlerWatch::Running> HandlerWatch::look(Time now) {
  const auto count = count_.load(std::memory_order_acquire);
  const auto port = port_.load(std::memory_order_relaxed);
  const bool is_new = count != seen_;
  if (is_new) {
    seen_ = count;
    since_ = now;
  }
  if (count % 2 == 0) return std::nullopt;
  return Running{.port = port, .busy = now - since_};
}

}  // namespace meshbus::mesh_proc
