#include "client/src/connection.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "client/src/accumulating.h"
#include "client/src/actor_monitor.h"
#include "client/src/context_core.h"
#include "client/src/log_feed.h"
#include "client/src/mesh_monitor.h"
#include "common/security/keys.h"
#include "common/base/log.h"
#include "common/security/token.h"
#include "wire/actors_generated.h"
#include "wire/bus_generated.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::seconds kAskLimit{5};
/// A host that does not answer so long is named. With the second between two questions that is within the 5 s of spec 8.7.
constexpr std::chrono::seconds kHostAskLimit{3};
/// A home that is away so long is given up when there are other hosts: their agents can be heard from there. Likewise: 2 s are gone before
/// the loss is noticed.
constexpr std::chrono::seconds kHomeLimit{2};
/// The last answer of a proc that ends in order may come after the word of its end.
constexpr std::chrono::milliseconds kLastAnswerLimit{250};
/// Bus counts deadlines in 32 bits of milliseconds.
constexpr std::chrono::milliseconds kLongestWait{std::chrono::hours(24 * 20)};

}  // namespace

Connection::Connection(ContextCore& core, HostAddr home)
    : core_(core), home_(std::move(home)), name_(*Name::make("client")), incarnation_(random_u64()) {
  add_hosts({home_});
  open_bus();
  on_upkeep();
}

Connection::Connection(ContextCore& core)
    : core_(core),
      home_(HostAddr::local(0)),
      name_(*Name::make("client")),
      incarnation_(random_u64()),
      closed_(true),
      last_problem_("there is no host") {}

Connection::~Connection() {
  close("the launcher ends");
}

std::chrono::milliseconds Connection::clamp(std::chrono::milliseconds deadline) {
  return std::clamp(deadline, std::chrono::milliseconds(1), kLongestWait);
}

void Connection::open_bus() {
  Session::Options options;
  core_.reach(home_, options);
  options.hello.peer = name_.to_string();
  options.hello.kind = wire::PeerKind::launcher;
  options.hello.incarnation = incarnation_;
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  Dispatcher handlers;
  handlers.on<wire::StateChanged>(Role::host, std::bind_front(&Connection::on_state_changed, this))
      .on<wire::Output>(Role::host, std::bind_front(&Connection::on_output, this))
      .on<wire::Log>(Role::host, std::bind_front(&Connection::on_log, this))
      .on<wire::ActorEvent>(Role::proc, std::bind_front(&Connection::on_actor_event, this));
  Bus::Events events;
  events.on_up = [this](const wire::Welcome& welcome) { on_up(welcome); };
  events.on_down = [this](const std::string& reason) { on_down(reason); };
  events.on_trouble = [this](const std::string& reason) {
    const std::lock_guard lock(mutex_);
    last_problem_ = reason;
  };
  events.on_refused = [this](const Error& error) { on_refused(error); };
  events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body) { on_data(envelope, header, body); };
  // What comes is of those who do not want to hear of it, or is given back.
  events.when_taken = [](const std::function<void()>& then) { then(); };
  home_since_ = core_.reactor().now();
  down_since_ = home_since_;
  bus_ = std::make_unique<Bus>(core_.reactor(), core_.zmq_context(), std::move(options), std::move(handlers), std::move(events));
}

void Connection::close(const std::string& reason) {
  if (bus_ == nullptr) return;
  core_.reactor().cancel(upkeep_timer_);
  bus_->close(reason);
  bus_.reset();
  // Nothing more will be heard of them: whoever waits must not wait for ever.
  lose_all(reason);
  meshes_.clear();
  for (const auto& [number, feed] : feeds_) feed->on_closed(reason);
  feeds_.clear();
  actors_.clear();
  {
    const std::lock_guard lock(mutex_);
    up_ = false;
    closed_ = true;
    last_problem_ = reason;
  }
  changed_.notify_all();
}

void Connection::add_hosts(const std::vector<HostAddr>& hosts) {
  for (const auto& host : hosts) {
    hosts_.try_emplace(host);
    agents_.emplace(host_service(host).key(), host);
  }
}

