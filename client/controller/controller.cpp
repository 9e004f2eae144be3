#include "client/controller/controller.h"

#include <unistd.h>

#include <algorithm>

#include "common/security/keys.h"
#include "common/base/log.h"
#include "common/security/token.h"
#include "wire/actors_generated.h"
#include "wire/bus_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

/// What a list of hosts that never answer would cost otherwise.
constexpr std::chrono::milliseconds kSoon{1};
/// Who was told that we would take a mesh, and has not given it to us after so long, does not want to any more.
constexpr std::chrono::milliseconds kOfferLimit{3000};
/// At its end a controller waits so long for what its hosts have to say of its meshes when all ranks have ended: exit reports may take 3 s.
constexpr std::chrono::milliseconds kLastWords{5000};

Supervisor::Options supervisor_options(const Controller::Options& options) {
  Supervisor::Options out;
  out.hosts = options.hosts;
  out.mesh = options.mesh;
  out.actors = options.actors;
  out.poll = options.poll;
  out.probe = options.probe;
  return out;
}

HostAnswer to_answer(const Supervisor::Question& question, const Result<ControlMessage>& answer) {
  using Kind = Supervisor::Question::Kind;
  if (!answer) return fail(answer.error());
  if (question.kind == Kind::probe) {
    if (const auto* const state = answer->body_as<wire::HostState>()) return HostNews{state->incarnation(), state->live()};
  } else if (question.kind == Kind::list) {
    if (const auto* const list = answer->body_as<wire::MeshList>()) return to_news(*list);
  } else if (question.kind == Kind::stop || question.kind == Kind::renew) {
    return std::monostate();
  } else if (question.kind == Kind::stream_actors) {
    if (const auto* const list = answer->body_as<wire::ActorList>()) return to_news(list->actors());
  } else if (question.kind == Kind::stop_actor) {
    if (const auto* const state = answer->body_as<wire::ActorState>())
      return ActorNews{.actors = {std::shared_ptr<const wire::ActorStateT>(state->UnPack())}};
  } else if (const auto* const state = answer->body_as<wire::MeshState>()) {
    auto news = to_news(*state);
    if (!news) return fail(news.error());
    return std::move(*news);
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
  options.grace = config.duration(keys::terminate_grace);
  options.stop_limit = config.duration(keys::stop_idle);
  options.reach = [keys = KeyDirectory::find(config)](const HostAddr& host, Session::Options& session) {
    session.endpoint = host.zmq_endpoint();
    session.keys = keys_for(keys, host);
  };
  return options;
}

Controller::Controller(Reactor& reactor, zmq::context_t& context, Options options, Events events)
    : reactor_(reactor),
      context_(context),
      options_(std::move(options)),
      events_(std::move(events)),
      supervisor_(supervisor_options(options_), reactor_.now()),
      name_(options_.is_controller ? Name::controller() : *Name::make("client")),
      incarnation_(random_u64()) {
  for (const auto& host : options_.hosts) agents_.emplace(host_service(host).key(), host);
  open();
  arm();
}

Controller::~Controller() {
  close("the controller ends");
}

void Controller::close(const std::string& reason) {
  if (std::exchange(is_closed_, true)) return;
  reactor_.cancel(timer_);
  reactor_.cancel(end_timer_);
  if (bus_ != nullptr) bus_->close(reason);
}

void Controller::end(const std::string& reason, std::function<void()> done) {
  if (when_ended_) return;
  when_ended_ = std::move(done);
  end_timer_ = reactor_.after(options_.grace + options_.stop_limit, [this] {
    log::warn(std::to_string(supervisor_.live_owned()) + " meshes of this controller have not ended; they do when their leases lapse");
    end_timer_ = 0;
    std::exchange(when_ended_, [] {})();
  });
  wire::StopProcsT order;
  order.reason = reason;
  order.requester = self().to_string();
  order.grace_ms = static_cast<std::uint32_t>(options_.grace.count());
  last_order_ = order;
  act(supervisor_.stop_owned(order, reactor_.now()));
}

void Controller::note_offers() {
  const bool is_ending = end_timer_ != 0;
  const auto taken = std::erase_if(offered_, [this](const auto& offer) {
    const auto* const mesh = supervisor_.find(offer.first);
    return mesh != nullptr && supervisor_.is_owned(*mesh);
  });
  std::erase_if(offered_, [this](const auto& offer) { return reactor_.now() - offer.second > kOfferLimit; });
  if (is_ending && taken != 0) act(supervisor_.stop_owned(last_order_, reactor_.now()));
}

void Controller::check_end() {
  if (end_timer_ == 0 || supervisor_.live_owned() != 0 || !offered_.empty()) return;
  // Who subscribes is to hear how they ended, if that can be known at all.
  if (!all_ended_) all_ended_ = reactor_.now();
  if (!supervisor_.has_told_owned() && reactor_.now() - *all_ended_ < kLastWords) return;
  reactor_.cancel(std::exchange(end_timer_, 0));
  // Not from inside of what it may end.
  reactor_.post([done = std::exchange(when_ended_, [] {})] { done(); });
}

void Controller::open() {
  Session::Options options;
  options_.reach(options_.hosts[home_], options);
  options.hello.peer = name_.to_string();
  options.hello.kind = options_.is_controller ? wire::PeerKind::controller : wire::PeerKind::launcher;
  options.hello.incarnation = incarnation_;
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  Bus::Events events;
  events.on_up = [this](const wire::Welcome&) {
    down_since_.reset();
    refusals_ = 0;
    act(supervisor_.connected(true, reactor_.now()));
    // A host that was home before may come back, with meshes that know us by that name.
    if (options_.is_controller && bus_->self()) act(supervisor_.add_name(bus_->self()->to_string(), reactor_.now()));
    if (events_.on_up) events_.on_up(self());
  };
  events.on_down = [this](const std::string& reason) {
    down_since_ = reactor_.now();
    act(supervisor_.connected(false, reactor_.now()));
    log::warn("the broker at " + options_.hosts[home_].to_string() + " is away: " + reason);
  };
  events.on_refused = [this](const Error& error) { on_refused(error); };
  events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) { on_undeliverable(envelope, error); };
  down_since_ = reactor_.now();
  bus_ = std::make_unique<Bus>(reactor_, context_, std::move(options), make_handlers(), std::move(events));
}

