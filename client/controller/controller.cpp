#include "client/controller/controller.h"

#include <algorithm>

#include "client/controller/host_update.h"
#include "common/base/log.h"
#include "common/security/keys.h"
#include "wire/actors_generated.h"
#include "wire/bootstrap_generated.h"
#include "wire/bus_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

/// What a list of hosts that never answer would cost otherwise.
constexpr std::chrono::milliseconds kSoon{1};
/// At the end of the acting one of a pair it is looked so often whether another one acts.
constexpr std::chrono::milliseconds kSuccessorLook{50};

Supervisor::Options supervisor_options(const Controller::Options& options) {
  Supervisor::Options out;
  out.hosts = options.hosts;
  out.mesh = options.mesh;
  out.actors = options.actors;
  out.poll = options.poll;
  out.probe = options.probe;
  return out;
}

HandoverService::Options handover_options(const Controller::Options& options) {
  const auto lease = options.is_controller ? options.lease : std::chrono::milliseconds(0);
  return {.hosts = options.hosts,
          .mesh = options.mesh,
          .lease = lease,
          .grace = options.grace,
          .stop_limit = options.stop_limit,
          .answer_limit = options.answer_limit};
}

HostAnswer to_answer(const Supervisor::Question& question, const Result<ControlMessage>& answer) {
  using Kind = Supervisor::Question::Kind;
  if (!answer) return fail(answer.error());
  if (question.kind == Kind::probe) {
    if (const auto* const state = answer->body_as<wire::HostState>())
      return HostUpdate{state->incarnation(), state->live(), to_update(state->owner())};
  } else if (question.kind == Kind::list) {
    if (const auto* const list = answer->body_as<wire::MeshList>()) return to_update(*list);
  } else if (question.kind == Kind::stop || question.kind == Kind::renew ||
             question.kind == Kind::stop_gang || question.kind == Kind::restart) {
    return std::monostate();
  } else if (question.kind == Kind::stream_actors) {
    if (const auto* const list = answer->body_as<wire::ActorList>())
      return to_update(list->actors());
  } else if (question.kind == Kind::stop_actor) {
    if (const auto* const state = answer->body_as<wire::ActorState>())
      return ActorUpdate{.actors = {std::shared_ptr<const wire::ActorStateT>(state->UnPack())}};
  } else if (const auto* const state = answer->body_as<wire::MeshState>()) {
    auto update = to_update(*state);
    if (!update) return fail(update.error());
    return std::move(*update);
  }
  return fail(ErrorCode::malformed_message, "it answered " + answer->body_name());
}

}  // namespace

Controller::Options Controller::Options::from(const Config& config, std::vector<HostAddr> hosts) {
  Options options;
  options.hosts = std::move(hosts);
  options.poll = config.duration(keys::supervision_poll);
  options.probe = std::min(config.duration(keys::supervision_probe), options.poll);
  options.lease = config.duration(keys::lease);
  options.term = config.duration(keys::supervision_term);
  options.grace = config.duration(keys::terminate_grace);
  options.stop_limit = config.duration(keys::stop_idle);
  options.reach = [keys = KeyDirectory::find(config)](const HostAddr& host,
                                                      Session::Options& session) {
    session.endpoint = host.zmq_endpoint();
    session.keys = keys_for(keys, host);
  };
  return options;
}

Controller::Controller(Reactor& reactor, Options options, Events events)
    : reactor_(reactor),
      options_(std::move(options)),
      events_(std::move(events)),
      supervisor_(supervisor_options(options_), reactor_.now()),
      gateway_(reactor,
               {.hosts = options_.hosts,
                .is_controller = options_.is_controller,
                .waits_for_name = !options_.pair.empty(),
                .limit = options_.home_limit,
                .reach = options_.reach},
               gateway_events()),
      seat_(reactor, gateway_,
            {.pair = options_.pair, .hosts = options_.hosts, .lease = options_.term},
            {.on_change = [this](const PairNotice& notice) { on_pair(notice); },
             .on_claimed =
                 [this](const HostAddr& host, const std::vector<PairFormer>& former) {
                   act(supervisor_.claimed(host, former, reactor_.now()));
                 }}),
      subscribers_(reactor, gateway_, supervisor_, seat_, options_.poll),
      handovers_(reactor, gateway_, supervisor_, seat_, handover_options(options_)) {
  for (const auto& host : options_.hosts) agents_.emplace(host_service(host).key(), host);
  gateway_.open();
  arm();
}

Controller::~Controller() {
  close("the controller ends");
}

