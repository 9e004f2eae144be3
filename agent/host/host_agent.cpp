#include "agent/host/host_agent.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "agent/host/hands/execs.h"
#include "agent/host/liveness/liveness_monitor.h"
#include "agent/host/output/log_streams.h"
#include "agent/host/ownership/host_owner.h"
#include "agent/host/ownership/pair_terms.h"
#include "agent/host/procs/mesh_procs.h"
#include "agent/host/replies/collections.h"
#include "agent/host/services/chaos_service.h"
#include "agent/host/services/hands_service.h"
#include "agent/host/services/host_facts.h"
#include "agent/host/services/host_service.h"
#include "agent/host/services/lifecycle_service.h"
#include "agent/host/services/log_service.h"
#include "agent/host/services/ownership_service.h"
#include "agent/host/services/pair_service.h"
#include "agent/host/services/request_checks.h"
#include "agent/host/services/resize_service.h"
#include "agent/host/services/stacks_service.h"
#include "agent/host/services/state_service.h"
#include "agent/host/services/update_fanout.h"
#include "agent/host/services/upgrade_service.h"
#include "agent/host/services/warden_report.h"
#include "agent/host/updates/publisher.h"
#include "agent/host/updates/rank_waits.h"
#include "common/base/log.h"
#include "common/bus/bus.h"
#include "wire/bus_generated.h"

namespace meshbus::host {
namespace {

Session::Options session_options(const HostAgent::Options& options, std::uint64_t incarnation) {
  Session::Options session;
  session.endpoint = options.broker.zmq_endpoint();
  session.hello.peer = host_service(options.host).to_string();
  session.hello.kind = wire::PeerKind::agent;
  session.hello.incarnation = incarnation;
  session.hello.token = options.tokens.make(session.hello.peer, incarnation);
  session.hello.pid = static_cast<std::uint32_t>(::getpid());
  return session;
}

bool is_own_pid_namespace(const HostAgent::Options& options) {
  return options.containment == "pid namespace";
}

}  // namespace

/// The parts of an agent, in the order in which they are made: each uses those above it. The
/// handlers of the bus find the services when the first message comes.
/// Large because: it lists what an agent consists of.
struct HostAgent::Parts {
  Parts(HostAgent& agent, Options options);
  ~Parts();
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  Dispatcher make_handlers();
  Bus::Events bus_events(HostAgent& agent);
  static MeshProcs::Options procs_options(Options& options, const Events& events);

