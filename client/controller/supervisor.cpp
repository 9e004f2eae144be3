#include "client/controller/supervisor.h"

#include <algorithm>

#include "common/base/own_pause.h"
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

/// Somebody on the way knows that nobody is there. An agent that is being replaced is not meant: it
/// will be back.
bool is_refusal(ErrorCode code) {
  return code == ErrorCode::no_such_host || code == ErrorCode::host_unreachable ||
         code == ErrorCode::unroutable || code == ErrorCode::link_lost;
}

QuestionKind to_question(MeshController::Order::Kind kind) {
  using Kind = MeshController::Order::Kind;
  switch (kind) {
    case Kind::stream: return QuestionKind::stream;
    case Kind::state: return QuestionKind::state;
    case Kind::stop: return QuestionKind::stop;
    case Kind::stop_gang: return QuestionKind::stop_gang;
    case Kind::restart: return QuestionKind::restart;
  }
  return QuestionKind::state;
}

MeshController::Order::Kind to_order(QuestionKind kind) {
  using Kind = MeshController::Order::Kind;
  switch (kind) {
    case QuestionKind::stream: return Kind::stream;
    case QuestionKind::stop: return Kind::stop;
    case QuestionKind::stop_gang: return Kind::stop_gang;
    case QuestionKind::restart: return Kind::restart;
    default: return Kind::state;
  }
}

std::uint64_t count_live(const MeshUpdate& update) {
  const auto is_live = [](const wire::RankState& rank) { return !is_terminal(rank.state()); };
  return static_cast<std::uint64_t>(
      std::count_if(update.ranks_update.ranks.begin(), update.ranks_update.ranks.end(), is_live));
}

/// The answer of an agent, whatever it says; else nobody has answered.
bool is_answered(const HostAnswer& answer) {
  if (answer) return true;
  switch (answer.error().code()) {
    case ErrorCode::not_exist:
    case ErrorCode::unauthorised:
    case ErrorCode::refused:
    case ErrorCode::would_block:
    case ErrorCode::malformed_message:
    case ErrorCode::no_such_port: return true;
    default: return false;
  }
}

}  // namespace

