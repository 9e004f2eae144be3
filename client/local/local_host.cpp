#include "client/local/local_host.h"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "agent/host/host_agent.h"
#include "broker/broker.h"
#include "common/base/masked_thread.h"
#include "common/config/config_keys.h"
#include "common/security/token.h"

namespace meshbus::local {
namespace {

/// What those that are killed at the end of their host may take to return.
constexpr std::chrono::seconds kEndLimit{1};
/// How often to look whether somebody does not want to wait for those that take longer.
constexpr std::chrono::milliseconds kLookInterval{50};

TokenMaker make_tokens() {
  std::string secret(TokenMaker::kSecretSize, '\0');
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  return TokenMaker(std::move(secret));
}

/// An abstract name: there is no file to clean up, and the broker lets nobody in but this user.
Result<HostAddr> make_address() {
  return HostAddr::unix_socket("@meshbus-local-" + std::to_string(::getpid()) + "-" +
                               std::to_string(random_u64()));
}

}  // namespace

/// What runs on the thread.
class LocalHost::Roles {
 public:
  static Result<std::unique_ptr<Roles>> start(Options& options,
                                              std::function<void(const HostAddr&)> on_up,
                                              std::function<void(const Error&)> on_refused) {
    std::unique_ptr<Roles> roles(new Roles(options.config));
    const auto tokens = make_tokens();
    const auto bind = make_address();
    if (!bind) return fail(bind.error());
    BrokerOptions broker;
    broker.binds = {*bind};
    broker.tokens = tokens;
    broker.config = options.config;
    auto started = Broker::start(roles->reactor_, std::move(broker));
    if (!started) return fail(started.error());
    roles->broker_ = std::move(*started);
    auto sockets = os::make_packet_pair();
    if (!sockets) return fail(sockets.error());
    roles->keeper_ = std::make_unique<ThreadKeeper>(roles->reactor_, std::move(sockets->first),
                                                    std::move(options.keeper));
    const auto address = roles->broker_->address();
    host::HostAgent::Events events;
    events.on_up = [address, on_up = std::move(on_up)] { on_up(address); };
    events.on_refused = [roles = roles.get(),
                         on_refused = std::move(on_refused)](const Error& error) {
      on_refused(error);
      roles->end({.how = "its broker does not have its agent: " + error.to_string(),
                  .is_in_order = false});
    };
    events.on_shutdown = [roles = roles.get()](bool ok) {
      roles->end(
          {.how = ok ? "it was shut down" : "it was shut down, and not all of its procs have ended",
           .is_in_order = ok});
    };
    events.on_keeper_lost = [roles = roles.get()] {
      roles->end({.how = "it has lost its keeper", .is_in_order = false});
    };
    roles->agent_ = std::make_unique<host::HostAgent>(
        roles->reactor_,
        host::HostAgent::Options{.host = address,
                                 .broker = address,
                                 .containment = "none: threads of its launcher",
                                 .tokens = tokens,
                                 .config = options.config,
                                 .environment = {},
                                 .keeper = std::move(sockets->second)},
        std::move(events));
    return roles;
  }

  Ended run(const std::atomic<bool>& is_hasty) {
    reactor_.run();
    agent_.reset();
    keeper_->kill_all();
    broker_->stop("this host ends");
    broker_.reset();
    auto left = keeper_->wait(kEndLimit);
    while (left > 0 && !is_hasty) left = keeper_->wait(kLookInterval);
    keeper_.reset();
    if (left > 0)
      ended_ = {
          ended_.how + "; threads of " + std::to_string(left) + " of its procs have not returned",
          false, left};
    return ended_;
  }
  void stop(const std::string& reason) {
    agent_->stop(grace_, reason, [this, reason] { end({.how = reason}); });
  }
  /// The first word counts.
  void end(Ended how) {
    if (!std::exchange(is_ending_, true)) ended_ = std::move(how);
    reactor_.stop();
  }
  Reactor& reactor() { return reactor_; }

 private:
  explicit Roles(const Config& config) : grace_(config.duration(keys::terminate_grace)) {}

  std::chrono::milliseconds grace_;
  Reactor reactor_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<ThreadKeeper> keeper_;
  std::unique_ptr<host::HostAgent> agent_;
  bool is_ending_ = false;
  Ended ended_;
};

LocalHost::LocalHost(Options options) {
  thread_ = start_masked_thread(
      [this, options = std::move(options)]() mutable { run(std::move(options)); });
}

LocalHost::~LocalHost() {
  kill("nobody has it any more");
  thread_.join();
}

void LocalHost::run(Options options) {
  Ended ended;
  try {
    auto roles = Roles::start(
        options,
        [this](const HostAddr& address) {
          const std::lock_guard lock(mutex_);
          if (!ready_) ready_ = address;
          changed_.notify_all();
        },
        [this](const Error& error) { fail_start(error); });
    if (!roles) {
      fail_start(roles.error());
    } else {
      {
        const std::lock_guard lock(mutex_);
        roles_ = roles->get();
        if (killed_) roles_->end({.how = *killed_, .is_in_order = false});
      }
      ended = (*roles)->run(is_hasty_);
      {
        const std::lock_guard lock(mutex_);
        roles_ = nullptr;
      }
      roles->reset();
    }
  } catch (const std::exception& error) {
    fail_start(Error(ErrorCode::io_error, error.what()));
  }
  std::unique_lock lock(mutex_);
  roles_ = nullptr;
  ended_ = ended;
  changed_.notify_all();
  const auto listener = std::exchange(listener_, nullptr);
  lock.unlock();
  if (listener) listener(ended);
}

void LocalHost::when_ended(EndListener listener) {
  std::unique_lock lock(mutex_);
  if (!ended_) {
    listener_ = std::move(listener);
    return;
  }
  lock.unlock();
  listener(*ended_);
}

void LocalHost::fail_start(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!ready_) ready_ = fail(error);
  changed_.notify_all();
}

Result<HostAddr> LocalHost::wait_ready(std::chrono::steady_clock::time_point end) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, end, [this] { return ready_.has_value(); }))
    return fail(ErrorCode::timeout, "it was not ready in time");
  return *ready_;
}

void LocalHost::post(std::function<void(Roles&)> task) {
  const std::lock_guard lock(mutex_);
  if (roles_ != nullptr)
    roles_->reactor().post([roles = roles_, task = std::move(task)] { task(*roles); });
}

void LocalHost::stop(const std::string& reason) {
  post([reason](Roles& roles) { roles.stop(reason); });
}

void LocalHost::kill(const std::string& reason) {
  is_hasty_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (roles_ == nullptr && !killed_) killed_ = reason;
  }
  post([reason](Roles& roles) { roles.end({.how = reason, .is_in_order = false}); });
}

std::optional<LocalHost::Ended> LocalHost::wait_end(std::chrono::steady_clock::time_point end) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, end, [this] { return ended_.has_value(); });
  return ended_;
}

}  // namespace meshbus::local
