#include "agent/proc/runtime/stop_sequence.h"

#include <utility>

namespace meshbus::mesh_proc {

bool StopSequence::limit(Time end) {
  if (end >= end_) return false;
  end_ = end;
  return true;
}

bool StopSequence::begin(Stop stop) {
  if (stop_ || is_exiting_) return false;
  stop_ = std::move(stop);
  return true;
}

bool StopSequence::cut(Stop stop) {
  if (std::exchange(is_cut_, true)) return false;
  stop_ = std::move(stop);
  return true;
}

std::string StopSequence::describe_limit() const {
  if (!stop_) return "its last handlers or messages took longer than 10 s";
  return "it was asked to stop (" + stop_->reason +
         ") and was still busy at the end of its part of the grace";
}

}  // namespace meshbus::mesh_proc
