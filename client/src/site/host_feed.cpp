#include "client/src/site/host_feed.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "client/src/base/wire_reports.h"
#include "common/security/launcher_name.h"
#include "common/security/token.h"
#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

/// A broker that has refused us is tried again after so long.
constexpr std::chrono::seconds kRefusedAgain{5};

/// Where no controller was we ask again after so many rounds: each such question comes back.
constexpr int kControllerRounds = 10;

/// We ask for this many bytes of earlier events.
constexpr std::uint64_t kOldEvents = 256 * 1024;

SiteTable::Time wall_clock() {
  return std::chrono::system_clock::now();
}

template <typename Body>
Result<const Body*> body_of(const Result<ControlMessage>& answer, const char* question) {
  if (!answer) return fail(answer.error());
  if (const auto* const body = answer->body_as<Body>()) return body;
  return fail(ErrorCode::malformed_message,
              "it answered " + answer->body_name() + " to " + question);
}

/// The name of its last mesh.
std::string last_of(const wire::MeshList& list) {
  const auto* const meshes = list.meshes();
  return meshes == nullptr || meshes->size() == 0 ? std::string()
                                                  : meshes->Get(meshes->size() - 1)->mesh()->str();
}

std::optional<SiteBroker> to_broker(const wire::HostState& state) {
  const auto* const told = state.broker();
  if (told == nullptr) return std::nullopt;
  SiteBroker broker{.incarnation = state.incarnation(),
                    .received = told->received(),
                    .delivered = told->delivered(),
                    .returned = told->returned(),
                    .dropped = told->dropped(),
                    .held = told->held(),
                    .peers = told->peers(),
                    .refused = told->refused()};
  for (flatbuffers::uoffset_t i = 0; told->queues() != nullptr && i < told->queues()->size(); ++i) {
    const auto& queue = *told->queues()->Get(i);
    broker.queues.push_back({text_of(queue.peer()), queue.bytes(), queue.messages(),
                             std::chrono::milliseconds(queue.waits_ms())});
  }
  for (flatbuffers::uoffset_t i = 0; told->links() != nullptr && i < told->links()->size(); ++i) {
    const auto& link = *told->links()->Get(i);
    broker.links.push_back({text_of(link.host()), link.up(), link.messages(), link.bytes()});
  }
  return broker;
}

}  // namespace

HostFeed::HostFeed(Reactor& reactor, SiteTable& table, Options options,
                   std::function<void()> on_change)
    : reactor_(reactor),
      table_(table),
      options_(std::move(options)),
      on_change_(std::move(on_change)),
      incarnation_(random_u64()) {
  open();
}

HostFeed::~HostFeed() {
  alive_.reset();
  reactor_.cancel(timer_);
  close();
}

void HostFeed::close() {
  if (bus_ != nullptr) bus_->close("the watcher of this site ends");
  bus_.reset();
}

void HostFeed::open() {
  drop_round();
  is_refused_ = false;
  Session::Options session;
  options_.reach(options_.host, session);
  LauncherName::draw().introduce(session.hello);
  session.hello.kind = wire::PeerKind::launcher;
  session.hello.incarnation = incarnation_;
  session.hello.pid = static_cast<std::uint32_t>(::getpid());
  Bus::Events events;
  events.on_up = [this](const wire::Welcome& welcome) {
    if (text_of(welcome.host()) != options_.host.to_string()) {
      lose(Error(ErrorCode::identity_mismatch,
                 "a host that calls itself " + text_of(welcome.host()) + " answers there"));
      return;
    }
    begin_round();
  };
  events.on_down = [this](const std::string& reason) {
    lose(Error(ErrorCode::host_unreachable, reason));
  };
  events.on_trouble = events.on_down;
  events.on_refused = [this](const Error& error) {
    lose(error);
    is_refused_ = true;
    reactor_.cancel(timer_);
    timer_ = reactor_.after(kRefusedAgain, [this] { on_tick(); });
  };
  bus_ = std::make_unique<Bus>(reactor_, std::move(session), Dispatcher(), std::move(events));
}

void HostFeed::lose(const Error& error) {
  drop_round();
  table_.on_lost(options_.host, error, wall_clock());
  on_change_();
  reactor_.cancel(timer_);
  timer_ = reactor_.after(options_.period, [this] { on_tick(); });
}