Supervisor::Supervisor(Options options, Time now)
    : options_(std::move(options)), actors_(options_.actors), poll_due_(now), probe_due_(now) {
  // A host that is asked seldom is heard of seldom.
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

void Supervisor::add(Actions& actions, const MeshController& mesh, MeshController::Actions&& more,
                     Time now) {
  auto of_actors = actors_.procs_told(mesh.mesh(), more.events, now);
  std::move(more.events.begin(), more.events.end(), std::back_inserter(actions.events));
  for (auto& order : more.orders) {
    auto& question = actions.questions.emplace_back(
        Question{to_question(order.kind), std::move(order.host), mesh.mesh(), {}});
    question.stop = std::move(order.stop);
    question.restart = std::move(order.restart);
  }
  // Procs first: what becomes of their actors follows from it.
  for (auto& one : of_actors) {
    std::move(one.events.begin(), one.events.end(), std::back_inserter(actions.events));
    std::move(one.questions.begin(), one.questions.end(), std::back_inserter(actions.questions));
  }
}

void Supervisor::note_owned(Actions& actions, Time now) {
  for (auto& [name, mesh] : meshes_) {
    if (owned_.is_unsure(mesh)) add(actions, mesh, mesh.ask_unheard(now), now);
    const bool is_ours = owned_.may_restart(mesh);
    if (is_ours != mesh.is_ours()) add(actions, mesh, mesh.own(is_ours, now), now);
  }
  note_leases();
}

void Supervisor::note_leases() {
  std::vector<HostAddr> hosts;
  for (const auto& [address, host] : hosts_) hosts.push_back(address);
  owned_.note_leases(meshes_, hosts);
}

void Supervisor::note_host_owner(const HostAddr& host, const std::optional<OwnerUpdate>& owner) {
  if (owned_.note_host(host, owner)) note_leases();
}

void Supervisor::renew_all(Actions& actions, Time now) {
  for (const auto& [address, host] : hosts_) {
    if (!may_renew(host)) continue;
    auto due = owned_.renew(address, now);
    if (!due.empty())
      actions.questions.push_back({QuestionKind::renew, address, {}, {}, std::move(due)});
  }
}

Supervisor::Actions Supervisor::add_name(const std::string& name, Time now) {
  Actions actions;
  if (!owned_.add_name(name)) return actions;
  note_owned(actions, now);
  if (is_up_) renew_all(actions, now);
  return actions;
}

Supervisor::Actions Supervisor::drop_names(Time now) {
  Actions actions;
  owned_.drop_names();
  for (const auto& [address, host] : hosts_) {
    if (!host.is_silent) owned_.claims().on_back(address);
  }
  note_owned(actions, now);
  return actions;
}

Supervisor::Actions Supervisor::claimed(const HostAddr& host, const std::vector<PairFormer>& former,
                                        Time now) {
  Actions actions;
  bool is_new = false;
  for (const auto& one : former) is_new = owned_.claims().add_former(one) || is_new;
  // The answer of a host that is silent is an old one.
  if (const auto found = hosts_.find(host); found != hosts_.end() && !found->second.is_silent)
    is_new = owned_.claims().on_answer(host) || is_new;
  if (is_new) note_owned(actions, now);
  if (is_new && is_up_) renew_all(actions, now);
  return actions;
}

void Supervisor::hold(const std::string& mesh) {
  owned_.hold(mesh);
  // The next owner decides about its restarts.
  if (const auto found = meshes_.find(mesh); found != meshes_.end())
    (void)found->second.own(false, {});
}

Supervisor::Actions Supervisor::resume(const std::string& mesh, Time now) {
  Actions actions;
  owned_.resume(mesh);
  note_owned(actions, now);
  return actions;
}

void Supervisor::let_go(const std::string& mesh) {
  owned_.let_go(mesh);
  note_leases();
}

std::size_t Supervisor::live_owned() const {
  std::size_t count = 0;
  for (const auto& [name, mesh] : meshes_) count += mesh.live() != 0 && is_owned(mesh) ? 1U : 0U;
  return count;
}

bool Supervisor::has_told_owned() const {
  return std::none_of(meshes_.begin(), meshes_.end(), [this](const auto& entry) {
    return entry.second.is_monitored() && is_owned(entry.second);
  });
}

Supervisor::Actions Supervisor::stop_owned(const wire::StopProcsT& order, Time now) {
  Actions actions;
  for (auto& [name, mesh] : meshes_) {
    if ((mesh.live() == 0 && !mesh.is_restarting()) || !is_owned(mesh)) continue;
    auto one = order;
    one.mesh = name;
    add(actions, mesh, mesh.stop(std::move(one), now), now);
  }
  return actions;
}

Result<Supervisor::Actions> Supervisor::watch_actors(const ActorsName& name, Time now) {
  const auto mesh = name.mesh().to_string();
  if (!is_wanted(mesh))
    return fail(ErrorCode::refused, "this controller watches " + options_.mesh + " alone");
  return actors_.add(name, find(mesh), now);
}

void Supervisor::forget_actors(const std::function<bool(const std::string&)>& is_wanted, Time now) {
  actors_.forget(is_wanted, now);
}

Supervisor::Actions Supervisor::actors_pushed(std::uint64_t proc_key, std::uint64_t host_key,
                                              std::uint64_t incarnation, const ActorUpdate& update,
                                              Time now) {
  Actions actions;
  actors_.pushed(actions, proc_key, host_key, incarnation, update, now);
  return actions;
}

void Supervisor::ask_list(Actions& actions, const HostAddr& address, Host& host,
                          const std::string& after) {
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
  owned_.claims().on_back(address);
  WatchEvent event;
  event.kind = WatchEvent::Kind::host_back;
  event.host = address;
  actions.events.push_back(std::move(event));
  ask_list(actions, address, host);
  for (auto& [name, mesh] : meshes_)
    add(actions, mesh, mesh.host_changed(address, false, {}, now), now);
}

void Supervisor::fall_silent(Actions& actions, const HostAddr& address, Host& host,
                             const std::string& problem, Time now) {
  if (std::exchange(host.is_silent, true)) return;
  host.problem = problem;
  owned_.claims().on_silent(address);
  WatchEvent event;
  event.kind = WatchEvent::Kind::host_unreachable;
  event.host = address;
  event.problem = problem;
  actions.events.push_back(std::move(event));
  for (auto& [name, mesh] : meshes_)
    add(actions, mesh, mesh.host_changed(address, true, problem, now), now);
  // Meshes whose owner depended on what this host would say.
  note_owned(actions, now);
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
      const auto seconds =
          std::chrono::duration_cast<std::chrono::milliseconds>(now - host.heard).count();
      fall_silent(actions, address, host,
                  "nothing was heard of it for " + std::to_string(seconds) + " ms", now);
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
  if (is_up_) actors_.poll(actions, now);
}

Supervisor::Actions Supervisor::turn(Time now) {
  Actions actions;
  if (now >= probe_due_) {
    if (OwnPause(2 * options_.probe).was_away(probe_due_, now)) {
      for (auto& [address, host] : hosts_) host.heard = std::max(host.heard, now - options_.probe);
    }
    probe_due_ = now + options_.probe;
    if (is_up_) probe_all(actions, now);
  }
  if (now >= poll_due_) begin_poll(actions, now);
  if (is_up_) renew_all(actions, now);
  for (auto& [name, mesh] : meshes_) {
    if (const auto due = mesh.next_due(); is_up_ && due && *due <= now)
      add(actions, mesh, mesh.turn(now), now);
  }
  if (is_up_) actors_.turn(actions, now);
  return actions;
}

Supervisor::Time Supervisor::next_due() const {
  auto next = std::min(poll_due_, probe_due_);
  for (const auto& [name, mesh] : meshes_) {
    if (const auto due = mesh.next_due(); is_up_ && due) next = std::min(next, *due);
  }
  if (const auto due = actors_.next_due(); is_up_ && due) next = std::min(next, *due);
  for (const auto& [address, host] : hosts_) {
    const auto due = may_renew(host) ? owned_.next_due(address) : std::nullopt;
    if (due) next = std::min(next, *due);
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
    if (is_up) ask_list(actions, address, host);
  }
  if (!is_up) return actions;
  owned_.on_connected();
  for (auto& [name, mesh] : meshes_) add(actions, mesh, mesh.streams_lost(std::nullopt, now), now);
  actors_.poll(actions, now);
  return actions;
}

Supervisor::Actions Supervisor::poll_now(Time) {
  Actions actions;
  for (auto& [address, host] : hosts_) ask_list(actions, address, host);
  return actions;
}

Result<Supervisor::Actions> Supervisor::stop(wire::StopProcsT order, Time now) {
  Actions actions;
  if (actors_.stop(actions, order, now)) return actions;
  const auto found = meshes_.find(order.mesh);
  if (found == meshes_.end())
    return fail(ErrorCode::not_exist, "this controller knows no mesh '" + order.mesh + "'");
  add(actions, found->second, found->second.stop(std::move(order), now), now);
  return actions;
}

Supervisor::Actions Supervisor::pushed(const HostAddr& host, const std::string& mesh,
                                       const RankUpdate& update, Time now) {
  Actions actions;
  const auto from = hosts_.find(host);
  if (from == hosts_.end()) return actions;
  hear(actions, host, from->second, now);
  if (const auto found = meshes_.find(mesh); found != meshes_.end()) {
    add(actions, found->second, found->second.pushed(host, update, now), now);
    if (update.owner) note_owned(actions, now);
  } else if (is_wanted(mesh)) {
    // Unasked, agents tell only the owner: the mesh was handed to us.
    ask_list(actions, host, from->second);
  }
  return actions;
}

std::uint64_t Supervisor::live_on(const HostAddr& host) const {
  std::uint64_t live = 0;
  for (const auto& [name, mesh] : meshes_) live += mesh.live_on(host);
  return live;
}

void Supervisor::on_probe(Actions& actions, const HostAddr& address, Host& host,
                          const HostAnswer& answer, Time now) {
  if (!answer) {
    if (!is_up_ || !is_refusal(answer.error().code())) return;
    if (++host.refusals >= kMostRefusals)
      fall_silent(actions, address, host, answer.error().to_string(), now);
    return;
  }
  const auto* const update = std::get_if<HostUpdate>(&*answer);
  if (update == nullptr) return;
  note_host_owner(address, update->owner);
  // Something began or ended there of which nothing was heard: not known until the next poll
  // otherwise.
  bool is_new = update->live != live_on(address) + host.others;
  if (const auto before = std::exchange(host.incarnation, update->incarnation);
      before != 0 && before != update->incarnation) {
    // The new agent may not know the questions and orders of the one before.
    is_new = true;
    for (auto& [name, mesh] : meshes_) add(actions, mesh, mesh.streams_lost(address, now), now);
  }
  if (is_new) ask_list(actions, address, host);
}

void Supervisor::on_list(Actions& actions, const HostAddr& address, Host& host,
                         const ListUpdate& list, Time now) {
  std::set<std::string> listed;
  if (list.after.empty()) host.others_so_far = 0;
  for (const auto& update : list.meshes) {
    // It says itself that it lies elsewhere, perhaps at another address of this host.
    const bool is_here =
        std::find(update.hosts.begin(), update.hosts.end(), address) != update.hosts.end();
    if (!is_here || !is_wanted(update.mesh)) host.others_so_far += count_live(update);
    if (!is_wanted(update.mesh)) continue;
    listed.insert(update.mesh);
    auto found = meshes_.find(update.mesh);
    if (found == meshes_.end()) {
      found = meshes_.try_emplace(update.mesh, update.mesh, watched_).first;
      actors_.add_mesh(actions, found->second, now);
      auto& mesh = found->second;
      add(actions, mesh, mesh.listed(address, update, now), now);
      for (const auto& [other, state] : hosts_) {
        if (state.is_silent)
          add(actions, mesh, mesh.host_changed(other, true, state.problem, now), now);
      }
      continue;
    }
    add(actions, found->second, found->second.listed(address, update, now), now);
  }
  // What a page does not speak of may be on another one.
  const bool is_page = list.more && !list.meshes.empty();
  const auto last = is_page ? list.meshes.back().mesh : std::string();
  for (auto& [name, mesh] : meshes_) {
    if (listed.contains(name) || (!list.after.empty() && name <= list.after) ||
        (is_page && name > last))
      continue;
    add(actions, mesh, mesh.absent(address, now), now);
  }
  std::erase_if(meshes_, [this](const auto& entry) {
    if (!entry.second.is_forgotten()) return false;
    actors_.drop_mesh(entry.first);
    return true;
  });
  note_owned(actions, now);
  if (is_page && last > list.after) return ask_list(actions, address, host, last);
  host.others = host.others_so_far;
  if (std::exchange(host.wants_list, false)) ask_list(actions, address, host);
}

void Supervisor::on_mesh_answer(Actions& actions, const Question& question,
                                const HostAnswer& answer, Time now) {
  const auto found = meshes_.find(question.mesh);
  if (found == meshes_.end()) return;
  const MeshController::Order order{.kind = to_order(question.kind), .host = question.host};
  add(actions, found->second, found->second.answered(order, answer, now), now);
}

Supervisor::Actions Supervisor::answer(const Question& question, const HostAnswer& answer,
                                       Time now) {
  Actions actions;
  if (question.kind == QuestionKind::stream_actors || question.kind == QuestionKind::stop_actor) {
    actors_.answered(actions, question, answer, now);
    return actions;
  }
  const auto found = hosts_.find(question.host);
  if (found == hosts_.end()) return actions;
  auto& host = found->second;
  if (question.kind == QuestionKind::probe) host.probes -= std::min<std::uint64_t>(host.probes, 1);
  if (question.kind == QuestionKind::list) host.is_listing = false;
  if (is_answered(answer)) hear(actions, question.host, host, now);
  switch (question.kind) {
    case QuestionKind::probe: on_probe(actions, question.host, host, answer, now); break;
    case QuestionKind::list:
      if (const auto* const list = answer ? std::get_if<ListUpdate>(&*answer) : nullptr) {
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
    case QuestionKind::renew: {
      // A host that does not know some of them has renewed the others.
      const bool is_done = answer || answer.error().code() == ErrorCode::not_exist;
      owned_.on_renewed(question.host, question.meshes, is_done, now);
      break;
    }
    default:
      on_mesh_answer(actions, question, answer, now);
      note_owned(actions, now);
      break;
  }
  return actions;
}

}  // namespace meshbus
