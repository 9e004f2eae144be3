#pragma once

#include <string>

#include "cli/hands/forward_text.h"
#include "common/base/unique_fd.h"

namespace meshbus::cli {

/// Where `meshbus forward` listens: a port of 127.0.0.1, or a unix socket of this user alone, which
/// goes with the object.
class LocalListener {
 public:
  /// Errors: io_error, saying where.
  static Result<LocalListener> open(const ForwardText& forward);
  LocalListener(LocalListener&& other) noexcept = default;
  LocalListener& operator=(LocalListener&&) = delete;
  ~LocalListener();

  int fd() const noexcept { return fd_.get(); }
  /// "127.0.0.1:8080", "/tmp/socket"
  const std::string& name() const noexcept { return name_; }
  /// A new connection, non-blocking; empty: there is none, for the reason in errno.
  UniqueFd accept() const;
  /// Whether a process of this user or of root has connected. Errors: unauthorised: one of another
  /// user, who may not reach what this user can.
  Result<void> check_peer(int connection) const;

 private:
  LocalListener() = default;

  UniqueFd fd_;
  std::string name_;
  bool is_path_ = false;
};

}  // namespace meshbus::cli