void Connection::add(std::shared_ptr<MeshMonitor> monitor) {
  add_hosts(monitor->mesh().hosts());
  auto name = monitor->name();
  // Whoever waits for an answer of a proc that has ended is told so. (Failures are heard of here when their exit reports have come.)
  monitor->listen([this, alive = std::weak_ptr<void>(alive_), mesh = monitor->mesh(),
                   weak = std::weak_ptr(monitor)](const RankReport& rank) {
    if (alive.expired()) return false;
    const auto wait = rank.is_failure() ? std::chrono::milliseconds(0) : kLastAnswerLimit;
    core_.reactor().after(
        wait, [this, alive, weak, wait, life = rank.restarts, number = rank.rank, proc = mesh.proc_of(rank.rank), words = rank.describe()] {
          // Who asks the next life is answered by that one.
          const auto still = weak.lock();
          if (wait.count() > 0 && still != nullptr && still->restarts_of(number) != life) return;
          if (!alive.expired() && bus_ != nullptr && proc) bus_->give_up(Destination::to(*proc), "its proc has ended: " + words);
        });
    return true;
  });
  meshes_.insert_or_assign(std::move(name), Followed{std::move(monitor), self(), core_.reactor().now()});
}

void Connection::remove(const MeshMonitor& monitor) {
  meshes_.erase(monitor.name());
}

Result<void> Connection::wait_up(std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, clamp(deadline), [this] { return up_ || closed_ || refusal_.has_value(); });
  if (refusal_) return fail(*refusal_);
  if (up_) return {};
  return fail(ErrorCode::host_unreachable, home_.to_string() + ": " + (last_problem_.empty() ? "no broker answers there" : last_problem_));
}

std::string Connection::self() const {
  const std::lock_guard lock(mutex_);
  return self_;
}

Error Connection::explain(const Error& error) const {
  const std::lock_guard lock(mutex_);
  if (up_ || error.code() != ErrorCode::timeout) return error;
  return {ErrorCode::host_unreachable, error.detail() + "; there is no connection to the broker at " + home_.to_string() +
                                           (last_problem_.empty() ? "" : ": " + last_problem_)};
}

Connection::Answer Connection::ask_with(Asker asker) {
  auto promise = std::make_shared<std::promise<Result<ControlMessage>>>();
  auto future = promise->get_future();
  core_.post([this, asker = std::move(asker), promise] {
    if (bus_ == nullptr) {
      promise->set_value(fail(ErrorCode::host_unreachable, "the connection to " + home_.to_string() + " is closed"));
      return;
    }
    asker(*bus_, [this, promise](Result<ControlMessage> answer) {
      if (!answer) answer = fail(explain(answer.error()));
      promise->set_value(std::move(answer));
    });
  });
  return future;
}

Result<std::string> Connection::call(const ProcId& proc, std::uint32_t port, std::string_view body, std::chrono::milliseconds deadline) {
  auto promise = std::make_shared<std::promise<Result<std::string>>>();
  auto future = promise->get_future();
  core_.post([this, promise, host = proc.host(), to = Destination::to(proc), port, body = std::string(body), limit = clamp(deadline)] {
    if (bus_ == nullptr) {
      promise->set_value(fail(ErrorCode::host_unreachable, "the connection to " + home_.to_string() + " is closed"));
      return;
    }
    if (auto loss = loss_of(host)) {
      promise->set_value(fail(std::move(*loss)));
      return;
    }
    bus_->call(to, port, body, limit, [this, promise](Result<std::string> answer) {
      if (!answer) answer = fail(explain(answer.error()));
      promise->set_value(std::move(answer));
    });
  });
  auto answer = future.get();
  if (!answer) return fail(answer.error().within("call to " + proc.to_string() + ", port " + std::to_string(port)));
  return answer;
}

Result<void> Connection::send(const ProcId& proc, std::uint32_t port, std::string_view body) {
  return send_with(proc, port, [&](Bus& bus) { return bus.send(Destination::to(proc), port, body); });
}

Result<void> Connection::send(const ProcId& proc, std::uint32_t port, const SharedBody& body) {
  return send_with(proc, port, [&](Bus& bus) { return bus.send(Destination::to(proc), port, body); });
}

Result<void> Connection::send_with(const ProcId& proc, std::uint32_t port, const std::function<Result<void>(Bus&)>& send) {
  auto sent = core_.run([&]() -> Result<void> {
    if (bus_ == nullptr) return fail(ErrorCode::host_unreachable, "the connection to " + home_.to_string() + " is closed");
    return send(*bus_);
  });
  if (!sent) return fail(sent.error().within("send to " + proc.to_string() + ", port " + std::to_string(port)));
  return sent;
}

