#include "client/src/gateway/gateway_status.h"

#include <utility>

namespace meshbus {

Result<void> GatewayStatus::wait_up(std::chrono::milliseconds deadline) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, deadline,
                    [this] { return is_up_ || is_closed_ || refusal_.has_value(); });
  if (refusal_) return fail(*refusal_);
  if (is_up_) return {};
  const auto problem = problem_.empty() ? std::string("no broker answers there") : problem_;
  return fail(ErrorCode::host_unreachable, host_.to_string() + ": " + problem);
}

std::string GatewayStatus::self() const {
  const std::lock_guard lock(mutex_);
  return self_;
}

std::uint64_t GatewayStatus::losses() const {
  const std::lock_guard lock(mutex_);
  return losses_;
}

Error GatewayStatus::explain(const Error& error) const {
  const std::lock_guard lock(mutex_);
  if (is_up_ || error.code() != ErrorCode::timeout) return error;
  return {ErrorCode::host_unreachable,
          error.detail() + "; there is no connection to the broker at " + host_.to_string() +
              (problem_.empty() ? "" : ": " + problem_)};
}

bool GatewayStatus::set_up(std::string self) {
  bool is_again = false;
  {
    const std::lock_guard lock(mutex_);
    is_again = !self_.empty();
    self_ = std::move(self);
    is_up_ = true;
    problem_.clear();
  }
  changed_.notify_all();
  return is_again;
}

void GatewayStatus::set_down(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  is_up_ = false;
  ++losses_;
  problem_ = reason;
}

void GatewayStatus::set_refused(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    is_up_ = false;
    refusal_ = error;
    problem_ = error.detail();
  }
  changed_.notify_all();
}

void GatewayStatus::set_closed(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    is_up_ = false;
    is_closed_ = true;
    problem_ = reason;
  }
  changed_.notify_all();
}

void GatewayStatus::set_host(const HostAddr& host) {
  const std::lock_guard lock(mutex_);
  is_up_ = false;
  host_ = host;
}

void GatewayStatus::note_problem(const std::string& problem) {
  const std::lock_guard lock(mutex_);
  problem_ = problem;
}

}  // namespace meshbus
