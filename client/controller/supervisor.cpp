#include "client/controller/supervisor.h"

#include <algorithm>

#include "meshbus/name.h"
#include "wire/lifecycle_generated.h"
#include "wire/ranks_generated.h"

namespace meshbus {
namespace {

using QuestionKind = Supervisor::Question::Kind;

/// Probes without an answer at a time.
constexpr std::uint64_t kMostProbes = 4;
/// So many that came back in a row mean that nobody is there.
constexpr std::uint64_t kMostRefusals = 2;

/// Somebody on the way knows that nobody is there. An agent that is being replaced is not meant: it will be back.
bool is_refusal(ErrorCode code) {
  return code == ErrorCode::no_such_host || code == ErrorCode::host_unreachable || code == ErrorCode::unroutable ||
         code == ErrorCode::link_lost;
}

std::uint64_t count_live(const MeshNews& news) {
  const auto is_live = [](const wire::RankState& rank) { return !is_terminal(rank.state()); };
  return static_cast<std::uint64_t>(std::count_if(news.news.ranks.begin(), news.news.ranks.end(), is_live));
}

/// The answer of an agent, whatever it says; else nobody has answered.
bool is_answered(const HostAnswer& answer) {
  if (answer) return true;
  switch (answer.error().code()) {
    case ErrorCode::not_exist:
    case ErrorCode::unauthorised:
    case ErrorCode::refused:
    case ErrorCode::malformed_message:
    case ErrorCode::no_such_port: return true;
    default: return false;
  }
}

}  // namespace

Supervisor::Supervisor(Options options, Time now) : options_(std::move(options)), poll_due_(now), probe_due_(now) {
  // Whoever is asked seldom is heard of seldom.
  options_.silence = std::max(options_.silence, 4 * options_.probe);
  auto watched = std::make_shared<std::set<HostAddr>>(options_.hosts.begin(), options_.hosts.end());
  for (const auto& host : *watched) hosts_[host].heard = now;
  watched_ = std::move(watched);
}

bool Supervisor::is_wanted(std::string_view mesh) const {
  if (options_.mesh.empty() || mesh == options_.mesh) return true;
  const auto name = Name::parse(mesh);
  return name && name->base() == options_.mesh;
}

const MeshController* Supervisor::find(std::string_view mesh) const {
  const auto found = meshes_.find(mesh);
  return found == meshes_.end() ? nullptr : &found->second;
}

std::vector<HostAddr> Supervisor::unreachable() const {
  std::vector<HostAddr> list;
  for (const auto& [address, host] : hosts_) {
    if (host.is_silent) list.push_back(address);
  }
  return list;
}

void Supervisor::add(Actions& actions, const MeshController& mesh, MeshController::Actions&& more, Time now) {
  const auto prefix = ActorsName::prefix_of(mesh.mesh());
  std::vector<std::pair<const ActorMeshController*, ActorMeshController::Actions>> of_actors;
  for (auto entry = actors_.lower_bound(prefix); entry != actors_.end() && entry->first.starts_with(prefix); ++entry)
    of_actors.emplace_back(&entry->second, entry->second.procs_told(more.events, now));
  std::move(more.events.begin(), more.events.end(), std::back_inserter(actions.events));
  for (auto& order : more.orders) {
    auto kind = QuestionKind::state;
    if (order.kind == MeshController::Order::Kind::stream) kind = QuestionKind::stream;
    if (order.kind == MeshController::Order::Kind::stop) kind = QuestionKind::stop;
    actions.questions.push_back({kind, std::move(order.host), mesh.mesh(), {}});
  }
  // Procs first: what becomes of their actors follows from it.
  for (auto& [actors, told] : of_actors) add(actions, *actors, std::move(told));
}

void Supervisor::ask_list(Actions& actions, const HostAddr& address, Host& host, const std::string& after) {
  if (!is_up_) return;
  // The list that is under way may be older than what it is asked for.
  if (std::exchange(host.is_listing, true)) {
    host.wants_list = true;
    return;
  }
  actions.questions.push_back({QuestionKind::list, address, {}, after});
}

void Supervisor::hear(Actions& actions, const HostAddr& address, Host& host, Time now) {
  host.heard = now;
  host.refusals = 0;
  if (!std::exchange(host.is_silent, false)) return;
  host.problem.clear();
  WatchEvent event;
  event.kind = WatchEvent::Kind::host_back;
  event.host = address;
  actions.events.push_back(std::move(event));
  ask_list(actions, address, host);
  for (auto& [name, mesh] : meshes_) add(actions, mesh, mesh.host_changed(address, false, {}, now), now);
}

void Supervisor::fall_silent(Actions& actions, const HostAddr& address, Host& host, const std::string& problem, Time now) {
  if (std::exchange(host.is_silent, true)) return;
  host.problem = problem;
  WatchEvent event;
  event.kind = WatchEvent::Kind::host_unreachable;
  event.host = address;
  event.problem = problem;
  actions.events.push_back(std::move(event));
  for (auto& [name, mesh] : meshes_) add(actions, mesh, mesh.host_changed(address, true, problem, now), now);
}

Supervisor::Actions Supervisor::silent(const HostAddr& host, const std::string& problem, Time now) {
  Actions actions;
  const auto found = hosts_.find(host);
  if (found != hosts_.end()) fall_silent(actions, host, found->second, problem, now);
  return actions;
}

void Supervisor::probe_all(Actions& actions, Time now) {
  for (auto& [address, host] : hosts_) {
    if (now - host.heard >= options_.silence) {
      const auto seconds = std::chrono::duration_cast<std::chrono::milliseconds>(now - host.heard).count();
      fall_silent(actions, address, host, "nothing was heard of it for " + std::to_string(seconds) + " ms", now);
    }
    if (host.probes >= kMostProbes) continue;
    ++host.probes;
    actions.questions.push_back({QuestionKind::probe, address, {}, {}});
  }
}

void Supervisor::begin_poll(Actions& actions, Time now) {
  // What was to happen then: the first poll was due when this began.
  if (polls_ != 0 && now >= poll_due_ + options_.poll) {
    ++late_polls_;
    WatchEvent event;
    event.kind = WatchEvent::Kind::late;
    event.lateness = std::chrono::duration_cast<std::chrono::milliseconds>(now - poll_due_);
    actions.events.push_back(std::move(event));
  }
  ++polls_;
  poll_due_ = now + options_.poll;
  actions.is_heartbeat = true;
  for (auto& [address, host] : hosts_) {
    if (!host.is_listing) ask_list(actions, address, host);
  }
  if (is_up_) poll_actors(actions, now);
}

Supervisor::Actions Supervisor::turn(Time now) {
  Actions actions;
  if (now >= probe_due_) {
    // A process that was stopped or starved knows nothing about the others' silence.
    if (now - probe_due_ >= 2 * options_.probe) {
      for (auto& [address, host] : hosts_) host.heard = std::max(host.heard, now - options_.probe);
    }
    probe_due_ = now + options_.probe;
    if (is_up_) probe_all(actions, now);
  }
  if (now >= poll_due_) begin_poll(actions, now);
  if (is_up_) renew_all(actions, now);
  for (auto& [name, mesh] : meshes_) {
    if (const auto due = mesh.next_due(); is_up_ && due && *due <= now) add(actions, mesh, mesh.turn(now), now);
  }
  if (is_up_) turn_actors(actions, now);
  return actions;
}

Supervisor::Time Supervisor::next_due() const {
  auto next = std::min(poll_due_, probe_due_);
  for (const auto& [name, mesh] : meshes_) {
    if (const auto due = mesh.next_due(); is_up_ && due) next = std::min(next, *due);
  }
  for (const auto& [name, actors] : actors_) {
    if (const auto due = actors.next_due(); is_up_ && due) next = std::min(next, *due);
  }
  for (const auto& [address, host] : hosts_) {
    if (const auto due = host.leases.due(); may_renew(host) && due) next = std::min(next, *due);
  }
  return next;
}

Supervisor::Actions Supervisor::connected(bool is_up, Time now) {
  Actions actions;
  is_up_ = is_up;
  for (auto& [address, host] : hosts_) {
    host.heard = std::max(host.heard, now);
    host.refusals = 0;
    host.is_listing = host.is_listing && !is_up;
    host.is_renewing = host.is_renewing && !is_up;
    if (is_up) ask_list(actions, address, host);
  }
  if (!is_up) return actions;
  for (auto& [name, mesh] : meshes_) add(actions, mesh, mesh.streams_lost(std::nullopt, now), now);
  poll_actors(actions, now);
  return actions;
}

Supervisor::Actions Supervisor::poll_now(Time) {
  Actions actions;
  for (auto& [address, host] : hosts_) ask_list(actions, address, host);
  return actions;
}

Result<Supervisor::Actions> Supervisor::stop(wire::StopProcsT order, Time now) {
  if (const auto actors = actors_.find(order.mesh); actors != actors_.end()) {
    Actions actions;
    add(actions, actors->second, actors->second.stop(std::move(order), now));
    return actions;
  }
  const auto found = meshes_.find(order.mesh);
  if (found == meshes_.end()) return fail(ErrorCode::not_exist, "this controller knows no mesh '" + order.mesh + "'");
  Actions actions;
  add(actions, found->second, found->second.stop(std::move(order), now), now);
  return actions;
}

Supervisor::Actions Supervisor::pushed(const HostAddr& host, const std::string& mesh, const RankNews& news, Time now) {
  Actions actions;
  const auto from = hosts_.find(host);
  if (from == hosts_.end()) return actions;
  hear(actions, host, from->second, now);
  if (const auto found = meshes_.find(mesh); found != meshes_.end()) {
    add(actions, found->second, found->second.pushed(host, news, now), now);
    if (news.owner) note_leases();
  } else if (is_wanted(mesh)) {
    // Agents tell of what they were not asked only who answers for it: it was handed to us.
    ask_list(actions, host, from->second);
  }
  return actions;
}

std::uint64_t Supervisor::live_on(const HostAddr& host) const {
  std::uint64_t live = 0;
  for (const auto& [name, mesh] : meshes_) live += mesh.live_on(host);
  return live;
}

void Supervisor::on_probe(Actions& actions, const HostAddr& address, Host& host, const HostAnswer& answer, Time now) {
  if (!answer) {
    if (!is_up_ || !is_refusal(answer.error().code())) return;
    if (++host.refusals >= kMostRefusals) fall_silent(actions, address, host, answer.error().to_string(), now);
    return;
  }
  const auto* const news = std::get_if<HostNews>(&*answer);
  if (news == nullptr) return;
  // Something began or ended there of which nothing was heard: not known until the next poll otherwise.
  bool is_news = news->live != live_on(address) + host.others;
  if (const auto before = std::exchange(host.incarnation, news->incarnation); before != 0 && before != news->incarnation) {
    // What the agent before was asked and told, the new one may not know.
    is_news = true;
    for (auto& [name, mesh] : meshes_) add(actions, mesh, mesh.streams_lost(address, now), now);
  }
  if (is_news) ask_list(actions, address, host);
}

void Supervisor::on_list(Actions& actions, const HostAddr& address, Host& host, const ListNews& list, Time now) {
  std::set<std::string> listed;
  if (list.after.empty()) host.others_so_far = 0;
  for (const auto& news : list.meshes) {
    // It says itself that it lies elsewhere, perhaps at another address of this host.
    const bool is_here = std::find(news.hosts.begin(), news.hosts.end(), address) != news.hosts.end();
    if (!is_here || !is_wanted(news.mesh)) host.others_so_far += count_live(news);
    if (!is_wanted(news.mesh)) continue;
    listed.insert(news.mesh);
    auto found = meshes_.find(news.mesh);
    if (found == meshes_.end()) {
      found = meshes_.try_emplace(news.mesh, news.mesh, watched_).first;
      watch_actors_of(actions, news.mesh, now);
      auto& mesh = found->second;
      add(actions, mesh, mesh.listed(address, news, now), now);
      for (const auto& [other, state] : hosts_) {
        if (state.is_silent) add(actions, mesh, mesh.host_changed(other, true, state.problem, now), now);
      }
      continue;
    }
    add(actions, found->second, found->second.listed(address, news, now), now);
  }
  // What a page does not speak of may be on another one.
  const bool is_page = list.more && !list.meshes.empty();
  const auto last = is_page ? list.meshes.back().mesh : std::string();
  for (auto& [name, mesh] : meshes_) {
    if (listed.contains(name) || (!list.after.empty() && name <= list.after) || (is_page && name > last)) continue;
    add(actions, mesh, mesh.absent(address, now), now);
  }
  std::erase_if(meshes_, [this](const auto& entry) {
    if (!entry.second.is_forgotten()) return false;
    drop_actors(entry.first);
    return true;
  });
  note_leases();
  if (is_page && last > list.after) return ask_list(actions, address, host, last);
  host.others = host.others_so_far;
  if (std::exchange(host.wants_list, false)) ask_list(actions, address, host);
}

void Supervisor::on_mesh_answer(Actions& actions, const Question& question, const HostAnswer& answer, Time now) {
  const auto found = meshes_.find(question.mesh);
  if (found == meshes_.end()) return;
  auto kind = MeshController::Order::Kind::state;
  if (question.kind == QuestionKind::stream) kind = MeshController::Order::Kind::stream;
  if (question.kind == QuestionKind::stop) kind = MeshController::Order::Kind::stop;
  add(actions, found->second, found->second.answered({kind, question.host}, answer, now), now);
}

Supervisor::Actions Supervisor::answer(const Question& question, const HostAnswer& answer, Time now) {
  Actions actions;
  if (question.kind == QuestionKind::stream_actors || question.kind == QuestionKind::stop_actor) {
    on_actors_answer(actions, question, answer, now);
    return actions;
  }
  const auto found = hosts_.find(question.host);
  if (found == hosts_.end()) return actions;
  auto& host = found->second;
  if (question.kind == QuestionKind::probe) host.probes -= std::min<std::uint64_t>(host.probes, 1);
  if (question.kind == QuestionKind::list) host.is_listing = false;
  if (question.kind == QuestionKind::renew) host.is_renewing = false;
  if (is_answered(answer)) hear(actions, question.host, host, now);
  switch (question.kind) {
    case QuestionKind::probe: on_probe(actions, question.host, host, answer, now); break;
    case QuestionKind::list:
      if (const auto* const list = answer ? std::get_if<ListNews>(&*answer) : nullptr) {
        host.has_failed = false;
        on_list(actions, question.host, host, *list, now);
      } else if (!answer && is_answered(answer) && !std::exchange(host.has_failed, true)) {
        WatchEvent event;
        event.kind = WatchEvent::Kind::query_failed;
        event.host = question.host;
        event.problem = answer.error().to_string();
        actions.events.push_back(std::move(event));
      }
      break;
    case QuestionKind::renew: on_renewed(question, host, answer, now); break;
    default:
      on_mesh_answer(actions, question, answer, now);
      note_leases();
      break;
  }
  return actions;
}

}  // namespace meshbus