ControllerGateway::Events Controller::gateway_events() {
  ControllerGateway::Events events;
  events.make_handlers = [this] { return make_handlers(); };
  events.on_up = [this] {
    act(supervisor_.connected(true, reactor_.now()));
    take_name();
    seat_.on_up();
    if (events_.on_up) events_.on_up(gateway_.self());
  };
  events.on_down = [this] { act(supervisor_.connected(false, reactor_.now())); };
  events.on_refused = events_.on_refused;
  events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
    subscribers_.on_undeliverable(envelope, error);
  };
  return events;
}

void Controller::take_name() {
  // A host whose broker was ours before may come back, with meshes that know us by that name.
  const auto self = gateway_.confirmed_self();
  if (options_.is_controller && self && seat_.is_acting())
    act(supervisor_.add_name(self->to_string(), reactor_.now()));
}

void Controller::on_pair(const PairNotice& notice) {
  if (notice.is_acting) {
    take_name();
  } else {
    act(supervisor_.drop_names(reactor_.now()));
    subscribers_.drop_all();
  }
  if (events_.on_pair) events_.on_pair(notice);
}

Dispatcher Controller::make_handlers() {
  Dispatcher handlers;
  const auto at_subscribers = [this](auto handler) {
    return [this, handler](const Request& request, const auto& message) {
      (subscribers_.*handler)(request, message);
    };
  };
  handlers.on<wire::StateChanged>(Role::host, std::bind_front(&Controller::on_state_changed, this))
      .on<wire::ActorEvent>(Role::proc, std::bind_front(&Controller::on_actor_event, this))
      .on<wire::Subscribe>(Role::observe,
                           [this](const Request& request, const wire::Subscribe& message) {
                             act(subscribers_.on_subscribe(request, message));
                           })
      .on<wire::Unsubscribe>(Role::observe, at_subscribers(&SubscriberService::on_unsubscribe))
      .on<wire::GetSubscriberCount>(Role::observe,
                                    at_subscribers(&SubscriberService::on_get_subscriber_count))
      .on<wire::GetState>(Role::observe, at_subscribers(&SubscriberService::on_get_state))
      .on<wire::ListMeshes>(Role::observe, at_subscribers(&SubscriberService::on_list_meshes))
      .on<wire::StopProcs>(Role::operate, std::bind_front(&Controller::on_stop_procs, this))
      .on<wire::StopAndExit>(Role::operate, std::bind_front(&Controller::on_stop_and_exit, this))
      .on<wire::OrderResize>(Role::operate,
                             std::bind_front(&HandoverService::on_order_resize, &handovers_))
      .on<wire::OfferMesh>(Role::operate,
                           std::bind_front(&HandoverService::on_offer_mesh, &handovers_))
      .on<wire::HandOver>(
          Role::operate, [this](const Request& request, const wire::HandOver& message) {
            handovers_.on_hand_over(
                request, message, [this](Supervisor::Actions actions) { act(std::move(actions)); });
          });
  return handlers;
}

void Controller::close(const std::string& reason) {
  if (std::exchange(is_closed_, true)) return;
  reactor_.cancel(timer_);
  reactor_.cancel(end_timer_);
  handovers_.close();
  seat_.close();
  gateway_.close(reason);
}

void Controller::end(const std::string& reason, std::function<void()> done) {
  if (seat_.has_pair() && seat_.may_act() && seat_.others() != 0 && end_timer_ == 0) {
    seat_.give_up();
    return await_successor(reason, std::move(done), reactor_.now() + 2 * options_.term);
  }
  if (handovers_.begin_end(reason, std::move(done))) act(handovers_.stop_all());
}

void Controller::await_successor(const std::string& reason, std::function<void()> done,
                                 Reactor::Time until) {
  const auto now = reactor_.now();
  const auto actor = seat_.actor();
  if (!seat_.is_acting() && !actor.empty() && actor != gateway_.self().to_string()) {
    log::info("controller " + actor + " has taken over");
    // Posted, because it may destroy the caller.
    return reactor_.post([done = std::move(done)] { done(); });
  }
  // Nobody has: then it is ours again, and ends with its meshes.
  if (now >= until) seat_.resume();
  if (seat_.is_acting() || now >= until + options_.term) {
    if (handovers_.begin_end(reason, std::move(done))) act(handovers_.stop_all());
    return;
  }
  end_timer_ = reactor_.after(kSuccessorLook, [this, reason, done = std::move(done), until] {
    await_successor(reason, done, until);
  });
}

void Controller::on_turn() {
  seat_.look();
  const auto now = reactor_.now();
  check_gateway(now);
  act(supervisor_.turn(now));
}