  std::string disk;  ///< The run directory.
  Bus bus;
  std::unique_ptr<LogStreams> logs;
  std::unique_ptr<MeshProcs> procs;
  std::unique_ptr<Execs> execs;
  PairTerms terms;
  RequestChecks checks;
  Publisher publisher;
  RankWaits waits;
  Collections collections;
  UpdateFanout updates;
  LivenessMonitor liveness;
  WardenReport warden;
  std::unique_ptr<HostOwner> owner;
  std::unique_ptr<OwnershipService> ownership;
  std::unique_ptr<PairService> pairs;
  std::unique_ptr<ResizeService> resizes;
  std::unique_ptr<LifecycleService> lifecycle;
  std::unique_ptr<HostFacts> facts;
  std::unique_ptr<HostService> host;
  std::unique_ptr<StateService> state;
  std::unique_ptr<LogService> log;
  std::unique_ptr<StacksService> stacks;
  std::unique_ptr<HandsService> hands;
  std::unique_ptr<ChaosService> chaos;
  std::unique_ptr<UpgradeService> upgrade;
};

HostAgent::Parts::Parts(HostAgent& agent, Options options)
    : disk(std::filesystem::path(options.progress).parent_path()),
      bus(agent.reactor_, session_options(options, agent.incarnation_), make_handlers(),
          bus_events(agent)),
      logs(std::make_unique<LogStreams>(bus)),
      procs(std::make_unique<MeshProcs>(
          agent.reactor_, std::move(options.keeper),
          BootstrapWriter(options.tokens, options.broker.zmq_endpoint(), options.config),
          procs_options(options, agent.events_), *logs)),
      execs(std::make_unique<Execs>(
          bus, procs->sides(), procs->table(),
          Execs::Options{.most = options.config.count(keys::exec_limit),
                         .environment = std::move(options.environment),
                         .own_pid_namespace = is_own_pid_namespace(options)})),
      terms(agent.reactor_.now()),
      checks(bus, procs->table(), terms, agent.host_text_),
      publisher(bus, agent.host_text_),
      waits(bus, procs->table(), agent.host_text_,
            [this](const ProcId& asker) { ownership->release(asker); }),
      collections(bus, procs->table(), options.host,
                  {.on_asker = [this](const ProcId& asker) { ownership->watch(asker); },
                   .on_idle = [this](const ProcId& asker) { ownership->release(asker); }}),
      updates(procs->table(), publisher, waits, collections, *logs),
      liveness(bus, procs->table(), options.config, agent.host_text_) {
  // A proc may say that it is up before its birth is heard of.
  procs->launches().when_ready([this](Proc& proc) { liveness.on_heartbeat(proc); });
  owner = std::make_unique<HostOwner>(agent.reactor_, procs->events(), procs->ledger(),
                                      agent.host_text_,
                                      [this](const std::string& why) { host->end(why); });
  ownership = std::make_unique<OwnershipService>(OwnershipService::Parts{.bus = bus,
                                                                         .procs = *procs,
                                                                         .checks = checks,
                                                                         .publisher = publisher,
                                                                         .logs = *logs,
                                                                         .waits = waits,
                                                                         .collections = collections,
                                                                         .execs = *execs,
                                                                         .host = *owner},
                                                 options.config.duration(keys::terminate_grace));
  pairs = std::make_unique<PairService>(PairService::Parts{.bus = bus,
                                                           .procs = *procs,
                                                           .checks = checks,
                                                           .ownership = *ownership,
                                                           .host = *owner,
                                                           .terms = terms});
  resizes = std::make_unique<ResizeService>(bus, *procs, checks);
  lifecycle = std::make_unique<LifecycleService>(LifecycleService::Parts{.reactor = agent.reactor_,
                                                                         .bus = bus,
                                                                         .procs = *procs,
                                                                         .checks = checks,
                                                                         .ownership = *ownership,
                                                                         .liveness = liveness,
                                                                         .resizes = *resizes},
                                                 options.host);
  facts = std::make_unique<HostFacts>(bus, *procs, warden,
                                      HostFacts::Options{.host = agent.host_text_,
                                                         .containment = options.containment,
                                                         .incarnation = agent.incarnation_});
  host = std::make_unique<HostService>(
      bus, *procs, checks, updates, *facts, *owner,
      HostService::Options{.in_flight = options.config.count(keys::terminate_in_flight),
                           .grace = options.config.duration(keys::terminate_grace),
                           .on_shutdown = [&agent](bool ok) { agent.events_.on_shutdown(ok); }});
  state = std::make_unique<StateService>(StateService::Parts{.bus = bus,
                                                             .procs = *procs,
                                                             .checks = checks,
                                                             .ownership = *ownership,
                                                             .publisher = publisher,
                                                             .waits = waits,
                                                             .facts = *facts});
  log = std::make_unique<LogService>(bus, *procs, checks, *ownership, publisher, *logs);
  stacks = std::make_unique<StacksService>(agent.reactor_, bus, *procs, checks);
  hands = std::make_unique<HandsService>(bus, checks, *ownership, *execs);
  chaos = std::make_unique<ChaosService>(
      bus, *procs, checks,
      ChaosService::Options{.is_allowed = options.config.flag(keys::chaos_allowed),
                            .longest = options.config.duration(keys::chaos_longest),
                            .most = options.config.count(keys::chaos_most),
                            .disk = disk,
                            .ask_warden = agent.events_.ask_warden});
  upgrade =
      std::make_unique<UpgradeService>(agent.reactor_, bus, checks, agent.events_.ask_upgrade);
}

// The readers hold meshes, and what procs have open may be answered while they are closed.
HostAgent::Parts::~Parts() {
  logs.reset();
  execs.reset();
  procs.reset();
}

MeshProcs::Options HostAgent::Parts::procs_options(Options& options, const Events& events) {
  return {.address = options.host,
          .config = options.config,
          .environment = options.environment,
          .own_pid_namespace = is_own_pid_namespace(options),
          .ledger = std::move(options.ledger),
          .spool = std::move(options.spool),
          .events = std::move(options.events),
          .limits = std::move(options.limits),
          .progress = std::move(options.progress),
          .why_keeper_lost = events.why_keeper_lost};
}

Dispatcher HostAgent::Parts::make_handlers() {
  Dispatcher handlers;
  LifecycleService::add_rows(handlers, lifecycle);
  ResizeService::add_rows(handlers, resizes);
  OwnershipService::add_rows(handlers, ownership);
  PairService::add_rows(handlers, pairs);
  HostService::add_rows(handlers, host);
  StateService::add_rows(handlers, state);
  LogService::add_rows(handlers, log);
  StacksService::add_rows(handlers, stacks);
  HandsService::add_rows(handlers, hands);
  ChaosService::add_rows(handlers, chaos);
  UpgradeService::add_rows(handlers, upgrade);
  return handlers;
}

Bus::Events HostAgent::Parts::bus_events(HostAgent& agent) {
  Bus::Events events;
  events.on_up = [this, &agent](const wire::Welcome& welcome) {
    host->on_broker(welcome.incarnation());
    agent.on_up();
  };
  events.on_down = [](const std::string& reason) {
    log::warn("the broker is away: " + reason + "; the procs of this host live on");
  };
  events.on_refused = [&agent](const Error& error) { agent.events_.on_refused(error); };
  events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
    ownership->on_undeliverable(envelope, error);
  };
  events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader& header,
                          Bytes body) { collections.on_data(envelope, header, body); };
  // Messages for the agent's ports are sent without a wish to hear of them, or are given back.
  events.when_taken = [](const std::function<void()>& then) { then(); };
  return events;
}

