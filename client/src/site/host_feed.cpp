#include "client/src/site/host_feed.h"

#include <unistd.h>

#include <utility>

#include "client/src/proc_mesh/wire_reports.h"
#include "common/security/token.h"
#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

/// A broker that has refused us is tried again after so long.
constexpr std::chrono::seconds kRefusedAgain{5};

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

}  // namespace

HostFeed::HostFeed(Reactor& reactor, zmq::context_t& context, SiteTable& table, Options options,
                   std::function<void()> on_change)
    : reactor_(reactor),
      context_(context),
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
  session.hello.peer = Name::make("client")->to_string();
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
  bus_ = std::make_unique<Bus>(reactor_, context_, std::move(session), Dispatcher(),
                               std::move(events));
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

void HostFeed::drop_round() {
  round_ = {.number = round_.number + 1};
}

void HostFeed::begin_round() {
  if (round_.is_running) return;
  drop_round();
  round_.is_running = true;
  ask_meshes();
}

void HostFeed::end_round() {
  round_.is_running = false;
  timer_ = reactor_.after(options_.period, [this] { on_tick(); });
}

void HostFeed::ask_meshes() {
  wire::ListMeshesT list;
  list.after = round_.after;
  list.usage = true;
  ask(Destination::to_agent(options_.host), std::move(list), &HostFeed::on_meshes);
}

void HostFeed::on_meshes(const Result<ControlMessage>& answer) {
  const auto list = body_of<wire::MeshList>(answer, "ListMeshes");
  if (!list) return lose(list.error());
  const auto* const meshes = (*list)->meshes();
  for (flatbuffers::uoffset_t i = 0; meshes != nullptr && i < meshes->size(); ++i) {
    auto report = to_report(*meshes->Get(i));
    if (!report) return lose(report.error());
    round_.after = report->name;
    round_.names.insert(report->name);
    table_.set_part(options_.host, {.mesh = std::move(*report)});
  }
  if ((*list)->more() && meshes != nullptr && meshes->size() > 0) return ask_meshes();
  table_.keep_only(options_.host, round_.names);
  ask(Destination::to_agent(options_.host), wire::GetHostT(), &HostFeed::on_host);
}

void HostFeed::on_host(const Result<ControlMessage>& answer) {
  const auto state = body_of<wire::HostState>(answer, "GetHost");
  if (!state) return lose(state.error());
  SiteHost told;
  told.report = to_report(options_.host, **state);
  table_.set_facts(options_.host, told);
  table_.on_up(options_.host, wall_clock());
  on_change_();
  ask_events();
}

void HostFeed::ask_events() {
  wire::GetEventsT get;
  get.from = events_from_;
  ask(Destination::to_agent(options_.host), std::move(get), &HostFeed::on_events);
}

void HostFeed::on_events(const Result<ControlMessage>& answer) {
  const auto list = body_of<wire::EventList>(answer, "GetEvents");
  if (!list) return lose(list.error());
  std::vector<HostEvent> events;
  const auto* const told = (*list)->events();
  for (flatbuffers::uoffset_t i = 0; told != nullptr && i < told->size(); ++i)
    events.push_back(to_report(options_.host, *told->Get(i)));
  const bool is_more = (*list)->more() && (*list)->next() > events_from_;
  events_from_ = (*list)->next();
  table_.add_events(std::move(events));
  on_change_();
  is_more ? ask_events() : end_round();
}

}  // namespace meshbus
