#include "tests/unit/supervision/world.h"

#include "wire/supervision_generated.h"

namespace meshbus::test {
using namespace std::chrono_literals;

SupervisionWorld::SupervisionWorld(std::uint64_t seed)
    : random_(seed), has_faults_(seed % 5 != 0), is_fifo_(seed % 3 != 0), subscriber_(*ProcId::parse("unix:/h0,client-11111111111b")) {
  delay_ = chance(0.5) ? 5 : 60;
  quiet_ = now_ + kFaults;
  end_ = quiet_ + kQuiet;
  agents_.resize(1 + random_() % 3);
  to_agent_.resize(agents_.size());
  from_agent_.resize(agents_.size());
  trouble_.resize(agents_.size());
  Supervisor::Options options;
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    agents_[host].address = *HostAddr::parse("unix:/h" + std::to_string(host));
    agents_[host].incarnation = random_();
    options.hosts.push_back(agents_[host].address);
  }
  supervisor_ = std::make_unique<Supervisor>(options, now_);
  supervisor_->add_name(kOwner, now_);
}

void SupervisionWorld::at(Time time, std::function<void()> task) {
  queue_.emplace(std::pair(std::max(time, now_), next_++), std::move(task));
}

void SupervisionWorld::send(Link& link, std::function<void()> deliver) {
  if (link.is_cut || chance(link.loss)) return;
  auto time = now_ + any(0, delay_);
  if (is_fifo_) time = link.last = std::max(link.last, time);
  at(time, [this, &link, deliver = std::move(deliver)] {
    ++messages_;
    if (!link.is_cut) deliver();
  });
}

// --- what there is ---