void HostFeed::on_tick() {
  timer_ = 0;
  if (is_refused_) {
    close();
    return open();
  }
  if (bus_->is_up()) begin_round();
}

template <typename Question>
void HostFeed::ask(const Destination& to, Question question,
                   void (HostFeed::*then)(const Result<ControlMessage>&)) {
  bus_->request(to, std::move(question), options_.limit,
                [this, then, round = round_.number,
                 alive = std::weak_ptr<void>(alive_)](const Result<ControlMessage>& answer) {
                  if (!alive.expired() && round == round_.number) (this->*then)(answer);
                });
}

void HostFeed::request(const ControlBody& body, std::chrono::milliseconds limit,
                       Bus::Answer answer) {
  bus_->request(Destination::to_agent(options_.host), body, limit,
                [answer = std::move(answer),
                 alive = std::weak_ptr<void>(alive_)](Result<ControlMessage> said) {
                  if (!alive.expired()) answer(std::move(said));
                });
}

void HostFeed::drop_round() {
  round_ = {.number = round_.number + 1};
}

void HostFeed::begin_round() {
  if (round_.is_running) return;
  reactor_.cancel(std::exchange(timer_, 0));
  drop_round();
  round_.is_running = true;
  ask_meshes();
}

void HostFeed::ask_meshes() {
  wire::ListMeshesT list;
  list.after = round_.from;
  list.usage = true;
  list.changes = true;
  list.since = position_.since;
  list.incarnation = position_.agent;
  list.from = round_.from;
  list.from_rank = round_.from_rank;
  ask(Destination::to_agent(options_.host), std::move(list), &HostFeed::on_meshes);
}

Result<void> HostFeed::take_meshes(const wire::MeshList& list) {
  const auto* const meshes = list.meshes();
  for (flatbuffers::uoffset_t i = 0; meshes != nullptr && i < meshes->size(); ++i) {
    const auto& told = *meshes->Get(i);
    auto report = to_report(told);
    if (!report) return fail(report.error());
    round_.names.insert(report->name);
    SitePart part{.mesh = std::move(*report)};
    for (flatbuffers::uoffset_t j = 0; told.lines() != nullptr && j < told.lines()->size(); ++j) {
      const auto& line = *told.lines()->Get(j);
      if (line.bytes() != nullptr)
        part.lines[line.rank()].assign(line.bytes()->begin(), line.bytes()->end());
    }
    table_.set_part(options_.host, std::move(part));
  }
  const auto* const forgotten = list.forgotten();
  for (flatbuffers::uoffset_t i = 0; forgotten != nullptr && i < forgotten->size(); ++i)
    table_.forget(options_.host, forgotten->Get(i)->str());
  return {};
}

void HostFeed::on_meshes(const Result<ControlMessage>& answer) {
  const auto body = body_of<wire::MeshList>(answer, "ListMeshes");
  if (!body) return lose(body.error());
  const auto& list = **body;
  const bool is_first = round_.from.empty();
  const bool is_older = list.incarnation() == 0;
  if (is_first) {
    round_.is_complete = list.since() == 0;
    round_.sequence = list.sequence();
    round_.agent = list.incarnation();
  } else if (list.incarnation() != round_.agent || (list.since() == 0) != round_.is_complete) {
    // Another agent, or one that has forgotten too much meanwhile: from the start.
    position_.since = 0;
    round_.is_running = false;
    return begin_round();
  }
  if (const auto taken = take_meshes(list); !taken) return lose(taken.error());
  if (list.facts() != nullptr) take_facts(*list.facts());
  if (list.more()) {
    const auto next = is_older ? last_of(list) : text_of(list.next());
    if (next > round_.from || (next == round_.from && list.next_rank() > round_.from_rank)) {
      round_.from = next;
      round_.from_rank = list.next_rank();
      return ask_meshes();
    }
  }
  finish_meshes();
}

void HostFeed::finish_meshes() {
  if (round_.is_complete) table_.keep_only(options_.host, round_.names);
  position_.since = round_.sequence;
  position_.agent = round_.agent;
  if (round_.agent == 0)
    return ask(Destination::to_agent(options_.host), wire::GetHostT(), &HostFeed::on_host);
  on_change_();
  ask_events();
}

