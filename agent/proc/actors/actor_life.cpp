#include "agent/proc/actors/actor_life.h"

#include <utility>

#include "common/wire/control.h"

namespace meshbus::mesh_proc {
namespace {

constexpr std::size_t kMostCauses = 16;
constexpr std::size_t kCauseLimit = 1024;

/// What one exception says, and what is nested in it.
std::pair<std::string, std::exception_ptr> look_into(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    std::exception_ptr nested;
    if (const auto* outer = dynamic_cast<const std::nested_exception*>(&error))
      nested = outer->nested_ptr();
    return {error.what(), nested};
  } catch (const std::nested_exception& outer) {
    return {"an exception that is no std::exception", outer.nested_ptr()};
  } catch (...) {
    return {"an exception that is no std::exception", nullptr};
  }
}

}  // namespace

Fault describe(const std::exception_ptr& exception, std::string message) {
  auto [error, nested] = look_into(exception);
  Fault fault{cut_text(std::move(error), kCauseLimit), std::move(message), {}};
  while (nested != nullptr && fault.causes.size() < kMostCauses) {
    auto [cause, next] = look_into(nested);
    fault.causes.push_back(cut_text(std::move(cause), kCauseLimit));
    nested = next;
  }
  return fault;
}

void ActorLife::change(Status::Kind status, Time now) {
  status_ = status;
  ++generation_;
  changed_ = now;
}

bool ActorLife::on_running(Time now) {
  if (status_ != Status::Kind::initializing) return false;
  change(Status::Kind::running, now);
  return true;
}

bool ActorLife::on_stopping(std::string reason, Time now) {
  if (!is_open()) return false;
  reason_ = std::move(reason);
  change(Status::Kind::stopping, now);
  return true;
}

bool ActorLife::on_stopped(Time now) {
  if (status_ != Status::Kind::stopping) return false;
  change(Status::Kind::stopped, now);
  return true;
}

bool ActorLife::on_failed(Fault fault, Time now) {
  if (is_ended()) return false;
  fault_ = std::move(fault);
  change(Status::Kind::failed, now);
  return true;
}

std::string ActorLife::words() const {
  switch (status_) {
    case Status::Kind::stopping: return "is stopping: " + reason_;
    case Status::Kind::stopped: return "has stopped: " + reason_;
    case Status::Kind::failed:
      return "has failed" + (fault_.message.empty() ? "" : " in message " + fault_.message) + ": " +
             fault_.error;
    default:
      return "is " + std::string(status_ == Status::Kind::running ? "running" : "initializing");
  }
}

}  // namespace meshbus::mesh_proc