Result<void> Connection::cast(const ProcMeshRef& to, std::uint32_t port, std::string_view body) {
  auto sent = core_.run([&]() -> Result<void> {
    if (bus_ == nullptr) return fail(ErrorCode::host_unreachable, "the connection to " + home_.to_string() + " is closed");
    const auto plan = plans_.get(to);
    if (!plan) return fail(plan.error());
    return bus_->cast(**plan, port, body);
  });
  if (!sent) return fail(sent.error().within("cast to " + to.mesh().to_string() + ", port " + std::to_string(port)));
  return sent;
}

Result<CastAnswers::Answers> Connection::call_all(const ProcMeshRef& to, std::uint32_t port, std::string_view body,
                                                  std::chrono::milliseconds deadline) {
  auto answers = std::make_shared<CastAnswers>(to.num_ranks());
  auto future = answers->get_future();
  auto asked = core_.run([&, answers = std::move(answers)]() -> Result<void> {
    if (bus_ == nullptr) return fail(ErrorCode::host_unreachable, "the connection to " + home_.to_string() + " is closed");
    const auto plan = plans_.get(to);
    if (!plan) return fail(plan.error());
    // Ranks on hosts that are proved lost answer nothing: theirs are known before the call.
    std::map<std::uint64_t, Error> losses;
    const auto is_lost = [this](const HostAddr& host) { return loss_of(host).has_value(); };
    if (std::any_of(to.hosts().begin(), to.hosts().end(), is_lost)) {
      for (std::uint64_t ordinal = 0; ordinal < to.num_ranks(); ++ordinal) {
        const auto proc = to.proc_at(ordinal);
        if (auto loss = proc ? loss_of(proc->host()) : std::nullopt) losses.emplace(ordinal, std::move(*loss));
      }
    }
    bus_->cast_call(*plan, port, body, clamp(deadline), [this, answers, losses](std::uint64_t ordinal, Result<std::string> answer) {
      if (losses.contains(ordinal)) return;
      if (!answer) answer = fail(explain(answer.error()));
      answers->fill(ordinal, std::move(answer));
    });
    for (auto& [ordinal, loss] : losses) answers->fill(ordinal, fail(std::move(loss)));
    return {};
  });
  if (!asked) return fail(asked.error().within("call to " + to.mesh().to_string() + ", port " + std::to_string(port)));
  return future.get();
}

void Connection::on_up(const wire::Welcome& welcome) {
  const auto announced = text_of(welcome.host());
  const auto host = HostAddr::parse(announced);
  if (!host || *host != home_) {
    on_refused(Error(ErrorCode::identity_mismatch, "at " + home_.to_string() + " answers a host that calls itself " + announced));
    retired_ = true;
    core_.post([this, alive = std::weak_ptr<void>(alive_)] {
      if (!alive.expired()) close("another host answers there");
    });
    return;
  }
  down_since_.reset();
  given_up_ = false;
  bool is_again = false;
  {
    const std::lock_guard lock(mutex_);
    is_again = !self_.empty();
    self_ = bus_->self() ? bus_->self()->to_string() : ProcId(*host, ProcName(name_)).to_string();
    up_ = true;
    last_problem_.clear();
  }
  changed_.notify_all();
  if (!is_again) return;
  for (auto& [name, mesh] : meshes_) {
    for (const auto& [address, watch] : hosts_) resync(mesh, address);
    ask_for_output(mesh);
  }
  for (const auto& actors : actors_) actors->resync(*bus_, self(), std::nullopt);
}

void Connection::ask_for_output(const Followed& mesh) {
  if (bus_ == nullptr || !mesh.monitor->options().has_output) return;
  wire::OutputTakenT again;
  again.mesh = mesh.monitor->name();
  again.resend = true;
  for (const auto& host : mesh.monitor->mesh().hosts()) bus_->tell(Destination::to_agent(host), again);
}

void Connection::add(std::shared_ptr<LogFeed> feed) {
  feed->start(*this);
  feeds_.insert_or_assign(feed->number(), std::move(feed));
}

void Connection::remove(const LogFeed& feed) {
  feeds_.erase(feed.number());
}

