#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>

#include "client/controller/controller.h"
#include "client/controller/supervision_event.h"
#include "client/src/base/handler_gate.h"
#include "client/src/context/check_owner.h"
#include "client/src/context/context_core.h"
#include "meshbus/controller.h"

namespace meshbus {
/// What the caller of start() waits for. Written on the reactor's thread.
class ControllerPlace {
 public:
  void on_up(const ProcId& id) {
    {
      const std::lock_guard lock(mutex_);
      id_ = id;
    }
    changed_.notify_all();
  }
  /// Whether that was an answer to start(), and not something that comes later.
  bool on_refused(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (id_) return false;
    refusal_ = error;
    changed_.notify_all();
    return true;
  }
  Result<void> wait(const std::vector<HostAddr>& hosts, std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock,
                      std::clamp<std::chrono::milliseconds>(deadline, std::chrono::milliseconds(1),
                                                            std::chrono::hours(24 * 20)),
                      [&] { return id_.has_value() || refusal_.has_value(); });
    if (id_) return {};
    if (refusal_) return fail(refusal_->within("controller"));
    return fail(ErrorCode::host_unreachable,
                "controller: no broker answers at " + hosts.front().to_string() +
                    (hosts.size() == 1 ? "" : ", nor at the other hosts"));
  }
  ProcId id() const {
    const std::lock_guard lock(mutex_);
    return *id_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<ProcId> id_;
  std::optional<Error> refusal_;
};

class EmbeddedController::Impl {
 public:
  Impl(std::shared_ptr<ContextCore> core, Controller::Options options,
       std::function<void(const SupervisionEvent&)> on_event);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> wait(std::chrono::milliseconds deadline) { return place_->wait(hosts_, deadline); }
  ProcId id() const { return place_->id(); }

  Result<void> end(const std::string& reason);

 private:
  std::shared_ptr<ContextCore> core_;
  std::vector<HostAddr> hosts_;
  std::shared_ptr<HandlerGate> gate_ = std::make_shared<HandlerGate>();
  std::shared_ptr<ControllerPlace> place_ = std::make_shared<ControllerPlace>();
  std::mutex end_mutex_;
  bool has_ended_ = false;  // guarded by end_mutex_
  std::unique_ptr<Controller> controller_;
};

// Not in the class: lambdas of inline functions would be seen outside of a shared library.
EmbeddedController::Impl::Impl(std::shared_ptr<ContextCore> core, Controller::Options options,
                               std::function<void(const SupervisionEvent&)> on_event)
    : core_(std::move(core)), hosts_(options.hosts) {
  core_->run([&] {
    const auto tell = [&handlers = core_->handlers(), gate = gate_,
                       on_event = std::make_shared<decltype(on_event)>(std::move(on_event))](
                          SupervisionEvent event) {
      if (*on_event)
        handlers.post([gate, on_event, event = std::move(event)] {
          gate->pass([&] { (*on_event)(event); });
        });
    };
    Controller::Events events;
    events.on_up = [place = place_](const ProcId& id) { place->on_up(id); };
    events.on_events = [tell](const std::vector<WatchEvent>& list) {
      for (const auto& event : list) {
        if (!is_repeated_for_mesh(event)) tell(to_supervision_event(event));
      }
    };
    events.on_refused = [tell, place = place_](const Error& error) {
      if (place->on_refused(error)) return;
      SupervisionEvent event;
      event.kind = SupervisionEvent::Kind::controller_lost;
      event.host = place->id().host();
      event.problem = error.to_string();
      tell(std::move(event));
    };
    controller_ =
        std::make_unique<Controller>(core_->reactor(), std::move(options), std::move(events));
  });
}

EmbeddedController::Impl::~Impl() {
  if (!core_->check_process()) {
    // A forked child: these are not ours to touch.
    [[maybe_unused]] const auto* const parent = controller_.release();
    return;
  }
  gate_->shut();
  core_->run([this] { controller_.reset(); });
}

Result<void> EmbeddedController::Impl::end(const std::string& reason) {
  if (auto fine = core_->check_may_wait(); !fine) return fine;
  const std::lock_guard lock(end_mutex_);
  if (has_ended_) return {};
  has_ended_ = true;
  std::promise<std::size_t> left;
  core_->post(
      [&] { controller_->end(reason, [&] { left.set_value(controller_->live_owned()); }); });
  const auto still = left.get_future().get();
  core_->run([this, &reason] { controller_->close(reason); });
  if (still == 0) return {};
  return fail(ErrorCode::stop_error,
              std::to_string(still) + " meshes of controller " + id().to_string() +
                  " have not ended in time; they do when their leases lapse");
}

EmbeddedController::EmbeddedController(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EmbeddedController::EmbeddedController(EmbeddedController&&) noexcept = default;
EmbeddedController& EmbeddedController::operator=(EmbeddedController&&) noexcept = default;
EmbeddedController::~EmbeddedController() = default;

Result<EmbeddedController> EmbeddedController::start(Context& context,
                                                     EmbeddedControllerOptions options) {
  const auto& core = context.core();
  if (auto fine = check_owner(core); !fine) return fail(fine.error());
  if (options.hosts.empty())
    return fail(ErrorCode::configuration_error, "controller: no host is named");
  auto made = Controller::Options::from(core->config(), std::move(options.hosts));
  made.mesh = std::move(options.mesh);
  made.reach = [&core = *core](const HostAddr& host, Session::Options& session) {
    core.reach(host, session);
  };
  auto impl = std::make_unique<Impl>(core, std::move(made), std::move(options.on_event));
  if (auto up = impl->wait(options.deadline); !up) return fail(up.error());
  return EmbeddedController(std::move(impl));
}

ProcId EmbeddedController::id() const {
  return impl_ == nullptr ? ProcId(HostAddr::local(0), ProcName(Name::controller())) : impl_->id();
}

Result<void> EmbeddedController::end(const std::string& reason) {
  return impl_ == nullptr ? fail(moved_from_error()) : impl_->end(reason);
}

}  // namespace meshbus
