#include "tests/unit/supervision/launcher_world.h"

#include <algorithm>
#include <thread>

#include "common/wire/control.h"

namespace meshbus::test {
namespace {

using namespace std::chrono_literals;
using State = wire::ProcState;

bool is_end(State state) {
  return state == State::stopped || state == State::killed || state == State::failed;
}

/// As it comes from the bus.
template <typename NativeBody>
ControlMessage message_of(NativeBody body) {
  return *ControlMessage::decode(encode_control({}, std::move(body)));
}

}  // namespace

LauncherWorld::LauncherWorld(std::uint64_t seed) : random_(seed), has_faults_(seed % 4 != 0) {
  std::vector<HostAddr> addresses;
  for (std::uint64_t host = 0, count = 2 + random_() % 3; host < count; ++host) {
    addresses.push_back(*HostAddr::parse("unix:/h" + std::to_string(host)));
    hosts_.push_back({.address = addresses.back()});
  }
  known_hosts_.add(addresses);
  const std::uint64_t each = 1 + random_() % 3;
  MeshMonitor::Options options;
  options.has_output = true;
  options.handlers.on_state = [this](const RankReport& rank) {
    heard_[rank.rank].states.push_back(rank);
  };
  options.handlers.on_failure = [this](const RankReport& rank) { ++heard_[rank.rank].failures; };
  options.handlers.on_output = [this](std::uint64_t rank, Stream, std::string_view bytes) {
    heard_[rank].output += bytes;
  };
  options.handlers.on_end = [this](const MeshOutcome&) {
    ++ends_;
    told_ = now_;
  };
  monitor_ = std::make_shared<MeshMonitor>(
      reactor_, handlers_,
      *ProcMeshRef::make(*Name::make("m", 1), addresses,
                         *Extent::make({{"host", addresses.size()}, {"gpu", each}})),
      std::move(options));
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    monitor_->progress().note_accepted(host);
    for (std::uint64_t i = 0; i < each; ++i) {
      const auto rank = host * each + i;
      hosts_[host].ranks[rank].state = {
          rank, 0, 1, 1, 0, 42, 0, State::starting, 0, false, wire::StopStep::none, 0};
      plan_rank(host, rank);
    }
  }
}

LauncherWorld::~LauncherWorld() {
  monitor_->abandon();
  handlers_.finish();
  reactor_.turn(0ms);
}

void LauncherWorld::at(Time time, std::function<void()> task) {
  queue_.emplace(std::pair(std::max(time, now_), next_++), std::move(task));
}

void LauncherWorld::settle() {
  for (int i = 0; i < 2; ++i) {
    const auto before = handled_.load();
    handlers_.post([this] { ++handled_; });
    while (handled_ == before) std::this_thread::yield();
    reactor_.turn(0ms);
  }
}

// --- hosts ---