void Connection::add(const std::shared_ptr<ActorMonitor>& actors, const std::shared_ptr<MeshMonitor>& procs) {
  actors_.push_back(actors);
  procs->listen([this, alive = std::weak_ptr<void>(alive_), weak = std::weak_ptr(actors)](const RankReport& proc) {
    if (weak.expired()) return false;
    if (!alive.expired()) on_proc_end(weak, proc);
    return true;
  });
}

void Connection::remove(const ActorMonitor& actors) {
  std::erase_if(actors_, [&](const auto& one) { return one.get() == &actors; });
}

void Connection::on_proc_end(const std::weak_ptr<ActorMonitor>& actors, const RankReport& proc) {
  const auto monitor = actors.lock();
  if (monitor == nullptr) return;
  monitor->on_proc_end(proc);
  const auto id = monitor->ref().procs().proc_of(proc.rank);
  if (bus_ != nullptr && id) bus_->give_up(Destination::to(*id), "its proc has ended: " + proc.describe());
}

void Connection::on_actor_event(const Request& request, const wire::ActorEvent& event) {
  for (const auto& actors : actors_) actors->on_states(request.envelope, event.actors());
}

void Connection::on_log(const Request& request, const wire::Log& log) {
  const auto* const host = agent_behind(request.envelope);
  const auto found = feeds_.find(log.stream());
  if (host != nullptr && found != feeds_.end()) found->second->on_log(*host, log);
}

void Connection::on_down(const std::string& reason) {
  down_since_ = core_.reactor().now();
  const std::lock_guard lock(mutex_);
  up_ = false;
  last_problem_ = reason;
}

void Connection::on_refused(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    up_ = false;
    refusal_ = error;
    last_problem_ = error.detail();
  }
  changed_.notify_all();
  lose_all(error.detail());
}

std::shared_ptr<MeshMonitor> Connection::find(const flatbuffers::String* mesh) const {
  const auto found = meshes_.find(mesh->string_view());
  return found == meshes_.end() ? nullptr : found->second.monitor;
}

const HostAddr* Connection::agent_behind(const wire::Envelope& envelope) const {
  const auto found = agents_.find(envelope.source_proc());
  return found == agents_.end() || found->second.key() != envelope.source_host() ? nullptr : &found->second;
}

void Connection::on_state_changed(const Request& request, const wire::StateChanged& changed) {
  const auto* const host = agent_behind(request.envelope);
  const auto monitor = find(changed.mesh());
  if (host == nullptr || monitor == nullptr) return;
  monitor->on_news(*host, changed.ranks(), changed.exit_reports(), changed.launch());
  monitor->on_troubles(*host, changed.troubles(), nullptr);
}

void Connection::on_output(const Request& request, const wire::Output& output) {
  const auto* const host = agent_behind(request.envelope);
  const auto monitor = find(output.mesh());
  if (host == nullptr || monitor == nullptr) return;
  monitor->on_output(*host, output,
                     [this, to = Destination::to_agent(*host), mesh = output.mesh()->str(),
                      alive = std::weak_ptr<void>(alive_)](wire::OutputTakenT taken) {
                       if (alive.expired() || bus_ == nullptr) return;
                       taken.mesh = mesh;
                       bus_->tell(to, std::move(taken));
                     });
}

std::chrono::milliseconds Connection::upkeep_interval() const {
  auto interval = std::clamp<std::chrono::milliseconds>(core_.config().duration(keys::supervision_probe), std::chrono::milliseconds(100),
                                                        std::chrono::seconds(5));
  for (const auto& [name, mesh] : meshes_) {
    if (mesh.given_lease.count() > 0 && !mesh.monitor->is_handed_over())
      interval = std::min(interval, std::max(mesh.given_lease / 6, std::chrono::milliseconds(10)));
  }
  return interval;
}

void Connection::begin_handover(const std::string& mesh, std::chrono::milliseconds lease) {
  const auto found = meshes_.find(mesh);
  if (bus_ == nullptr || found == meshes_.end()) return;
  found->second.given_lease = lease;
  found->second.lease_due = {};
  core_.reactor().cancel(upkeep_timer_);
  on_upkeep();
}

