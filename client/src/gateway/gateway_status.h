#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// What threads other than the reactor's know of a Gateway. Any thread.
class GatewayStatus {
 public:
  explicit GatewayStatus(HostAddr host) : host_(std::move(host)) {}

  /// Waits until the broker has registered this launcher.
  /// Errors: host_unreachable, the refusal of the broker.
  Result<void> wait_up(std::chrono::milliseconds deadline) const;
  /// The ProcId of this launcher as agents know it. Empty before the first registration.
  std::string self() const;
  /// How often the connection to the broker was lost.
  std::uint64_t losses() const;
  /// Adds to a timeout that there is no connection to the broker, if so.
  Error explain(const Error& error) const;

  /// Notes the registration. Returns whether there was an earlier one.
  bool set_up(std::string self);
  void set_down(const std::string& reason);
  void set_refused(const Error& error);
  void set_closed(const std::string& reason);
  /// Another broker is the gateway now.
  void set_host(const HostAddr& host);
  void note_problem(const std::string& problem);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  HostAddr host_;  // guarded by mutex_, like what follows
  std::string self_;
  std::string problem_;
  std::optional<Error> refusal_;
  std::uint64_t losses_ = 0;
  bool is_up_ = false;
  bool is_closed_ = false;
};

}  // namespace meshbus
