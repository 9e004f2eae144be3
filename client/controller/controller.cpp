#include "client/controller/controller.h"

#include <unistd.h>

#include <algorithm>

#include "common/log.h"
#include "common/token.h"

namespace meshbus {
namespace {

constexpr std::size_t kMostSubscriptions = 10'000;

}  // namespace

Controller::Controller(Reactor& reactor, zmq::context_t& context, Options options, Events events)
    : reactor_(reactor),
      context_(context),
      options_(std::move(options)),
      events_(std::move(events)),
      watch_(options_.mesh),
      incarnation_(random_u64()) {
  open();
  poll_due_ = reactor_.now();
  on_poll();
}

Controller::~Controller() {
  close("the controller ends");
}

void Controller::close(const std::string& reason) {
  if (std::exchange(is_closed_, true)) return;
  reactor_.cancel(poll_timer_);
  if (bus_ != nullptr) bus_->close(reason);
}

void Controller::open() {
  Session::Options options;
  options.endpoint = options_.hosts[home_].zmq_endpoint();
  options.keys = keys_for(options_.keys, options_.hosts[home_]);
  options.hello.peer = Name::controller().to_string();
  options.hello.kind = wire::PeerKind::controller;
  options.hello.incarnation = incarnation_;
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  Dispatcher handlers;
  handlers.on<wire::Subscribe>(Role::observe, std::bind_front(&Controller::on_subscribe, this))
      .on<wire::Unsubscribe>(Role::observe, std::bind_front(&Controller::on_unsubscribe, this));
  Bus::Events events;
  events.on_up = [this](const wire::Welcome&) {
    down_since_.reset();
    refusals_ = 0;
    // What is to be known is known now, not at the next poll.
    for (const auto& host : options_.hosts) ask(host);
  };
  events.on_down = [this](const std::string& reason) {
    down_since_ = reactor_.now();
    log::warn("the broker at " + options_.hosts[home_].to_string() + " is away: " + reason);
  };
  events.on_refused = [this](const Error& error) { on_refused(error); };
  events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
    if (subscriptions_.drop(envelope.destination_proc())) log::info("a subscriber cannot be reached and is dropped: " + error.to_string());
  };
  down_since_ = reactor_.now();
  bus_ = std::make_unique<Bus>(reactor_, context_, std::move(options), std::move(handlers), std::move(events));
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

void Controller::on_poll() {
  const auto now = reactor_.now();
  // A process that was stopped or starved knows nothing about the others' silence.
  if (poll_ != 0 && now > poll_due_ + 2 * options_.poll) {
    log::warn("this poll is " + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now - poll_due_).count()) +
              " ms late");
    if (down_since_ && *down_since_ != Reactor::Time{}) down_since_ = now;
  }
  ++poll_;
  poll_due_ = now + options_.poll;
  poll_timer_ = reactor_.at(poll_due_, [this] { on_poll(); });
  if (!down_since_) {
    for (const auto& host : options_.hosts) ask(host);
    return;
  }
  if (now - *down_since_ < options_.home_limit) return;
  const auto problem = "its broker does not answer";
  say(watch_.on_silence(options_.hosts[home_], problem));
  if (options_.hosts.size() == 1) return;
  bus_->close("going to another host");
  bus_.reset();
  home_ = (home_ + 1) % options_.hosts.size();
  open();
}

void Controller::ask(const HostAddr& host, const std::string& after) {
  auto& is_asked = is_asked_[host];
  if (std::exchange(is_asked, true)) return;
  wire::ListMeshesT question;
  question.after = after;
  bus_->request(Destination::to_agent(host), std::move(question), options_.answer_limit,
                [this, host](const Result<ControlMessage>& answer) {
                  is_asked_[host] = false;
                  if (is_closed_) return;
                  const auto* const list = answer ? answer->body_as<wire::MeshList>() : nullptr;
                  if (list == nullptr) {
                    // The loss of our own connection says nothing about that host.
                    if (!down_since_)
                      say(watch_.on_silence(host, answer ? "it answered " + answer->body_name() : answer.error().to_string()));
                    return;
                  }
                  auto told = watch_.on_list(host, *list);
                  say(told.events);
                  for (const auto& mesh : told.wanted) ask_state(host, mesh);
                  if (!told.next.empty()) ask(host, told.next);
                });
}

void Controller::ask_state(const HostAddr& host, const std::string& mesh) {
  wire::GetStateT get;
  get.mesh = mesh;
  bus_->request(Destination::to_agent(host), std::move(get), options_.answer_limit, [this, host](const Result<ControlMessage>& answer) {
    // The next poll asks again.
    if (is_closed_ || !answer) return;
    if (const auto* const state = answer->body_as<wire::MeshState>()) say(watch_.on_state(host, *state));
  });
}

void Controller::say(const std::vector<WatchEvent>& events) {
  if (events.empty()) return;
  if (events_.on_events) events_.on_events(events);
  for (const auto& subscriber : subscriptions_.subscribers()) send(subscriber, subscriptions_.for_subscriber(subscriber, events));
}

void Controller::send(const ProcId& subscriber, const std::vector<WatchEvent>& events) {
  for (auto& message : to_messages(events, poll_)) {
    if (bus_->tell(Destination::to(subscriber), std::move(message))) continue;
    log::warn("the queue to the broker is full: " + subscriber.to_string() + " misses events");
    return;
  }
}

std::optional<ProcId> Controller::check_subscriber(const Request& request, const flatbuffers::String* text) {
  const auto subscriber = ProcId::parse(text->string_view());
  if (!subscriber) {
    bus_->refuse(request, subscriber.error().within("subscriber"));
    return std::nullopt;
  }
  if (subscriber->key() != request.envelope.source_proc() || subscriber->host().key() != request.envelope.source_host()) {
    bus_->refuse(request, Error(ErrorCode::unauthorised,
                                "the subscriber is " + subscriber->to_string() + ", who did not send this: subscribe for yourself"));
    return std::nullopt;
  }
  return *subscriber;
}

void Controller::on_subscribe(const Request& request, const wire::Subscribe& message) {
  const auto subscriber = check_subscriber(request, message.subscriber());
  if (!subscriber) return;
  if (subscriptions_.size() >= kMostSubscriptions) {
    bus_->refuse(request, Error(ErrorCode::queue_full,
                                "this controller has " + std::to_string(kMostSubscriptions) + " subscriptions; that is its limit"));
    return;
  }
  const auto mesh = text_of(message.mesh());
  const bool is_new = subscriptions_.add(*subscriber, mesh);
  bus_->answer(request, wire::AckT());
  if (is_new) send(*subscriber, watch_.known(mesh));
}

void Controller::on_unsubscribe(const Request& request, const wire::Unsubscribe& message) {
  const auto subscriber = check_subscriber(request, message.subscriber());
  if (!subscriber) return;
  subscriptions_.remove(*subscriber, text_of(message.mesh()));
  bus_->answer(request, wire::AckT());
}

}  // namespace meshbus