void Connection::on_upkeep() {
  auto& reactor = core_.reactor();
  const auto interval = upkeep_interval();
  const auto now = reactor.now();
  if (upkeep_timer_ != 0 && now > upkeep_due_ + 2 * interval) {
    // It is this process that was away (stopped, starved): everybody gets a fresh grace.
    if (down_since_) down_since_ = now;
    for (auto& [host, watch] : hosts_) {
      if (watch.silent_since) watch.silent_since = now;
    }
  }
  upkeep_due_ = now + interval;
  upkeep_timer_ = reactor.at(upkeep_due_, [this] { on_upkeep(); });

  std::erase_if(meshes_, [](const auto& entry) { return entry.second.monitor->is_abandoned() && entry.second.monitor->is_over(); });
  if (down_since_) {
    const auto limit = core_.config().duration(keys::delivery_limit);
    if (!given_up_ && now - *down_since_ >= limit) {
      given_up_ = true;
      lose_all("no connection to the broker at " + home_.to_string() + " for " + std::to_string(limit.count()) + " ms");
    }
    if (now - home_since_ >= kHomeLimit && now - *down_since_ >= kHomeLimit) move_home();
    return;
  }
  for (auto& [host, watch] : hosts_) check_host(host, watch);
  for (const auto& [name, mesh] : meshes_) {
    if (mesh.monitor->should_ask_again()) ask_for_output(mesh);
  }
  for (const auto& [number, feed] : feeds_) feed->on_upkeep();
  renew_leases();
}

void Connection::check_host(const HostAddr& host, HostWatch& watch) {
  const bool is_needed =
      std::any_of(meshes_.begin(), meshes_.end(), [&](const auto& entry) { return entry.second.monitor->is_alive_on(host); });
  if (!is_needed) watch.silent_since.reset();
  if (watch.is_dead || watch.is_asked || !is_needed) return;
  watch.is_asked = true;
  bus_->request(Destination::to_agent(host), wire::GetHostT(), kHostAskLimit,
                [this, host](const Result<ControlMessage>& answer) { on_host_answer(host, answer); });
}

void Connection::on_host_answer(const HostAddr& host, const Result<ControlMessage>& answer) {
  auto& watch = hosts_.at(host);
  watch.is_asked = false;
  if (watch.is_dead) return;
  const auto now = core_.reactor().now();
  const auto* const state = answer ? answer->body_as<wire::HostState>() : nullptr;
  if (state == nullptr) {
    watch.problem = answer ? "it answered nonsense" : answer.error().to_string();
    // A loss of our own connection says nothing about that host.
    if (!is_up()) return;
    if (!watch.silent_since) {
      watch.silent_since = now;
      log::warn("host " + host.to_string() + " does not answer: " + watch.problem);
    }
    const auto limit = core_.config().duration(keys::delivery_limit);
    if (now - *watch.silent_since >= limit) lose(host, "no answer for " + std::to_string(limit.count()) + " ms: " + watch.problem);
    return;
  }
  const bool was_silent = watch.silent_since.has_value();
  const bool is_another = watch.incarnation != 0 && watch.incarnation != state->incarnation();
  if (was_silent) log::warn("host " + host.to_string() + " answers again");
  watch.silent_since.reset();
  watch.incarnation = state->incarnation();
  // What the one before was asked and has not answered, nobody will answer any more.
  if (is_another) bus_->give_up(Destination::to_agent(host), "the agent of host " + host.to_string() + " was replaced before it answered");
  // What was told meanwhile may be lost; and who took an order to tell us may have been replaced before we knew who it was.
  for (auto& [name, mesh] : meshes_) {
    const auto synced = mesh.synced.find(host);
    if (was_silent || synced == mesh.synced.end() || synced->second != watch.incarnation) resync(mesh, host);
  }
  if (!was_silent && !is_another) return;
  for (const auto& actors : actors_) {
    actors->resync(*bus_, self(), host);
    // A new agent knows nothing of them.
    actors->lease_due = {};
  }
}