void Controller::on_refused(const Error& error) {
  // The others may think otherwise.
  if (++refusals_ >= options_.hosts.size()) {
    if (events_.on_refused) events_.on_refused(error);
    return;
  }
  log::warn(error.to_string());
  down_since_ = Reactor::Time{};
}

void Controller::on_undeliverable(const wire::Envelope& envelope, const Error& error) {
  // What was lost on its way its receiver misses, and asks for; only who is gone is forgotten.
  if (error.code() == ErrorCode::queue_full || error.code() == ErrorCode::fate_unknown) return;
  if (subscriptions_.drop(envelope.destination_proc())) log::info("a subscriber cannot be reached and is dropped: " + error.to_string());
}

ProcId Controller::self() const {
  return bus_ != nullptr && bus_->self() ? *bus_->self() : ProcId(options_.hosts[home_], ProcName(name_));
}

void Controller::on_turn() {
  const auto now = reactor_.now();
  check_home(now);
  act(supervisor_.turn(now));
}

void Controller::arm() {
  if (is_closed_) return;
  reactor_.cancel(timer_);
  timer_ = reactor_.at(std::max(supervisor_.next_due(), reactor_.now() + kSoon), [this] { on_turn(); });
}

void Controller::check_home(Reactor::Time now) {
  if (!down_since_ || now - *down_since_ < options_.home_limit) return;
  act(supervisor_.silent(options_.hosts[home_], "its broker does not answer", now));
  if (options_.hosts.size() == 1) return;
  bus_->close("going to another host");
  bus_.reset();
  home_ = (home_ + 1) % options_.hosts.size();
  open();
}

void Controller::act(Supervisor::Actions actions) {
  for (const auto& question : actions.questions) ask(question);
  say(actions.events);
  if (actions.is_heartbeat) {
    send_heartbeats();
    supervisor_.forget_actors([this](const std::string& name) { return subscriptions_.count(name) != 0; }, reactor_.now());
  }
  arm();
  note_offers();
  check_end();
}

