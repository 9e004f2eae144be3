#include "client/src/context_core.h"

#include <unistd.h>

#include "common/security/keys.h"
#include "common/base/masked_thread.h"
#include "common/loop/short_slices.h"

namespace meshbus {

ContextCore::ContextCore(ContextOptions options, Config config)
    : options_(std::move(options)), config_(std::move(config)), pid_(::getpid()) {
  zmq_context_.set(zmq::ctxopt::max_sockets, 1024);
  thread_ = start_masked_thread([this] {
    ask_for_short_slices();
    reactor_.run();
  });
  // Whatever runs there from now on sees thread_.
  run([] {});
}

Result<std::shared_ptr<ContextCore>> ContextCore::create(ContextOptions options) {
  auto sources = ConfigSources::of_process();
  sources.flags.assign(options.settings.begin(), options.settings.end());
  sources.snapshot.assign(options.inherited.begin(), options.inherited.end());
  auto config = Config::load(std::move(sources));
  if (!config) return fail(config.error());
  // The last owner may be a handler, or something that the reactor let go: these cannot wait for their own threads to end.
  const auto end = [](ContextCore* core) {
    if (core->pid_ != ::getpid()) return;  // A forked child: its threads are not here; whatever they held stays untouched.
    if (core->is_reactor_thread() || core->handlers_.is_here()) {
      start_masked_thread([core] { delete core; }).detach();
    } else {
      delete core;
    }
  };
  try {
    return std::shared_ptr<ContextCore>(new ContextCore(std::move(options), std::move(*config)), end);
  } catch (const std::exception& error) {
    return fail(ErrorCode::io_error, std::string("cannot start the threads of a context: ") + error.what());
  }
}

ContextCore::~ContextCore() {
  // First everything that waits is let go: a handler may wait for an answer.
  run([this] {
    closing_ = true;
    for (auto& [connection, owned] : connections_) connection->close("the launcher ends");
  });
  handlers_.finish();
  run([this] { connections_.clear(); });
  reactor_.stop();
  thread_.join();
}

Result<void> ContextCore::check_process() const {
  if (pid_ == ::getpid()) return {};
  return fail(ErrorCode::refused,
              "a Context cannot be used after fork(): it belongs to process " + std::to_string(pid_) + "; make a new one in the child");
}

Result<void> ContextCore::check_may_wait() const {
  if (auto fine = check_process(); !fine) return fine;
  if (!is_reactor_thread()) return {};
  return fail(ErrorCode::would_block, "this call waits for the Context's own thread, and came from it");
}

void ContextCore::set_way(const HostAddr& host, Way way) {
  const std::lock_guard lock(ways_mutex_);
  ways_.insert_or_assign(host, std::move(way));
}

ContextCore::Way ContextCore::way_to(const HostAddr& host) const {
  const std::lock_guard lock(ways_mutex_);
  const auto found = ways_.find(host);
  return found == ways_.end() ? Way() : found->second;
}

void ContextCore::reach(const HostAddr& host, Session::Options& session) const {
  const auto way = way_to(host);
  const auto at = way.socket.value_or(host);
  session.endpoint = at.zmq_endpoint();
  session.keys = keys_for(KeyDirectory::find(config_), at);
  if (way.keys) session.keys = [keys = *way.keys] { return Result<CurveKeys>(keys); };
}

ConnectionUse ContextCore::connect(const std::shared_ptr<ContextCore>& self, const HostAddr& gateway) {
  return {self, run([this, gateway] {
            for (auto& [connection, owned] : connections_) {
              if (connection->gateway().is_open() && connection->gateway().host() == gateway) {
                ++owned.uses;
                return connection;
              }
            }
            auto made = std::make_unique<Connection>(*this, gateway);
            auto* const connection = made.get();
            if (closing_) connection->close("the launcher ends");
            connections_.emplace(connection, Owned{std::move(made), 1});
            return connection;
          })};
}

ConnectionUse ContextCore::connect_to_nobody(const std::shared_ptr<ContextCore>& self) {
  return {self, run([this] {
            auto made = std::make_unique<Connection>(*this);
            auto* const connection = made.get();
            connections_.emplace(connection, Owned{std::move(made), 1});
            return connection;
          })};
}

Result<ConnectionUse> ContextCore::find_connection(const std::shared_ptr<ContextCore>& self, const HostAddr& host) {
  auto* const found = run([this, host]() -> Connection* {
    Owned* best = nullptr;
    int best_score = -1;
    for (auto& [connection, owned] : connections_) {
      if (!connection->gateway().is_open()) continue;
      const int score = connection->gateway().host() == host ? 2 : connection->hosts().knows(host) ? 1 : 0;
      if (score <= best_score) continue;
      best = &owned;
      best_score = score;
    }
    if (best == nullptr) return nullptr;
    ++best->uses;
    return best->connection.get();
  });
  if (found == nullptr)
    return fail(ErrorCode::unroutable,
                "no way to " + host.to_string() + ": this Context has no host mesh; attach to one or start one first");
  return ConnectionUse(self, found);
}

ConnectionUse ContextCore::use_again(const std::shared_ptr<ContextCore>& self, Connection* connection) {
  run([&] { ++connections_.at(connection).uses; });
  return {self, connection};
}

void ContextCore::release(Connection* connection) {
  reactor_.post([this, connection] {
    const auto found = connections_.find(connection);
    if (found == connections_.end() || --found->second.uses != 0) return;
    found->second.connection->close("the launcher is done with this host mesh");
    connections_.erase(found);
  });
}

void ContextCore::on_host_ended(const HostAddr& host, const std::string& reason) {
  for (auto& [connection, owned] : connections_) connection->on_host_ended(host, reason);
}

void ContextCore::forget_actors(Connection* connection, const std::weak_ptr<ActorMonitor>& actors) {
  const auto found = connections_.find(connection);
  const auto monitor = actors.lock();
  if (found != connections_.end() && monitor != nullptr) found->second.connection->updates().remove(*monitor);
}

ConnectionUse::~ConnectionUse() {
  if (core_ != nullptr && core_->check_process()) core_->release(connection_);
}

ConnectionUse& ConnectionUse::operator=(ConnectionUse&& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(connection_, other.connection_);
  return *this;
}

}  // namespace meshbus