void SupervisionWorld::make_mesh() {
  const auto name = Name::make("m", random_())->to_string();
  Mesh mesh{.region = {}, .hosts = {}, .made = now_, .is_owned = chance(0.5), .has_actors = chance(0.6)};
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    if (!agents_[host].is_dead && agents_[host].is_up && (chance(0.7) || host == 0)) mesh.hosts.push_back(host);
  }
  if (mesh.hosts.empty()) return;
  const std::uint64_t each = 1 + random_() % 3;
  mesh.region = Region(*Extent::make({"host", "gpu"}, {mesh.hosts.size(), each}));
  meshes_.emplace(name, mesh);
  if (mesh.has_actors) after(any(0, 15'000), [this, name] { watch_actors(name); });
  for (std::size_t index = 0; index < mesh.hosts.size(); ++index) {
    const auto host = mesh.hosts[index];
    RankUpdate births;
    for (std::uint64_t i = 0; i < each; ++i) {
      const auto rank = index * each + i;
      Rank fresh{.state = {rank, 1, random_() | 1, 1, 0, 42, 0, wire::ProcState::starting, 0, false, wire::StopStep::none, 0},
                 .exit_report = nullptr};
      agents_[host].meshes[name].emplace(rank, fresh);
      births.ranks.push_back(fresh.state);
      plan_rank(host, name, rank);
    }
    push(host, name, std::move(births));
  }
  if (chance(0.3)) after(any(500, 25'000), [this, name] { stop_mesh(name); });
}

void SupervisionWorld::plan_rank(std::size_t host, const std::string& mesh, std::uint64_t rank) {
  after(any(1, 500), [this, host, mesh, rank] {
    const auto found = agents_[host].meshes.find(mesh);
    if (found == agents_[host].meshes.end() || agents_[host].is_dead) return;
    auto& one = found->second.at(rank);
    if (one.state.state() != wire::ProcState::starting) return;
    one.state.mutate_generation(one.state.generation() + 1);
    one.state.mutate_state(wire::ProcState::ready);
    push(host, mesh, {{one.state}, {}});
    if (meshes_.at(mesh).has_actors) make_actor(host, mesh, rank);
  });
  if (chance(0.4)) {
    const auto first = any(500, 20'000);
    after(first, [this, host, mesh, rank] { set_trouble(host, mesh, rank, wire::Trouble::frozen); });
    after(first + any(100, 4000), [this, host, mesh, rank] { set_trouble(host, mesh, rank, wire::Trouble::slow); });
    if (chance(0.5)) after(first + any(4000, 8000), [this, host, mesh, rank] { set_trouble(host, mesh, rank, wire::Trouble::none); });
  }
  if (chance(0.4)) return;
  after(any(1, 24'000), [this, host, mesh, rank] {
    switch (random_() % 4) {
      case 0: return end_rank(host, mesh, rank, wire::ProcState::stopped, wire::Cause::exited, 0);
      case 1: return end_rank(host, mesh, rank, wire::ProcState::stopped, wire::Cause::exited, 3);
      case 2: return end_rank(host, mesh, rank, wire::ProcState::failed, wire::Cause::not_ready, 0);
      default: return end_rank(host, mesh, rank, wire::ProcState::killed, wire::Cause::killed_from_outside, 0);
    }
  });
}

void SupervisionWorld::stop_mesh(const std::string& mesh) {
  if (now_ >= quiet_) return;
  at_controller([this, mesh] {
    wire::StopProcsT order;
    order.mesh = mesh;
    auto actions = supervisor_->stop(std::move(order), now_);
    if (!actions) return after(1s, [this, mesh] { stop_mesh(mesh); });
    stopped_.insert(mesh);
    act(std::move(*actions));
  });
}

void SupervisionWorld::plan_fault() {
  const auto host = random_() % agents_.size();
  const auto length = any(200, 12'000);
  trouble(host, now_ + length);
  switch (random_() % 8) {
    case 0: {  // a link is cut
      to_agent_[host].is_cut = from_agent_[host].is_cut = true;
      return after(length, [this, host] { to_agent_[host].is_cut = from_agent_[host].is_cut = false; });
    }
    case 1: {  // one way of it
      from_agent_[host].is_cut = true;
      return after(length, [this, host] { from_agent_[host].is_cut = false; });
    }
    case 2: {  // messages are lost
      to_agent_[host].loss = from_agent_[host].loss = 0.4;
      return after(length, [this, host] { to_agent_[host].loss = from_agent_[host].loss = 0; });
    }
    case 3: {  // also on the way to the subscriber
      to_subscriber_.loss = from_subscriber_.loss = 0.5;
      return after(length, [this] { to_subscriber_.loss = from_subscriber_.loss = 0; });
    }
    case 4: return replace_agent(host);
    case 5: return kill_host(host, chance(0.6));
    case 6: return chance(0.5) ? stall(length) : lose_session(any(100, 4000));
    default: agents_[host].clock_offset_ns += (static_cast<std::int64_t>(random_() % 7200) - 3600) * 1'000'000'000; return;
  }
}

// --- the controller ---

void SupervisionWorld::at_controller(std::function<void()> task) {
  if (is_stalled_) {
    waiting_.push_back(std::move(task));
  } else {
    task();
  }
}

void SupervisionWorld::wake() {
  const auto token = ++wake_;
  at(supervisor_->next_due(), [this, token] {
    if (token == wake_ && !is_stalled_) act(supervisor_->turn(now_));
  });
}

void SupervisionWorld::stall(Duration length) {
  if (is_stalled_) return;
  is_stalled_ = true;
  after(length, [this] {
    is_stalled_ = false;
    blind_until_ = now_;
    for (auto& task : std::exchange(waiting_, {})) task();
    act(supervisor_->turn(now_));
  });
}

void SupervisionWorld::lose_session(Duration length) {
  if (!is_connected_) return;
  is_connected_ = false;
  for (std::size_t host = 0; host < agents_.size(); ++host) {
    trouble(host, now_ + length);
    if (!chance(0.5)) continue;
    agents_[host].streams.clear();
    for (auto& [mesh, ranks] : agents_[host].meshes) {
      for (auto& [rank, one] : ranks) one.is_streaming = false;
    }
  }
  at_controller([this] {
    act(supervisor_->connected(false, now_));
    std::vector<std::uint64_t> ids;
    for (const auto& [id, open] : open_) ids.push_back(id);
    for (const auto id : ids) answer(id, fail(ErrorCode::fate_unknown, "the session is lost"));
  });
  after(length, [this] {
    is_connected_ = true;
    blind_until_ = now_;
    at_controller([this] { act(supervisor_->connected(true, now_)); });
  });
}

void SupervisionWorld::answer(std::uint64_t id, const HostAnswer& answer) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  const auto question = found->second;
  open_.erase(found);
  act(supervisor_->answer(question, answer, now_));
}

void SupervisionWorld::ask(const Supervisor::Question& question) {
  const auto id = next_question_++;
  open_.emplace(id, question);
  after(kAnswerLimit, [this, id] { at_controller([this, id] { answer(id, fail(ErrorCode::timeout, "no answer")); }); });
  if (!is_connected_) return;
  const auto host = static_cast<std::size_t>(std::stoul(question.host.to_string().substr(7)));
  const auto reply = [this, host, id](const HostAnswer& said) {
    send(from_agent_[host], [this, id, said] {
      if (is_connected_) at_controller([this, id, said] { answer(id, said); });
    });
  };
  send(to_agent_[host], [this, host, question, reply] {
    if (agents_[host].is_dead) {
      if (chance(0.5)) reply(fail(ErrorCode::no_such_host, "nobody there"));
      return;
    }
    if (question.kind == Supervisor::Question::Kind::stream_actors) return reply(ask_proc(host, question));
    if (!agents_[host].is_up) {
      if (chance(0.5)) reply(fail(ErrorCode::no_such_proc, "no agent"));
      return;
    }
    reply(ask_agent(host, question));
  });
}

void SupervisionWorld::act(Supervisor::Actions actions) {
  tell(actions.events);
  for (const auto& question : actions.questions) ask(question);
  if (actions.is_heartbeat) beat();
  wake();
}

void SupervisionWorld::note_trouble(Troubles& troubles, const WatchEvent& event) {
  const LifeKey life{event.mesh, event.rank.rank(), event.rank.incarnation()};
  if (event.kind == WatchEvent::Kind::trouble && event.trouble.trouble() != wire::Trouble::none) {
    troubles[life] = event.trouble.trouble();
  } else if (event.kind == WatchEvent::Kind::trouble || (event.is_of_rank() && event.rank.state() != wire::ProcState::ready)) {
    troubles.erase(life);
  }
}

void SupervisionWorld::record(const WatchEvent& event) {
  if (ActorsName::is_meant(event.mesh)) return record_actor(event);
  note_trouble(troubles_, event);
  if (event.kind == WatchEvent::Kind::host_unreachable && event.mesh.empty()) {
    const auto host = static_cast<std::size_t>(std::stoul(event.host.to_string().substr(7)));
    if (now_ > trouble_[host] + 6s) complain("a host was said to be unreachable, and nothing was wrong with it");
  }
  if (event.kind != WatchEvent::Kind::state) return;
  known_.insert({event.mesh, event.rank.rank(), event.rank.incarnation()});
  if (!is_terminal(event.rank.state())) return;
  reports_[{event.mesh, event.rank.rank(), event.rank.incarnation()}].push_back({now_, event.rank, event.exit_report});
}

void SupervisionWorld::tell(const std::vector<WatchEvent>& events) {
  for (const auto& event : events) record(event);
  tell_subscriber(events, false);
}

void SupervisionWorld::tell_subscriber(const std::vector<WatchEvent>& events, bool is_snapshot) {
  for (const auto& native : to_messages(subscriptions_.for_subscriber(subscriber_, events), supervisor_->polls(), is_snapshot)) {
    auto message = std::make_shared<wire::MeshEventT>(native);
    message->sequence = subscriptions_.next_sequence(subscriber_);
    send(to_subscriber_, [this, message] {
      for (const auto& event : feed_.on_event(*message, now_)) {
        note_trouble(heard_troubles_, event);
        if (event.kind != WatchEvent::Kind::state) continue;
        const LifeKey life{event.mesh, event.rank.rank(), event.rank.incarnation()};
        heard_of_.insert(life);
        if (is_terminal(event.rank.state())) heard_[life].push_back({now_, event.rank, event.exit_report});
      }
    });
  }
}

void SupervisionWorld::beat() {
  if (now_ >= quiet_) ++beats_;
  if (subscriptions_.size() == 0) return;
  auto message = std::make_shared<wire::MeshHeartbeatT>();
  message->interval_ms = static_cast<std::uint32_t>(supervisor_->options().poll.count());
  message->sequence = subscriptions_.sequence(subscriber_);
  send(to_subscriber_, [this, message] { feed_.on_heartbeat(*message, now_); });
}

// --- the subscriber ---

void SupervisionWorld::subscribe(bool again) {
  send(from_subscriber_, [this, again] {
    at_controller([this, again] {
      const bool is_new = subscriptions_.add(subscriber_, "");
      send(to_subscriber_, [this] {
        is_subscribed_ = true;
        feed_.on_subscribed();
      });
      if (!is_new && !again) return;
      for (const auto& [name, mesh] : supervisor_->meshes()) tell_subscriber(mesh.known(), true);
    });
  });
}

void SupervisionWorld::subscriber_turn() {
  if (!is_subscribed_) {
    subscribe(true);
  } else if (feed_.should_ask_again(now_)) {
    subscribe(true);
  }
  after(1s, [this] { subscriber_turn(); });
}

std::vector<std::string> SupervisionWorld::run() {
  for (std::uint64_t n = 1 + random_() % 2; n > 0; --n) make_mesh();
  if (chance(0.5)) after(any(1000, 15'000), [this] { make_mesh(); });
  if (has_faults_) {
    for (std::uint64_t n = 1 + random_() % 6; n > 0; --n) after(any(0, 12'000), [this] { plan_fault(); });
  }
  after(any(0, 20'000), [this] { subscriber_turn(); });
  at(quiet_ + 15s, [this] { kill_last(); });
  if (!has_faults_) {
    for (Time time = now_; time < end_; time += 1s) {
      at(time, [this] { check_leases(); });
      at(time, [this] { check_known(); });
    }
  }
  act(supervisor_->connected(true, now_));
  while (!queue_.empty() && queue_.begin()->first.first <= end_) {
    now_ = std::max(now_, queue_.begin()->first.first);
    auto task = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    task();
  }
  check_end();
  return wrong_;
}

}  // namespace meshbus::test
