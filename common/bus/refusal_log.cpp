#include "common/bus/refusal_log.h"

#include "common/base/log.h"

namespace meshbus {

void RefusalLog::add(const wire::Envelope& from, const Error& error) {
  if (error.code() == ErrorCode::unauthorised) {
    ++unauthorised_;
    if (senders_.size() >= kMostSenders) senders_.clear();
    if (!senders_.insert(from.source_proc() ^ from.source_host()).second) return;
  }
  log::warn("bus: refused: " + error.to_string());
}

}  // namespace meshbus
