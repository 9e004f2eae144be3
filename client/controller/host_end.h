#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/controller/controller_gateway.h"
#include "client/controller/supervisor.h"
#include "common/wire/control.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

/// Ends the hosts that a controller answers for: all at once, but for the one whose broker carries
/// the orders, which is last. Lives on the reactor's thread.
class HostEnd : public std::enable_shared_from_this<HostEnd> {
 public:
  /// `limit`: for the answer of one host, which comes when its procs have ended.
  HostEnd(ControllerGateway& gateway, const Supervisor& supervisor, std::vector<HostAddr> hosts,
          wire::ShutdownHostT order, std::chrono::milliseconds limit, std::function<void()> on_done)
      : gateway_(gateway),
        supervisor_(supervisor),
        hosts_(std::move(hosts)),
        order_(std::move(order)),
        limit_(limit),
        on_done_(std::move(on_done)) {}

  /// Once. `on_done` is called later, once, unless cancel() comes before.
  void begin();
  void cancel() { on_done_ = nullptr; }
  bool is_done() const noexcept { return is_done_; }
  /// Hosts that have not answered, and those that were not asked yet.
  std::size_t open() const noexcept { return open_ + last_.size(); }

 private:
  void ask(const HostAddr& host);
  /// Orders the end, unless the host was detached or given away a moment ago.
  void on_state(const HostAddr& host, const Result<ControlMessage>& answer);
  void on_answer(const HostAddr& host, const Result<ControlMessage>& answer);
  void end_last();

  ControllerGateway& gateway_;
  const Supervisor& supervisor_;
  std::vector<HostAddr> hosts_;
  wire::ShutdownHostT order_;
  std::chrono::milliseconds limit_;
  std::function<void()> on_done_;
  std::vector<HostAddr> last_;
  std::size_t open_ = 0;
  bool is_done_ = false;
};

}  // namespace meshbus
