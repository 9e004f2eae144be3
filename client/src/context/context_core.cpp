#include "client/src/context/context_core.h"

#include "client/src/monitors/actor_monitor.h"
#include "common/base/masked_thread.h"
#include "common/loop/short_slices.h"
#include "common/security/keys.h"

namespace meshbus {

ContextCore::ContextCore(ContextOptions options, Config config)
    : options_(std::move(options)), config_(std::move(config)) {
  thread_ = start_masked_thread([this] {
    ask_for_short_slices();
    reactor_.run_for_all();
  });
  // Whatever runs there from now on sees thread_.
  run([] {});
}

Result<std::shared_ptr<ContextCore>> ContextCore::create(ContextOptions options) {
  auto sources = ConfigSources::of_process();
  sources.flags.assign(options.settings.begin(), options.settings.end());
  sources.flags_name = "ContextOptions::settings";
  sources.snapshot.assign(options.inherited.begin(), options.inherited.end());
  auto config = Config::load(std::move(sources));
  if (!config) return fail(config.error());
  // The last owner may be a handler, or something that the reactor let go: these cannot wait for
  // their own threads to end.
  const auto end = [](ContextCore* core) {
    if (!core->process_.is_here())
      return;  // A forked child: its threads are not here; whatever they held stays untouched.
    if (core->is_reactor_thread() || core->handlers_.is_here()) {
      start_masked_thread([core] { delete core; }).detach();
    } else {
      delete core;
    }
  };
  try {
    return std::shared_ptr<ContextCore>(new ContextCore(std::move(options), std::move(*config)),
                                        end);
  } catch (const std::exception& error) {
    return fail(ErrorCode::io_error,
                std::string("cannot start the threads of a context: ") + error.what());
  }
}

ContextCore::~ContextCore() {
  // First everything that waits is let go: a handler may wait for an answer.
  run([this] {
    closing_ = true;
    for (auto& [connection, owned] : connections_) connection->close("the launcher ends");
  });
  handlers_.finish();
  sender_.stop();
  run([this] { connections_.clear(); });
  reactor_.stop();
  thread_.join();
}

Result<void> ContextCore::check_process() const {
  if (process_.is_here()) return {};
  return fail(ErrorCode::refused, "a Context cannot be used after fork(): it belongs to process " +
                                      std::to_string(process_.pid()) +
                                      "; make a new one in the child");
}

Result<void> ContextCore::check_may_wait() const {
  if (auto fine = check_process(); !fine) return fine;
  if (!is_reactor_thread()) return {};
  return fail(ErrorCode::would_block,
              "this call waits for the Context's own thread, and came from it");
}

void ContextCore::reach(const HostAddr& host, Session::Options& session) const {
  const auto way = ways_.find(host);
  const auto at = way.socket.value_or(host);
  session.endpoint = at.zmq_endpoint();
  session.keys = keys_for(KeyDirectory::find(config_), at);
  if (way.keys) session.keys = [keys = *way.keys] { return Result<CurveKeys>(keys); };
}

ConnectionUse ContextCore::connect(const std::shared_ptr<ContextCore>& self,
                                   const HostAddr& gateway) {
  return run([this, &self, &gateway] {
    for (const auto& [connection, owned] : connections_) {
      if (connection->gateway().is_open() && connection->gateway().host() == gateway)
        return ConnectionUse(self, connection);
    }
    auto made = std::make_unique<Connection>(*this, gateway);
    auto* const connection = made.get();
    if (closing_) connection->close("the launcher ends");
    connections_.emplace(connection, std::move(made));
    sender_.forget_routes();  // this may be a better way
    return ConnectionUse(self, connection);
  });
}

ConnectionUse ContextCore::connect_to_nobody(const std::shared_ptr<ContextCore>& self) {
  return run([this, &self] {
    auto made = std::make_unique<Connection>(*this);
    auto* const connection = made.get();
    connections_.emplace(connection, std::move(made));
    return ConnectionUse(self, connection);
  });
}

Result<ConnectionUse> ContextCore::find_connection(const std::shared_ptr<ContextCore>& self,
                                                   const HostAddr& host) {
  return visit([&]() -> Result<ConnectionUse> {
    const auto best = best_connection(host);
    if (!best) return fail(best.error());
    return ConnectionUse(self, best->connection);
  });
}

Result<ContextCore::BestConnection> ContextCore::best_connection(const HostAddr& host) const {
  BestConnection best;
  for (const auto& [connection, owned] : connections_) {
    if (!connection->gateway().is_open()) continue;
    if (connection->gateway().host() == host) return BestConnection{connection, true};
    const bool is_known = connection->hosts().knows(host);
    if (best.connection == nullptr || (is_known && !best.is_known)) best = {connection, is_known};
  }
  if (best.connection != nullptr) return best;
  return fail(ErrorCode::unroutable,
              "no way to " + host.to_string() +
                  ": this Context has no host mesh; attach to one or start one first");
}

void ContextCore::flush() {
  for (const auto& [connection, owned] : connections_) {
    if (auto* const bus = connection->gateway().bus()) bus->flush();
  }
}

void ContextCore::release(Connection* connection) {
  // Behind what was posted for it.
  reactor_.post([this, connection] {
    const auto found = connections_.find(connection);
    // It may have got another use meanwhile.
    if (found == connections_.end() || connection->is_used()) return;
    connection->close("the launcher is done with this host mesh");
    connections_.erase(found);
  });
}

void ContextCore::on_host_ended(const HostAddr& host, const std::string& reason) {
  for (auto& [connection, owned] : connections_) connection->on_host_ended(host, reason);
}

void ContextCore::forget_actors(Connection* connection, const std::weak_ptr<ActorMonitor>& actors,
                                bool stops) {
  const auto found = connections_.find(connection);
  const auto monitor = actors.lock();
  if (found == connections_.end() || monitor == nullptr) return;
  if (stops && connection->gateway().bus() != nullptr)
    monitor->stop_unborn(*connection->gateway().bus());
  connection->updates().remove(*monitor);
}

ConnectionUse::~ConnectionUse() {
  if (connection_ == nullptr || !core_->check_process() || !connection_->drop_use()) return;
  core_->release(connection_);
}

ConnectionUse& ConnectionUse::operator=(ConnectionUse&& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(connection_, other.connection_);
  return *this;
}

}  // namespace meshbus
