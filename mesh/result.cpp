#include "meshbus/result.h"

namespace meshbus {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::none: return "none";
    case ErrorCode::internal: return "internal";
    case ErrorCode::parse_error: return "parse_error";
    case ErrorCode::configuration_error: return "configuration_error";
    case ErrorCode::invalid_rank_cardinality: return "invalid_rank_cardinality";
    case ErrorCode::proc_creation_error: return "proc_creation_error";
    case ErrorCode::proc_spawn_error: return "proc_spawn_error";
    case ErrorCode::actor_spawn_error: return "actor_spawn_error";
    case ErrorCode::actor_type_not_registered: return "actor_type_not_registered";
    case ErrorCode::stop_error: return "stop_error";
    case ErrorCode::call_error: return "call_error";
    case ErrorCode::sending_error: return "sending_error";
    case ErrorCode::casting_error: return "casting_error";
    case ErrorCode::undeliverable: return "undeliverable";
    case ErrorCode::not_exist: return "not_exist";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::fate_unknown: return "fate_unknown";
    case ErrorCode::unauthorised: return "unauthorised";
    case ErrorCode::version_mismatch: return "version_mismatch";
    case ErrorCode::identity_mismatch: return "identity_mismatch";
    case ErrorCode::queue_full: return "queue_full";
    case ErrorCode::too_large: return "too_large";
    case ErrorCode::unroutable: return "unroutable";
    case ErrorCode::would_block: return "would_block";
    case ErrorCode::host_unreachable: return "host_unreachable";
    case ErrorCode::io_error: return "io_error";
    case ErrorCode::no_such_host: return "no_such_host";
    case ErrorCode::no_such_proc: return "no_such_proc";
    case ErrorCode::no_such_port: return "no_such_port";
    case ErrorCode::expired: return "expired";
    case ErrorCode::refused: return "refused";
    case ErrorCode::link_lost: return "link_lost";
    case ErrorCode::malformed_message: return "malformed_message";
    case ErrorCode::exec_failed: return "exec_failed";
    case ErrorCode::out_of_range: return "out_of_range";
  }
  return "unknown";
}

Error Error::within(std::string_view context) const {
  Error error = *this;
  error.detail_ = std::string(context) + ": " + detail_;
  return error;
}

Error Error::at(std::size_t position) const {
  Error error = *this;
  error.position_ = position;
  return error;
}

Error Error::about(std::shared_ptr<const std::vector<RankReport>> reports) const {
  Error error = *this;
  error.reports_ = std::move(reports);
  return error;
}

std::string Error::to_string() const {
  return std::string(meshbus::to_string(code_)) + ": " + detail_;
}

}  // namespace meshbus