HostAgent::HostAgent(Reactor& reactor, Options options, Events events)
    : reactor_(reactor),
      events_(std::move(events)),
      host_text_(options.host.to_string()),
      incarnation_(random_u64()) {
  // Before the bus adds its own hook: what is said at the end of a turn leaves at the end of that
  // turn.
  turn_end_ = reactor_.add_turn_end([this] { on_turn_end(); });
  parts_ = std::make_unique<Parts>(*this, std::move(options));
  parts_->procs->take_over();
  parts_->owner->take_over();
  parts_->pairs->take_over();
  parts_->liveness.add_live();
  parts_->ownership->watch_all();
  // Owners of procs that were taken over are told everything again.
  was_up_ = !parts_->procs->table().meshes().empty();
}

HostAgent::~HostAgent() {
  reactor_.forget_turn_end(turn_end_);
  reactor_.cancel(forget_timer_);
}

void HostAgent::on_warden_answer(std::string_view answer) {
  parts_->chaos->on_warden_answer(answer);
}

bool HostAgent::on_warden_report(std::string_view word, std::string_view text) {
  if (word != "upgrade") return parts_->warden.take(word, text);
  parts_->upgrade->on_warden_answer(text);
  return true;
}

std::size_t HostAgent::live() const {
  return parts_->procs->table().live();
}

void HostAgent::on_turn_end() {
  MeshProcs& procs = *parts_->procs;
  procs.advance();
  procs.write_down();
  parts_->lifecycle->answer_spawns();
  parts_->execs->check();
  procs.send_orders();
  procs.resume_outputs();
  parts_->lifecycle->send_questions();
  parts_->updates.flush();
  // Ends are told first: what the keeper may forget can wait.
  parts_->bus.flush();
  procs.talk_to_keeper();
  procs.forget_old([this](Mesh& mesh) { parts_->updates.forget(mesh); });
  if (const auto due = procs.table().forget_due(); due && forget_timer_ == 0) {
    // The hook of that turn does the work.
    forget_timer_ = reactor_.at(*due, [this] { forget_timer_ = 0; });
  }
  if (procs.has_lost_keeper()) leave_without_keeper();
}

void HostAgent::leave_without_keeper() {
  if (std::exchange(is_leaving_, true)) return;
  parts_->bus.close("the keeper of host " + host_text_ + " has died");
  reactor_.post([this, alive = std::weak_ptr<void>(alive_)] {
    if (!alive.expired()) events_.on_keeper_lost();
  });
}

void HostAgent::on_up() {
  if (was_up_) {
    parts_->ownership->on_up();
    parts_->publisher.on_up(parts_->procs->table().meshes());
    parts_->logs->on_up();
    parts_->execs->on_up();
  }
  was_up_ = true;
  events_.on_up();
}

void HostAgent::stop(std::chrono::milliseconds grace, const std::string& reason,
                     std::function<void()> done) {
  const StopOrder order{.reason = reason,
                        .requester = "host " + host_text_,
                        .grace = grace,
                        .cause = wire::Cause::host_ended};
  // All at once: the warden waits for this host to end.
  parts_->procs->shut_down(order, SIZE_MAX,
                           [this, done = std::move(done), reason](const DrainOutcome&) {
                             parts_->updates.publish();
                             parts_->bus.close(reason);
                             done();
                           });
}

}  // namespace meshbus::host