void Connection::resync(Followed& mesh, const HostAddr& host) {
  // A rank's end may have come, and its exit report, which follows, have been lost.
  if (bus_ == nullptr || !mesh.monitor->has_untold_on(host)) return;
  mesh.synced.erase(host);
  const auto on_answer = [this, alive = std::weak_ptr<void>(alive_), monitor = mesh.monitor, host,
                          agent = hosts_.at(host).incarnation](const Result<ControlMessage>& answer) {
    if (!answer) {
      // The agent is there and has never heard of ranks that it had accepted: it is another life of that host, and theirs is over.
      if (answer.error().code() == ErrorCode::not_exist)
        monitor->lose(host, "the host agent does not know this mesh any more: the host was started anew");
      return;
    }
    if (const auto* state = answer->body_as<wire::MeshState>()) {
      monitor->on_news(host, state->ranks(), state->exit_reports(), state->launch());
      monitor->on_troubles(host, state->troubles(), state->ranks());
      if (alive.expired()) return;
      if (const auto followed = meshes_.find(monitor->name()); followed != meshes_.end()) followed->second.synced[host] = agent;
    }
  };
  if (const auto name = self(); name != mesh.owner || mesh.monitor->is_handed_over()) {
    wire::StreamStateT stream;
    stream.mesh = mesh.monitor->name();
    stream.subscriber = name;
    bus_->request(Destination::to_agent(host), std::move(stream), kAskLimit, on_answer);
  } else {
    wire::GetStateT get;
    get.mesh = mesh.monitor->name();
    bus_->request(Destination::to_agent(host), std::move(get), kAskLimit, on_answer);
  }
}

void Connection::renew_leases() {
  const auto now = core_.reactor().now();
  std::map<std::pair<HostAddr, std::chrono::milliseconds>, std::vector<std::string>> due;
  for (auto& [name, mesh] : meshes_) {
    const auto own = mesh.monitor->options().lease, given = mesh.given_lease;
    const auto shortest = own.count() == 0 || given.count() == 0 ? own + given : std::min(own, given);
    // While it is being handed over each host keeps the length that it has: 0.
    const auto lease = given.count() == 0 ? own : std::chrono::milliseconds(0);
    if (shortest.count() == 0 || now < mesh.lease_due || mesh.monitor->is_abandoned() || mesh.monitor->is_handed_over()) continue;
    mesh.lease_due = now + shortest / 3;
    for (const auto& [host, watch] : hosts_) {
      if (!watch.is_dead && mesh.monitor->is_alive_on(host)) due[{host, lease}].push_back(name);
    }
  }
  for (const auto& actors : actors_) {
    if (actors->lease().count() == 0 || now < actors->lease_due) continue;
    actors->lease_due = now + actors->lease() / 3;
    for (const auto& [host, watch] : hosts_) {
      if (!watch.is_dead && actors->is_leased_on(host)) due[{host, actors->lease()}].push_back(actors->lease_name());
    }
  }
  for (auto& [key, names] : due) {
    wire::RenewLeaseT renew;
    renew.meshes = std::move(names);
    renew.lease_ms = static_cast<std::uint32_t>(key.second.count());
    bus_->request(Destination::to_agent(key.first), std::move(renew), kAskLimit, [host = key.first](const Result<ControlMessage>& answer) {
      if (!answer) log::debug("renewing leases on " + host.to_string() + ": " + answer.error().to_string());
    });
  }
}

void Connection::lose(const HostAddr& host, const std::string& reason) {
  for (const auto& [name, mesh] : meshes_) mesh.monitor->lose(host, reason);
}

std::optional<Error> Connection::loss_of(const HostAddr& host) const {
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || !found->second.is_dead) return std::nullopt;
  return Error(ErrorCode::host_unreachable, "host " + host.to_string() + " is lost: " + found->second.problem);
}

void Connection::lose_all(const std::string& reason) {
  for (const auto& [host, watch] : hosts_) lose(host, reason);
}

void Connection::on_host_dead(const HostAddr& host, const std::string& reason) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || bus_ == nullptr) return;
  found->second.is_dead = true;
  found->second.problem = reason;
  lose(host, reason);
  for (const auto& [ticket, running] : accumulating_) running->on_host_dead(host, reason);
  if (host == home_) move_home();
}

void Connection::move_home() {
  if (retired_ || bus_ == nullptr) return;
  // The next host after the old home, round and round.
  std::optional<HostAddr> next;
  const auto start = hosts_.find(home_);
  for (auto at = std::next(start);; ++at) {
    if (at == hosts_.end()) at = hosts_.begin();
    if (at == start) break;
    if (at->second.is_dead) continue;
    next = at->first;
    break;
  }
  if (!next) return;
  log::warn("the broker at " + home_.to_string() + " is away; going on from " + next->to_string());
  const auto down_since = down_since_.value_or(core_.reactor().now());
  bus_->close("moving to another host");
  bus_.reset();
  {
    const std::lock_guard lock(mutex_);
    up_ = false;
    home_ = *next;
  }
  open_bus();
  down_since_ = down_since;
}

}  // namespace meshbus