void LauncherWorld::plan_rank(std::size_t host, std::uint64_t rank) {
  const bool is_quick = chance(0.4);
  auto time = any(0, 20);
  for (const auto state : {State::starting, State::running, State::ready}) {
    after(time, [this, host, rank, state] { change(host, rank, state); });
    time += is_quick ? any(0, 1) : any(0, 60);
  }
  const auto end = time + (is_quick ? any(0, 3) : any(100, 18'000));
  for (std::uint64_t n = random_() % 40; n > 0; --n)
    after(time + any(0, static_cast<int>((end - time).count())),
          [this, host, rank] { write(host, rank); });
  after(end, [this, host, rank, kind = random_() % 3] {
    change(host, rank, kind == 0 ? State::killed : State::stopped, kind == 1 ? 3 : 0);
  });
}

void LauncherWorld::change(std::size_t index, std::uint64_t rank, State state, int code) {
  auto& host = hosts_[index];
  auto& one = host.ranks.at(rank).state;
  if (host.is_dead || is_end(one.state())) return;
  one.mutate_generation(one.generation() + 1);
  one.mutate_state(state);
  one.mutate_exit_code(code);
  one.mutate_signal(state == State::killed ? 9 : 0);
  if (is_end(state)) {
    one.mutate_ended_ns(std::chrono::nanoseconds(now_.time_since_epoch()).count());
    ended_ = now_;
    failures_ += state == State::killed || code != 0 ? 1U : 0U;
    after(any(0, 90), [this, index, rank] { report_exit(index, rank); });
  }
  host.pending.ranks.push_back(one);
  if (!std::exchange(host.is_flush_planned, true))
    after(any(0, 3), [this, index] { flush(index); });
}

void LauncherWorld::report_exit(std::size_t index, std::uint64_t rank) {
  auto& host = hosts_[index];
  if (host.is_dead) return;
  auto& one = host.ranks.at(rank);
  one.exit_report = std::make_shared<wire::ExitReportT>();
  one.exit_report->rank = rank;
  host.relay.end_rank(rank);
  host.pending.exit_reports.push_back(std::make_unique<wire::ExitReportT>(*one.exit_report));
  flush(index);
  pump(index);
}

void LauncherWorld::write(std::size_t index, std::uint64_t rank) {
  auto& host = hosts_[index];
  auto& one = host.ranks.at(rank);
  if (host.is_dead || one.state.state() != State::ready) return;
  const auto line = "line " + std::to_string(one.written.size()) + "\n";
  one.written += line;
  host.relay.add(rank, wire::Stream::out, line);
  pump(index);
}

void LauncherWorld::flush(std::size_t index) {
  auto& host = hosts_[index];
  host.is_flush_planned = false;
  if (host.is_dead || (host.pending.ranks.empty() && host.pending.exit_reports.empty())) return;
  const auto update = std::make_shared<wire::StateChangedT>(std::move(host.pending));
  host.pending = {};
  send(index, control, [this, index, update] { on_update(index, *update); });
}

void LauncherWorld::pump(std::size_t index) {
  while (auto output = hosts_[index].relay.next()) {
    output->mesh = "m";
    const auto sent = std::make_shared<ControlMessage>(message_of(std::move(*output)));
    send(index, data, [this, index, sent] {
      const auto answer = [this, index](wire::OutputTakenT taken) {
        tell(index, [this, index, taken = std::move(taken)] { on_taken(index, taken); });
      };
      monitor_->on_output(hosts_[index].address, *sent->body_as<wire::Output>(), answer);
    });
  }
}

/// As agent/host/output/output_reader.cpp does it.
void LauncherWorld::on_taken(std::size_t index, const wire::OutputTakenT& taken) {
  auto& relay = hosts_[index].relay;
  for (const auto& position : taken.positions)
    relay.taken(position.rank(), position.stream(), position.offset());
  for (const auto rank : taken.ended) relay.end_known(rank);
  if (taken.resend) relay.resend();
  pump(index);
}

void LauncherWorld::on_state_asked(std::size_t index, bool has_moved) {
  auto& host = hosts_[index];
  flush(index);
  if (has_moved && std::exchange(host.owner, gateway_) != gateway_) {
    host.relay.resend();
    pump(index);
  }
  const auto whole = std::make_shared<wire::StateChangedT>();
  for (const auto& [rank, one] : host.ranks) {
    if (one.state.generation() == 0) continue;
    whole->ranks.push_back(one.state);
    if (one.exit_report != nullptr)
      whole->exit_reports.push_back(std::make_unique<wire::ExitReportT>(*one.exit_report));
  }
  send(index, control, [this, index, whole, agent = host.incarnation] {
    on_update(index, *whole);
    synced_[index] = agent;
  });
}

void LauncherWorld::send(std::size_t index, Way way, std::function<void()> deliver) {
  auto& host = hosts_[index];
  if (!is_up_ || host.owner != gateway_ || hosts_[gateway_].is_dead) return;
  auto& last = host.last[way];
  last = std::max({last, now_ + any(0, 30), host.cut_until});
  at(last, [this, session = session_, deliver = std::move(deliver)] {
    if (session != session_ || !is_up_) return;
    ++messages_;
    deliver();
    settle();
  });
}

void LauncherWorld::kill_host(std::size_t index) {
  auto& host = hosts_[index];
  if (host.is_dead) return;
  host.is_dead = true;
  for (const auto& [rank, one] : host.ranks) failures_ += is_end(one.state.state()) ? 0U : 1U;
  ended_ = now_;
  // It is a host of the launcher, which sees its process end.
  after(any(1, 100), [this, index] {
    const auto& address = hosts_[index].address;
    if (!known_hosts_.on_ended(address, "it was killed")) return;
    monitor_->lose(address, "it was killed", /*is_proved=*/true);
    settle();
    if (index != gateway_) return;
    is_up_ = false;
    ++session_;
    const auto next = known_hosts_.next_after(address);
    for (std::size_t i = 0; next && i < hosts_.size(); ++i) {
      if (hosts_[i].address == *next) after(any(1, 100), [this, i] { come_back(i); });
    }
  });
}

void LauncherWorld::plan_fault() {
  const auto host = random_() % hosts_.size();
  switch (random_() % 5) {
    case 0: return kill_host(host);
    case 1: return kill_host(gateway_);
    case 2: return restart_broker();
    case 3: hosts_[host].cut_until = now_ + any(100, 5000); return;
    default: hosts_[host].incarnation = random_() | 1; return;
  }
}

// --- the launcher ---

void LauncherWorld::tell(std::size_t index, std::function<void()> deliver) {
  auto& host = hosts_[index];
  if (!is_up_ || hosts_[gateway_].is_dead) return;
  auto& last = host.last[down];
  last = std::max({last, now_ + any(0, 30), host.cut_until});
  at(last, [this, index, session = session_, deliver = std::move(deliver)] {
    if (session == session_ && !hosts_[index].is_dead && !hosts_[gateway_].is_dead) deliver();
  });
}

void LauncherWorld::on_update(std::size_t index, const wire::StateChangedT& update) {
  flatbuffers::FlatBufferBuilder builder;
  auto copy = wire::StateChangedT(update);
  copy.mesh = "m";
  copy.host = hosts_[index].address.to_string();
  builder.Finish(wire::StateChanged::Pack(builder, &copy));
  const auto* const read = flatbuffers::GetRoot<wire::StateChanged>(builder.GetBufferPointer());
  monitor_->on_update(hosts_[index].address, read->ranks(), read->exit_reports());
}

void LauncherWorld::restart_broker() {
  if (!is_up_ || hosts_[gateway_].is_dead) return;
  is_up_ = false;
  ++session_;
  after(any(50, 1500), [this, gateway = gateway_] {
    if (!is_up_ && gateway == gateway_ && !hosts_[gateway].is_dead) come_back(gateway);
  });
}

/// As Gateway and UpdateRouter::resync_all().
void LauncherWorld::come_back(std::size_t gateway) {
  if (hosts_[gateway].is_dead) {
    const auto next = known_hosts_.next_after(hosts_[gateway].address);
    for (std::size_t i = 0; next && i < hosts_.size(); ++i) {
      if (hosts_[i].address == *next && i != gateway)
        return after(any(1, 100), [this, i] { come_back(i); });
    }
    return;
  }
  gateway_ = gateway;
  is_up_ = true;
  ++session_;
  for (std::size_t host = 0; host < hosts_.size(); ++host) resync(host);
  ask_for_output();
}

/// As FollowedMesh::resync().
void LauncherWorld::resync(std::size_t host) {
  const auto& address = hosts_[host].address;
  if (!monitor_->progress().has_unreported_on(address) && !monitor_->is_output_due(address)) return;
  synced_.erase(host);
  tell(host, [this, host] { on_state_asked(host, true); });
}

void LauncherWorld::ask_for_output() {
  wire::OutputTakenT again;
  again.resend = true;
  for (std::size_t host = 0; host < hosts_.size(); ++host)
    tell(host, [this, host, again] { on_taken(host, again); });
}

/// As client/src/monitors/upkeep.cpp: an agent that is needed, answers and is not in step is asked
/// again.
void LauncherWorld::upkeep() {
  if (is_up_) {
    if (monitor_->should_ask_for_output()) ask_for_output();
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      const auto& address = hosts_[host].address;
      if (!monitor_->progress().is_alive_on(address) && !monitor_->is_output_due(address)) continue;
      if (const auto at = synced_.find(host);
          at != synced_.end() && at->second == hosts_[host].incarnation)
        continue;
      resync(host);
    }
  }
  settle();
  after(1s, [this] { upkeep(); });
}

std::vector<std::string> LauncherWorld::run() {
  monitor_->arm();
  after(any(0, 30), [this] { upkeep(); });
  if (has_faults_) {
    for (std::uint64_t n = 1 + random_() % 4; n > 0; --n)
      after(any(0, 15'000), [this] { plan_fault(); });
  }
  for (Time time = now_; time < end_; time += 50ms) at(time, [this] { settle(); });
  while (!queue_.empty() && queue_.begin()->first.first <= end_) {
    now_ = std::max(now_, queue_.begin()->first.first);
    const auto task = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    task();
  }
  check();
  return wrong_;
}

// --- what must be so ---

void LauncherWorld::check() {
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    for (const auto& [number, rank] : hosts_[host].ranks) check_rank(host, rank, heard_[number]);
  }
  if (ends_ != 1) complain("the end of the mesh was told " + std::to_string(ends_) + " times");
  // The output of surviving ranks takes a second more when it has to be asked for, or a link is
  // cut.
  const auto limit = has_faults_ ? 8s : 1s;
  if (told_ && ended_ && *told_ - *ended_ > limit)
    complain("the end was told late, after " +
             std::to_string(std::chrono::duration_cast<Duration>(*told_ - *ended_).count()) +
             " ms");
}

void LauncherWorld::check_rank(std::size_t index, const Rank& rank, const Heard& heard) {
  const auto& host = hosts_[index];
  const auto name = "rank " + std::to_string(rank.state.rank()) + ": ";
  const bool is_lost = !is_end(rank.state.state());
  std::uint64_t last = 0;
  std::size_t ends = 0;
  for (const auto& state : heard.states) {
    ends += state.is_terminal() ? 1U : 0U;
    // A lost host tells nothing: the launcher makes that change.
    const bool is_made_up = state.code == ErrorCode::host_unreachable;
    if (!is_made_up && state.generation <= last) complain(name + "a change came twice, or late");
    if (!is_made_up && !has_faults_ && state.generation != last + 1)
      complain(name + "change " + std::to_string(last + 1) + " was not told");
    last = std::max(last, state.generation);
  }
  if (ends != 1) complain(name + "its end was told " + std::to_string(ends) + " times");
  const bool has_failed = is_lost || rank.state.signal() != 0 || rank.state.exit_code() != 0;
  // What a host did not tell before it died is lost with it.
  const bool may_be_lost = host.is_dead && heard.failures == 1;
  if (heard.failures != (has_failed ? 1 : 0) && !may_be_lost)
    complain(name + "on_failure was called " + std::to_string(heard.failures) + " times");
  if (!rank.written.starts_with(heard.output)) complain(name + "its output is not as it was");
  if (!host.is_dead && rank.written.size() != heard.output.size())
    complain(name + std::to_string(heard.output.size()) + " bytes of " +
             std::to_string(rank.written.size()) + " came");
}

}  // namespace meshbus::test