void Controller::arm() {
  if (is_closed_) return;
  reactor_.cancel(timer_);
  timer_ =
      reactor_.at(std::max(supervisor_.next_due(), reactor_.now() + kSoon), [this] { on_turn(); });
}

void Controller::check_gateway(Reactor::Time now) {
  if (!gateway_.should_move(now)) return;
  // A refusal is an answer: the host is there.
  if (!gateway_.is_refused())
    act(supervisor_.silent(gateway_.host(), "its broker does not answer", now));
  gateway_.move();
}

void Controller::act(Supervisor::Actions actions) {
  // First what is said, then what is ordered: should this process die between the two, another
  // controller decides anew, and nothing was ordered that nobody heard of.
  say(actions.events);
  // Before it is asked what it has: it is to name the owner in this term.
  for (const auto& event : actions.events) {
    if (event.kind == WatchEvent::Kind::host_back && event.mesh.empty())
      seat_.on_host_back(event.host);
  }
  for (const auto& question : actions.questions) ask(question);
  if (actions.is_heartbeat) {
    subscribers_.send_heartbeats();
    const auto is_wanted = [this](const std::string& name) { return subscribers_.is_wanted(name); };
    supervisor_.forget_actors(is_wanted, reactor_.now());
  }
  arm();
  auto more = handovers_.note_offers();
  if (!more.questions.empty() || !more.events.empty()) act(std::move(more));
  handovers_.check_end();
}

void Controller::ask(const Supervisor::Question& question) {
  using Kind = Supervisor::Question::Kind;
  const auto to = Destination::to_agent(question.host);
  const auto on_answer = [this, question](const Result<ControlMessage>& answer) {
    if (is_closed_) return;
    seat_.look();
    act(supervisor_.answer(question, to_answer(question, answer), reactor_.now()));
  };
  auto* const bus = gateway_.bus();
  if (bus == nullptr) return on_answer(fail(ErrorCode::fate_unknown, "not connected"));
  const bool is_owners = question.kind == Kind::renew || question.kind == Kind::stop_gang ||
                         question.kind == Kind::restart;
  if (is_owners && !seat_.may_act())
    return on_answer(fail(ErrorCode::would_block, "the term of this controller is over"));
  switch (question.kind) {
    case Kind::probe: bus->request(to, wire::GetHostT(), options_.answer_limit, on_answer); break;
    case Kind::list: {
      wire::ListMeshesT list;
      list.after = question.after;
      bus->request(to, std::move(list), options_.answer_limit, on_answer);
      break;
    }
    case Kind::stream: {
      wire::StreamStateT stream;
      stream.mesh = question.mesh;
      stream.subscriber = gateway_.self().to_string();
      const auto* const mesh = supervisor_.find(question.mesh);
      stream.owner_moved =
          mesh != nullptr && supervisor_.has_moved(*mesh, question.host, gateway_.self());
      bus->request(to, std::move(stream), options_.answer_limit, on_answer);
      break;
    }
    case Kind::state: {
      wire::GetStateT get;
      get.mesh = question.mesh;
      bus->request(to, std::move(get), options_.answer_limit, on_answer);
      break;
    }
    case Kind::renew: {
      wire::RenewLeaseT renew;
      renew.meshes = question.meshes;
      renew.term = seat_.mark();
      bus->request(to, std::move(renew), options_.answer_limit, on_answer);
      break;
    }
    case Kind::stop: {
      const auto* const mesh = supervisor_.find(question.mesh);
      if (mesh == nullptr) break;
      auto stop = mesh->stop_order();
      stop.term = seat_.mark();
      bus->request(to, std::move(stop), options_.answer_limit, on_answer);
      break;
    }
    case Kind::stop_gang: {
      auto stop = *question.stop;
      stop.mesh = question.mesh;
      stop.requester = gateway_.self().to_string();
      stop.grace_ms = static_cast<std::uint32_t>(options_.grace.count());
      stop.term = seat_.mark();
      bus->request(to, std::move(stop), options_.answer_limit, on_answer);
      break;
    }
    case Kind::restart: {
      const auto* const mesh = supervisor_.find(question.mesh);
      if (mesh == nullptr) break;
      auto restart = *question.restart;
      restart.mesh = question.mesh;
      const auto now = ClockPair::now();
      restart.plan = std::make_unique<wire::RestartPlanT>(
          to_wire(mesh->restart_plan(question.host, now.steady), now));
      restart.term = seat_.mark();
      bus->request(to, std::move(restart), options_.answer_limit, on_answer);
      break;
    }
    case Kind::stream_actors:
    case Kind::stop_actor: ask_actors(question, on_answer); break;
  }
}

