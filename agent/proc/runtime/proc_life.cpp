#include "agent/proc/runtime/proc_life.h"

#include <algorithm>
#include <utility>

namespace meshbus::mesh_proc {

void ProcLife::set_ready() {
  const std::lock_guard lock(mutex_);
  is_ready_ = true;
  changed_.notify_all();
}

bool ProcLife::wait_until_ready() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_ready_ || stops_.is_asked(); });
  return !stops_.is_asked();
}

void ProcLife::wait_until_drained() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stops_.is_drained() || is_cut_; });
}

int ProcLife::end_main(int code) {
  const std::lock_guard lock(mutex_);
  exit_code_ = stops_.exit_code(code);
  return exit_code_;
}

bool ProcLife::limit(Time end) {
  const std::lock_guard lock(mutex_);
  return stops_.limit(end);
}

ProcLife::Time ProcLife::last_moment() const {
  const std::lock_guard lock(mutex_);
  return stops_.end();
}

ProcLife::Stop ProcLife::stop() const {
  const std::lock_guard lock(mutex_);
  return stops_.stop();
}

bool ProcLife::begin_stop(Stop stop) {
  const int code = stop.code;
  const std::lock_guard lock(mutex_);
  if (!stops_.begin(std::move(stop))) return false;
  exit_code_ = code;
  is_stopping_ = true;
  changed_.notify_all();
  return true;
}

void ProcLife::begin_exit() {
  const std::lock_guard lock(mutex_);
  stops_.begin_exit();
}

bool ProcLife::cut(Stop stop) {
  const int code = stop.code;
  const std::lock_guard lock(mutex_);
  if (!stops_.cut(std::move(stop))) return false;
  is_cut_ = true;
  exit_code_ = code;
  is_stopping_ = true;
  changed_.notify_all();
  return true;
}

void ProcLife::note_drained() {
  const std::lock_guard lock(mutex_);
  stops_.part_done();
  changed_.notify_all();
}

std::string ProcLife::describe_limit() const {
  const std::lock_guard lock(mutex_);
  return stops_.describe_limit();
}

bool ProcLife::stop_requested() noexcept {
  is_watched_ = true;
  return is_stopping_;
}

bool ProcLife::wait_for_stop(std::chrono::milliseconds at_most) {
  is_watched_ = true;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::min(at_most, kLongest), [this] { return stops_.is_asked(); });
}

}  // namespace meshbus::mesh_proc
