#include "client/controller/controller_feed.h"

#include <unistd.h>

#include <algorithm>

#include "client/controller/supervision_event.h"
#include "client/src/base/wire_reports.h"
#include "common/base/own_pause.h"
#include "common/security/token.h"
#include "wire/bus_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kAnswerLimit{3000};
/// Silence for so long is reported: with the second between two questions within the 5 s of spec
/// 8.7.
constexpr std::chrono::milliseconds kSilence{4000};
/// A broker that is away so long is given up when there are other hosts.
constexpr std::chrono::milliseconds kFeedHomeLimit{2000};

ProcId controller_at(const HostAddr& host) {
  return {host, ProcName(Name::controller())};
}

}  // namespace

ControllerFeed::ControllerFeed(Reactor& reactor, Options options, Events events)
    : reactor_(reactor),
      options_(std::move(options)),
      events_(std::move(events)),
      name_(LauncherName::draw()),
      incarnation_(random_u64()) {
  open();
  on_tick();
}

ControllerFeed::~ControllerFeed() {
  reactor_.cancel(timer_);
  alive_.reset();
  if (bus_->self()) {
    wire::UnsubscribeT goodbye;
    goodbye.subscriber = bus_->self()->to_string();
    goodbye.mesh = options_.mesh;
    // The answer does not matter: a subscriber that is gone is forgotten anyway.
    bus_->request(Destination::to(controller_at(options_.hosts[at_])), std::move(goodbye),
                  kAnswerLimit, [](const auto&) {});
  }
  bus_->close("the subscriber ends");
}

void ControllerFeed::open() {
  Session::Options session;
  options_.reach(options_.hosts[at_], session);
  name_.introduce(session.hello);
  session.hello.kind = wire::PeerKind::launcher;
  session.hello.incarnation = incarnation_;
  session.hello.pid = static_cast<std::uint32_t>(::getpid());
  Dispatcher handlers;
  handlers
      .on<wire::MeshEvent>(Role::operate,
                           [this](const Request& request, const wire::MeshEvent& message) {
                             if (!is_from_controller(request)) return;
                             on_heard(request);
                             wire::MeshEventT event;
                             message.UnPackTo(&event);
                             for (const auto& one : feed_.on_event(event, reactor_.now()))
                               events_.on_event(to_supervision_event(one));
                           })
      .on<wire::MeshHeartbeat>(Role::operate,
                               [this](const Request& request, const wire::MeshHeartbeat& message) {
                                 if (!is_from_controller(request)) return;
                                 on_heard(request);
                                 wire::MeshHeartbeatT heartbeat;
                                 message.UnPackTo(&heartbeat);
                                 feed_.on_heartbeat(heartbeat, reactor_.now());
                               });
  Bus::Events events;
  events.on_up = [this](const wire::Welcome&) {
    down_since_.reset();
    begins_ = true;
    ask();
  };
  events.on_down = [this](const std::string& reason) {
    down_since_ = reactor_.now();
    on_problem(Error(ErrorCode::host_unreachable, reason));
  };
  events.on_trouble = [this](const std::string& reason) {
    on_problem(Error(ErrorCode::host_unreachable, reason));
  };
  events.on_refused = [this](const Error& error) {
    on_problem(error);
    should_move_ = true;
  };
  down_since_ = reactor_.now();
  begins_ = true;
  is_asked_ = false;
  bus_ =
      std::make_unique<Bus>(reactor_, std::move(session), std::move(handlers), std::move(events));
}

void ControllerFeed::move_on() {
  should_move_ = false;
  // What it was asked is nobody's business any more.
  const auto old = std::move(bus_);
  old->close("looking for the controller elsewhere");
  at_ = (at_ + 1) % options_.hosts.size();
  open();
}

bool ControllerFeed::is_from_controller(const Request& request) const {
  const auto id = controller_at(options_.hosts[at_]);
  return request.envelope.source_proc() == id.key() &&
         request.envelope.source_host() == id.host().key();
}

void ControllerFeed::ask() {
  if (is_asked_ || !bus_->is_up() || !bus_->self()) return;
  const bool again = feed_.should_ask_again(reactor_.now());
  wire::SubscribeT subscribe;
  subscribe.subscriber = bus_->self()->to_string();
  subscribe.mesh = options_.mesh;
  subscribe.ranks = to_wire(options_.ranks);
  subscribe.again = again || begins_;
  subscribe.moved = subscribe.again && heard_.has_value();
  if (std::exchange(begins_, false)) feed_.restart();
  is_asked_ = true;
  bus_->request(Destination::to(controller_at(options_.hosts[at_])), std::move(subscribe),
                kAnswerLimit,
                [this, alive = std::weak_ptr<void>(alive_), again,
                 bus = bus_.get()](const Result<ControlMessage>& answer) {
                  if (alive.expired() || bus != bus_.get()) return;
                  is_asked_ = false;
                  if (answer && again) feed_.on_subscribed();
                  on_answer(answer);
                });
}

void ControllerFeed::on_answer(const Result<ControlMessage>& answer) {
  if (!answer) {
    // The next controller there may know nothing of us.
    begins_ = true;
    on_problem(answer.error());
    should_move_ = should_move_ || options_.hosts.size() > 1;
    return;
  }
  hear();
  events_.on_subscribed(controller_at(options_.hosts[at_]));
}

void ControllerFeed::on_problem(const Error& error) {
  problem_ = error.to_string();
  events_.on_trouble(options_.hosts[at_], error);
}

void ControllerFeed::on_heard(const Request& request) {
  const auto life = request.envelope.source_incarnation();
  // Another one at the same place counts from 1.
  if (life_ != 0 && life_ != life) feed_.restart();
  life_ = life;
  hear();
}

void ControllerFeed::hear() {
  heard_ = reactor_.now();
  heard_at_ = options_.hosts[at_];
  is_lost_ = false;
  if (std::exchange(is_silent_, false))
    tell(SupervisionEvent::Kind::controller_back, heard_at_, {});
}

void ControllerFeed::tell(SupervisionEvent::Kind kind, const HostAddr& host, std::string problem) {
  SupervisionEvent event;
  event.kind = kind;
  event.mesh = options_.mesh.substr(0, options_.mesh.find(','));
  event.host = host;
  event.problem = std::move(problem);
  events_.on_event(std::move(event));
}

void ControllerFeed::on_tick() {
  const auto now = reactor_.now();
  // This process was stopped: messages of the controller may still be unread.
  if (timer_ != 0 && OwnPause(2 * options_.probe).was_away(due_, now)) {
    if (heard_) heard_ = std::max(*heard_, now - options_.probe);
    if (down_since_) down_since_ = now;
  }
  due_ = now + options_.probe;
  timer_ = reactor_.at(due_, [this] { on_tick(); });
  if (heard_ && !is_silent_ && now - *heard_ >= kSilence) {
    is_silent_ = true;
    begins_ = true;
    tell(SupervisionEvent::Kind::controller_silent, heard_at_, problem_);
  }
  if (is_silent_ && !is_lost_ && options_.watchdog.count() != 0 &&
      now - *heard_ >= options_.watchdog) {
    is_lost_ = true;
    tell(SupervisionEvent::Kind::controller_lost, heard_at_, problem_);
  }
  if (down_since_ && options_.hosts.size() > 1 && now - *down_since_ >= kFeedHomeLimit)
    should_move_ = true;
  if (should_move_) {
    move_on();
  } else {
    ask();
  }
}

}  // namespace meshbus
