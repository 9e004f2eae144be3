#include "client/controller/supervisor.h"

#include <algorithm>

#include "common/base/own_pause.h"
#include "wire/lifecycle_generated.h"

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
    : options_(std::move(options)),
      meshes_(
          std::make_shared<const std::set<HostAddr>>(options_.hosts.begin(), options_.hosts.end()),
          options_.mesh, options_.actors),
      poll_due_(now),
      probe_due_(now) {
  // A host that is asked seldom is heard of seldom.
  options_.silence = std::max(options_.silence, 4 * options_.probe);
  for (const auto& host : options_.hosts) hosts_[host].heard = now;
}

std::vector<HostAddr> Supervisor::unreachable() const {
  std::vector<HostAddr> list;
  for (const auto& [address, host] : hosts_) {
    if (host.is_silent) list.push_back(address);
  }
  return list;
}

void Supervisor::note_owned(Actions& actions, Time now) {
  meshes_.note_owned(actions, owned_, now);
  note_leases();
}

void Supervisor::note_leases() {
  std::vector<HostAddr> hosts;
  for (const auto& [address, host] : hosts_) hosts.push_back(address);
  owned_.note_leases(meshes_.all(), hosts);
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
  meshes_.disown(mesh);
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
  for (const auto& [name, mesh] : meshes_.all())
    count += mesh.live() != 0 && is_owned(mesh) ? 1U : 0U;
  return count;
}

bool Supervisor::has_told_owned() const {
  return std::none_of(meshes_.all().begin(), meshes_.all().end(), [this](const auto& entry) {
    return entry.second.is_monitored() && is_owned(entry.second);
  });
}

Supervisor::Actions Supervisor::stop_owned(const wire::StopProcsT& order, Time now) {
  Actions actions;
  meshes_.stop_all(
      actions, order, [this](const MeshController& mesh) { return is_owned(mesh); }, now);
  return actions;
}

Result<Supervisor::Actions> Supervisor::watch_actors(const ActorsName& name, Time now) {
  const auto mesh = name.mesh().to_string();
  if (!meshes_.is_wanted(mesh))
    return fail(ErrorCode::refused, "this controller watches " + options_.mesh + " alone");
  return meshes_.actors().add(name, find(mesh), now);
}

void Supervisor::forget_actors(const std::function<bool(const std::string&)>& is_wanted, Time now) {
  meshes_.actors().forget(is_wanted, now);
}

Supervisor::Actions Supervisor::actors_pushed(std::uint64_t proc_key, std::uint64_t host_key,
                                              std::uint64_t incarnation, const ActorUpdate& update,
                                              Time now) {
  Actions actions;
  meshes_.actors().pushed(actions, proc_key, host_key, incarnation, update, now);
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
  meshes_.host_changed(actions, address, false, {}, now);
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
  meshes_.host_changed(actions, address, true, problem, now);
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
  if (is_up_) meshes_.actors().poll(actions, now);
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
  if (is_up_) {
    renew_all(actions, now);
    meshes_.turn(actions, now);
  }
  return actions;
}

Supervisor::Time Supervisor::next_due() const {
  auto next = std::min(poll_due_, probe_due_);
  if (const auto due = meshes_.next_due(); is_up_ && due) next = std::min(next, *due);
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
  meshes_.streams_lost(actions, std::nullopt, now);
  meshes_.actors().poll(actions, now);
  return actions;
}

Supervisor::Actions Supervisor::poll_now(Time) {
  Actions actions;
  for (auto& [address, host] : hosts_) ask_list(actions, address, host);
  return actions;
}

Result<Supervisor::Actions> Supervisor::stop(wire::StopProcsT order, Time now) {
  Actions actions;
  const auto mesh = order.mesh;
  if (meshes_.actors().stop(actions, order, now)) return actions;
  if (meshes_.stop(actions, std::move(order), now)) return actions;
  return fail(ErrorCode::not_exist, "this controller knows no mesh '" + mesh + "'");
}

Supervisor::Actions Supervisor::pushed(const HostAddr& host, const std::string& mesh,
                                       const RankUpdate& update, Time now) {
  Actions actions;
  const auto from = hosts_.find(host);
  if (from == hosts_.end()) return actions;
  hear(actions, host, from->second, now);
  if (meshes_.pushed(actions, host, mesh, update, now)) {
    if (update.owner) note_owned(actions, now);
  } else if (meshes_.is_wanted(mesh)) {
    // Unasked, agents tell only the owner: the mesh was handed to us.
    ask_list(actions, host, from->second);
  }
  return actions;
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
  bool is_new = update->live != meshes_.live_on(address) + host.others;
  if (const auto before = std::exchange(host.incarnation, update->incarnation);
      before != 0 && before != update->incarnation) {
    // The new agent may not know the questions and orders of the one before.
    is_new = true;
    meshes_.streams_lost(actions, address, now);
  }
  if (is_new) ask_list(actions, address, host);
}

void Supervisor::on_list(Actions& actions, const HostAddr& address, Host& host,
                         const ListUpdate& list, Time now) {
  if (list.after.empty()) host.others_so_far = 0;
  host.others_so_far += meshes_.listed(actions, address, list, now);
  note_owned(actions, now);
  if (list.is_page() && list.meshes.back().mesh > list.after)
    return ask_list(actions, address, host, list.meshes.back().mesh);
  host.others = host.others_so_far;
  if (std::exchange(host.wants_list, false)) ask_list(actions, address, host);
}

Supervisor::Actions Supervisor::answer(const Question& question, const HostAnswer& answer,
                                       Time now) {
  Actions actions;
  if (question.kind == QuestionKind::stream_actors || question.kind == QuestionKind::stop_actor) {
    meshes_.actors().answered(actions, question, answer, now);
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
      meshes_.answered(actions, question, answer, now);
      note_owned(actions, now);
      break;
  }
  return actions;
}

}  // namespace meshbus