void Controller::ask_actors(const Supervisor::Question& question, Bus::Answer on_answer) {
  const auto* const actors = supervisor_.find_actors(question.mesh);
  if (actors == nullptr) return;
  const auto to =
      Destination::to(ProcId(question.host, proc_name(actors->name().mesh(), question.rank)));
  const auto name = actors->name().actor().to_string();
  if (question.kind == Supervisor::Question::Kind::stream_actors) {
    wire::StreamActorsT stream;
    stream.name = name;
    stream.subscriber = gateway_.self().to_string();
    gateway_.bus()->request(to, std::move(stream), options_.answer_limit, std::move(on_answer));
    return;
  }
  wire::StopActorT stop;
  stop.name = name;
  stop.reason = actors->stop_order().reason;
  stop.grace_ms = actors->stop_order().grace_ms;
  // It is answered when the actor has ended.
  gateway_.bus()->request(
      to, std::move(stop),
      options_.answer_limit + std::chrono::milliseconds(actors->stop_order().grace_ms),
      std::move(on_answer));
}

void Controller::say(const std::vector<WatchEvent>& events) {
  if (events.empty()) return;
  for (const auto& event : events) {
    if (event.kind == WatchEvent::Kind::late)
      log::warn("this poll is " + std::to_string(event.lateness.count()) + " ms late");
  }
  told_ += events.size();
  if (events_.on_events) events_.on_events(events);
  subscribers_.tell(events);
}

ControllerCounts Controller::counts() const {
  ControllerCounts counts;
  counts.polls = supervisor_.polls();
  counts.late_polls = supervisor_.late_polls();
  counts.events = told_;
  counts.subscribers = subscribers_.count();
  counts.hosts = options_.hosts.size();
  counts.unreachable = supervisor_.unreachable().size();
  counts.meshes = supervisor_.meshes().size();
  counts.owned = supervisor_.live_owned();
  for (const auto& [name, mesh] : supervisor_.meshes()) {
    counts.ranks += mesh.size();
    counts.live += mesh.live();
    counts.unheard += mesh.unheard();
    counts.failed += mesh.failed();
  }
  counts.is_up = gateway_.bus() != nullptr && gateway_.bus()->is_up();
  counts.is_acting = seat_.may_act();
  counts.term = seat_.term();
  counts.actor = seat_.has_pair() ? seat_.actor() : std::string();
  return counts;
}

void Controller::on_state_changed(const Request& request, const wire::StateChanged& changed) {
  const auto found = agents_.find(request.envelope.source_proc());
  if (found == agents_.end() || found->second.key() != request.envelope.source_host()) return;
  seat_.look();
  auto update =
      to_update(changed.ranks(), changed.exit_reports(), changed.troubles(), changed.stuck());
  update.owner = to_update(changed.ownership());
  if (changed.layout() != nullptr) {
    if (auto layout = from_wire(*changed.layout())) update.layout = std::move(*layout);
  }
  act(supervisor_.pushed(found->second, changed.mesh()->str(), update, reactor_.now()));
}

void Controller::on_actor_event(const Request& request, const wire::ActorEvent& event) {
  const auto& from = request.envelope;
  act(supervisor_.actors_pushed(from.source_proc(), from.source_host(), from.source_incarnation(),
                                to_update(event.actors()), reactor_.now()));
}

void Controller::on_stop_and_exit(const Request& request, const wire::StopAndExit& message) {
  if (!events_.on_stop_asked)
    return gateway_.bus()->refuse(
        request, Error(ErrorCode::refused, "controller " + gateway_.self().to_string() +
                                               " is part of another program, which ends it"));
  gateway_.bus()->answer(request, wire::AckT());
  auto reason = text_of(message.reason());
  if (reason.size() > kTextLimit) reason.resize(kTextLimit);
  events_.on_stop_asked(reason.empty() ? "somebody has stopped it" : reason);
}

void Controller::on_stop_procs(const Request& request, const wire::StopProcs& message) {
  if (const auto acts = seat_.check(); !acts) return gateway_.bus()->refuse(request, acts.error());
  wire::StopProcsT order;
  message.UnPackTo(&order);
  if (order.reason.size() > kTextLimit) order.reason.resize(kTextLimit);
  if (order.requester.size() > kTextLimit) order.requester.resize(kTextLimit);
  auto actions = supervisor_.stop(std::move(order), reactor_.now());
  // A mesh that is not there counts as stopped, as at a host.
  gateway_.bus()->answer(request, wire::AckT());
  if (actions) act(std::move(*actions));
}

}  // namespace meshbus