void HostFeed::on_host(const Result<ControlMessage>& answer) {
  const auto state = body_of<wire::HostState>(answer, "GetHost");
  if (!state) return lose(state.error());
  take_facts(**state);
  on_change_();
  ask_events();
}

void HostFeed::take_facts(const wire::HostState& state) {
  SiteHost told;
  told.report = to_report(options_.host, state);
  if (state.started_ns() > 0)
    told.started = SiteTable::Time(std::chrono::duration_cast<SiteTable::Time::duration>(
        std::chrono::nanoseconds(state.started_ns())));
  told.cgroup = text_of(state.cgroup());
  told.cpus = state.cpus();
  told.load = state.load() / 1000.0;
  told.memory = state.memory();
  told.memory_available = state.memory_available();
  table_.set_facts(options_.host, told);
  // Another log: the host was started again at its address.
  // (An older agent does not say where its log ends.)
  if (state.events_end() != 0 && state.events_end() < position_.events_from)
    position_.has_events_from = false;
  position_.events_end = state.events_end();
}

void HostFeed::ask_events() {
  // An older agent does not say where its log ends: it is asked each time, from the start.
  if (!position_.has_events_from) {
    position_.has_events_from = true;
    position_.events_from =
        position_.events_end > kOldEvents ? position_.events_end - kOldEvents : 0;
  }
  if (round_.agent != 0 && position_.events_end <= position_.events_from) return ask_broker();
  wire::GetEventsT get;
  get.from = position_.events_from;
  ask(Destination::to_agent(options_.host), std::move(get), &HostFeed::on_events);
}

void HostFeed::on_events(const Result<ControlMessage>& answer) {
  const auto list = body_of<wire::EventList>(answer, "GetEvents");
  if (!list) return lose(list.error());
  std::vector<HostEvent> events;
  const auto* const told = (*list)->events();
  for (flatbuffers::uoffset_t i = 0; told != nullptr && i < told->size(); ++i)
    events.push_back(to_report(options_.host, *told->Get(i)));
  const bool is_more = (*list)->more() && (*list)->next() > position_.events_from;
  position_.events_from = (*list)->next();
  table_.add_events(std::move(events));
  is_more ? ask_events() : ask_broker();
}

void HostFeed::ask_broker() {
  if (position_.is_broker_mute) return ask_controller();
  ask(Destination::to_broker(), wire::GetHostT(), &HostFeed::on_broker);
}

void HostFeed::on_broker(const Result<ControlMessage>& answer) {
  const auto state = body_of<wire::HostState>(answer, "GetHost");
  position_.is_broker_mute = !state && state.error().code() == ErrorCode::no_such_port;
  if (!state && !position_.is_broker_mute) return lose(state.error());
  table_.set_broker(options_.host, state ? to_broker(**state) : std::nullopt, wall_clock());
  ask_controller();
}

void HostFeed::ask_controller() {
  if (!table_.has_controller(options_.host) && position_.controller_rounds-- > 0)
    return end_round();
  position_.controller_rounds = kControllerRounds;
  // Behind the last name: its meshes are those of the hosts.
  wire::ListMeshesT list;
  list.after = "~";
  ask(Destination::to({options_.host, ProcName(Name::controller())}), std::move(list),
      &HostFeed::on_controller);
}

void HostFeed::on_controller(const Result<ControlMessage>& answer) {
  std::optional<SiteController> told;
  if (const auto* const state = answer ? answer->body_as<wire::ControllerState>() : nullptr) {
    told.emplace();
    told->controller = text_of(state->controller());
    told->state = SiteHostState::up;
    told->subscribers = state->subscribers();
    told->late_polls = state->late_polls();
    const auto* const hosts = state->unreachable();
    for (flatbuffers::uoffset_t i = 0; hosts != nullptr && i < hosts->size(); ++i)
      told->unreachable.push_back(hosts->Get(i)->str());
  }
  table_.set_controller(options_.host, told, wall_clock());
  end_round();
}

void HostFeed::end_round() {
  round_.is_running = false;
  table_.on_up(options_.host, wall_clock());
  on_change_();
  reactor_.cancel(timer_);
  timer_ = reactor_.after(options_.period, [this] { on_tick(); });
}

}  // namespace meshbus
