#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "client/controller/actors_name.h"
#include "client/controller/controller_feed.h"
#include "client/src/base/handler_gate.h"
#include "client/src/context/check_owner.h"
#include "client/src/context/context_core.h"
#include "meshbus/controller.h"

namespace meshbus {
namespace {

/// As in wire::Subscribe.
Result<std::string> name_of(const SubscribeOptions& options) {
  if (options.mesh.empty()) {
    if (options.actor.empty() && options.ranks.empty()) return std::string();
    return fail(ErrorCode::configuration_error,
                "subscribe: actors and ranks are those of a mesh, and none is named");
  }
  const auto mesh = Name::parse(options.mesh);
  if (!mesh) return fail(mesh.error().within("subscribe"));
  if (options.actor.empty()) return options.mesh;
  const auto actor = Name::parse(options.actor);
  if (!actor) return fail(actor.error().within("subscribe"));
  return ActorsName(*mesh, *actor).to_string();
}

}  // namespace

/// What the caller of open() waits for, and what is known since. Written on the reactor's thread.
class SubscriptionState {
 public:
  void on_subscribed(const ProcId& controller) {
    {
      const std::lock_guard lock(mutex_);
      controller_ = controller;
    }
    changed_.notify_all();
  }
  void on_trouble(const HostAddr& host, const Error& error) {
    {
      const std::lock_guard lock(mutex_);
      if (controller_) return;
      problems_.insert_or_assign(host, error);
    }
    changed_.notify_all();
  }
  Result<void> wait(std::size_t hosts, std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    // A refusal at every host is final; a controller that is not there may come.
    const auto is_final = [&] {
      return problems_.size() == hosts &&
             std::all_of(problems_.begin(), problems_.end(), [](const auto& problem) {
               const auto code = problem.second.code();
               return code == ErrorCode::unauthorised || code == ErrorCode::refused ||
                      code == ErrorCode::version_mismatch || code == ErrorCode::identity_mismatch;
             });
    };
    changed_.wait_for(lock,
                      std::clamp<std::chrono::milliseconds>(deadline, std::chrono::milliseconds(1),
                                                            std::chrono::hours(24 * 20)),
                      [&] { return controller_.has_value() || is_final(); });
    if (controller_) return {};
    std::string detail = "subscribe: no controller has answered";
    auto code = ErrorCode::host_unreachable;
    for (const auto& [host, problem] : problems_) {
      detail += "; at " + host.to_string() + ": " + problem.to_string();
      code = problem.code();
    }
    return fail(code, detail + "; start one with meshbus-controller --hosts ADDR,ADDR");
  }
  std::optional<ProcId> controller() const {
    const std::lock_guard lock(mutex_);
    return controller_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<ProcId> controller_;
  std::map<HostAddr, Error> problems_;
};

class Subscription::Impl {
 public:
  Impl(std::shared_ptr<ContextCore> core, ControllerFeed::Options options,
       std::function<void(const SupervisionEvent&)> on_event);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> wait(std::chrono::milliseconds deadline) {
    return standing_->wait(hosts_, deadline);
  }
  ProcId controller() const { return *standing_->controller(); }

 private:
  std::shared_ptr<ContextCore> core_;
  std::size_t hosts_ = 0;
  std::shared_ptr<HandlerGate> gate_ = std::make_shared<HandlerGate>();
  std::shared_ptr<SubscriptionState> standing_ = std::make_shared<SubscriptionState>();
  std::unique_ptr<ControllerFeed> feed_;
};

// Not in the class: lambdas of inline functions would be seen outside of a shared library.
Subscription::Impl::Impl(std::shared_ptr<ContextCore> core, ControllerFeed::Options options,
                         std::function<void(const SupervisionEvent&)> on_event)
    : core_(std::move(core)) {
  const auto hosts = options.hosts.size();
  hosts_ = hosts;
  core_->run([&] {
    ControllerFeed::Events events;
    events.on_event = [&handlers = core_->handlers(), gate = gate_,
                       on_event = std::make_shared<decltype(on_event)>(std::move(on_event))](
                          SupervisionEvent event) {
      handlers.post(
          [gate, on_event, event = std::move(event)] { gate->pass([&] { (*on_event)(event); }); });
    };
    events.on_subscribed = [standing = standing_](const ProcId& controller) {
      standing->on_subscribed(controller);
    };
    events.on_trouble = [standing = standing_](const HostAddr& host, const Error& error) {
      standing->on_trouble(host, error);
    };
    feed_ =
        std::make_unique<ControllerFeed>(core_->reactor(), std::move(options), std::move(events));
  });
}

Subscription::Impl::~Impl() {
  if (!core_->check_process()) {
    // A forked child: these are not ours to touch.
    [[maybe_unused]] const auto* const parent = feed_.release();
    return;
  }
  gate_->shut();
  core_->run([this] { feed_.reset(); });
}

Subscription::Subscription(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Subscription::Subscription(Subscription&&) noexcept = default;
Subscription& Subscription::operator=(Subscription&&) noexcept = default;
Subscription::~Subscription() = default;

Result<Subscription> Subscription::open(Context& context, std::vector<HostAddr> hosts,
                                        SubscribeOptions options,
                                        std::function<void(const SupervisionEvent&)> on_event) {
  const auto& core = context.core();
  if (auto fine = check_owner(core); !fine) return fail(fine.error());
  if (hosts.empty())
    return fail(ErrorCode::configuration_error, "subscribe: no host of a controller is named");
  auto name = name_of(options);
  if (!name) return fail(name.error());
  ControllerFeed::Options feed;
  feed.hosts = std::move(hosts);
  feed.mesh = std::move(*name);
  feed.ranks = std::move(options.ranks);
  feed.probe = core->config().duration(keys::supervision_probe);
  feed.watchdog = core->config().duration(keys::watchdog);
  feed.reach = [&core = *core](const HostAddr& host, Session::Options& session) {
    core.reach(host, session);
  };
  auto impl = std::make_unique<Impl>(core, std::move(feed), std::move(on_event));
  if (auto subscribed = impl->wait(options.deadline); !subscribed) return fail(subscribed.error());
  return Subscription(std::move(impl));
}

ProcId Subscription::controller() const {
  return impl_ == nullptr ? ProcId(HostAddr::local(0), ProcName(Name::controller()))
                          : impl_->controller();
}

}  // namespace meshbus