void Controller::ask(const Supervisor::Question& question) {
  using Kind = Supervisor::Question::Kind;
  const auto to = Destination::to_agent(question.host);
  const auto on_answer = [this, question](const Result<ControlMessage>& answer) {
    if (!is_closed_) act(supervisor_.answer(question, to_answer(question, answer), reactor_.now()));
  };
  // Between two brokers.
  if (bus_ == nullptr) return on_answer(fail(ErrorCode::fate_unknown, "not connected"));
  switch (question.kind) {
    case Kind::probe: bus_->request(to, wire::GetHostT(), options_.answer_limit, on_answer); break;
    case Kind::list: {
      wire::ListMeshesT list;
      list.after = question.after;
      bus_->request(to, std::move(list), options_.answer_limit, on_answer);
      break;
    }
    case Kind::stream: {
      wire::StreamStateT stream;
      stream.mesh = question.mesh;
      stream.subscriber = self().to_string();
      bus_->request(to, std::move(stream), options_.answer_limit, on_answer);
      break;
    }
    case Kind::state: {
      wire::GetStateT get;
      get.mesh = question.mesh;
      bus_->request(to, std::move(get), options_.answer_limit, on_answer);
      break;
    }
    case Kind::renew: {
      wire::RenewLeaseT renew;
      renew.meshes = question.meshes;
      bus_->request(to, std::move(renew), options_.answer_limit, on_answer);
      break;
    }
    case Kind::stop: {
      const auto* const mesh = supervisor_.find(question.mesh);
      if (mesh != nullptr) bus_->request(to, mesh->stop_order(), options_.answer_limit, on_answer);
      break;
    }
    case Kind::stream_actors:
    case Kind::stop_actor: ask_actors(question, on_answer); break;
  }
}

void Controller::ask_actors(const Supervisor::Question& question, Bus::Answer on_answer) {
  const auto* const actors = supervisor_.find_actors(question.mesh);
  if (actors == nullptr) return;
  const auto to = Destination::to(ProcId(question.host, proc_name(actors->name().mesh(), question.rank)));
  const auto name = actors->name().actor().to_string();
  if (question.kind == Supervisor::Question::Kind::stream_actors) {
    wire::StreamActorsT stream;
    stream.name = name;
    stream.subscriber = self().to_string();
    bus_->request(to, std::move(stream), options_.answer_limit, std::move(on_answer));
    return;
  }
  wire::StopActorT stop;
  stop.name = name;
  stop.reason = actors->stop_order().reason;
  stop.grace_ms = actors->stop_order().grace_ms;
  // It is answered when the actor has ended.
  bus_->request(to, std::move(stop), options_.answer_limit + std::chrono::milliseconds(actors->stop_order().grace_ms),
                std::move(on_answer));
}

void Controller::say(const std::vector<WatchEvent>& events) {
  if (events.empty()) return;
  for (const auto& event : events) {
    if (event.kind == WatchEvent::Kind::late) log::warn("this poll is " + std::to_string(event.lateness.count()) + " ms late");
  }
  if (events_.on_events) events_.on_events(events);
  for (const auto& subscriber : subscriptions_.subscribers()) send(subscriber, subscriptions_.for_subscriber(subscriber, events), false);
}

void Controller::on_state_changed(const Request& request, const wire::StateChanged& changed) {
  const auto found = agents_.find(request.envelope.source_proc());
  if (found == agents_.end() || found->second.key() != request.envelope.source_host()) return;
  auto news = to_news(changed.ranks(), changed.exit_reports(), changed.troubles());
  news.owner = to_news(changed.ownership());
  act(supervisor_.pushed(found->second, changed.mesh()->str(), news, reactor_.now()));
}

void Controller::on_actor_event(const Request& request, const wire::ActorEvent& event) {
  const auto& from = request.envelope;
  act(supervisor_.actors_pushed(from.source_proc(), from.source_host(), from.source_incarnation(), to_news(event.actors()),
                                reactor_.now()));
}

}  // namespace meshbus
