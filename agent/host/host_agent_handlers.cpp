#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "agent/host/host_agent.h"
#include "agent/host/lifecycle/free_port.h"
#include "agent/host/model/exit_report.h"
#include "agent/host/updates/mesh_report.h"
#include "common/base/log.h"
#include "wire/bootstrap_generated.h"
#include "wire/bus_generated.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

/// The handlers of HostAgent: what each message does is said in the schemas.
namespace meshbus::host {
namespace {

/// It is kept, and sent, once for each rank: a word for people, not a place for data.
std::string short_text(const flatbuffers::String* text) {
  return text_of(text).substr(0, 4096);
}

using namespace std::chrono_literals;

/// Of what strangers send, in the event log.
constexpr std::size_t kLongestName = 200;
constexpr std::size_t kLongestText = 4096;
constexpr flatbuffers::uoffset_t kMostBlocks = 1000;
constexpr std::uint64_t kAnyRank = UINT64_MAX;
/// What the last answer gets to reach the broker before this host ends.
constexpr auto kFarewellLimit = 1s;

std::chrono::milliseconds grace_of(std::uint32_t milliseconds) {
  return std::chrono::milliseconds(milliseconds);
}

/// Of a ShutdownHost or a DrainHost.
template <typename Message>
StopOrder make_order(const Message& message, const char* reason, const std::string& host,
                     wire::Cause cause = wire::Cause::stopped) {
  StopOrder order{.reason = short_text(message.reason()),
                  .requester = short_text(message.requester()),
                  .grace = grace_of(message.grace_ms()),
                  .cause = cause};
  if (order.reason.empty()) order.reason = reason;
  if (order.requester.empty()) order.requester = "host " + host;
  return order;
}

wire::ShutdownSummaryT to_summary(const DrainOutcome& outcome) {
  wire::ShutdownSummaryT summary;
  summary.attempted = outcome.attempted;
  summary.failed = outcome.failed;
  summary.ok = outcome.attempted - outcome.failed;
  summary.detail = outcome.detail;
  return summary;
}

bool is_for_ending(int signal) {
  switch (signal) {
    case SIGHUP:
    case SIGINT:
    case SIGQUIT:
    case SIGABRT:
    case SIGKILL:
    case SIGTERM: return true;
    default: return false;
  }
}

void set_ranks(wire::EventT& event, const flatbuffers::Vector<const wire::RankInterval*>* ranks) {
  for (flatbuffers::uoffset_t i = 0;
       ranks != nullptr && i < std::min<flatbuffers::uoffset_t>(ranks->size(), kMostBlocks); ++i)
    event.ranks.push_back(*ranks->Get(i));
}

/// Calls `each` for the ranks of a mesh that are meant; none = all. Returns the first rank that is
/// meant but not there.
template <typename Each>
std::optional<std::uint64_t> for_ranks(Mesh& mesh, const std::vector<RankBlock>& ranks, Each each) {
  if (ranks.empty()) {
    for (const auto& [rank, proc] : mesh.procs) each(*proc);
    return std::nullopt;
  }
  std::optional<std::uint64_t> missing;
  for (const RankBlock& block : ranks) {
    auto expected = block.begin;
    for (auto entry = mesh.procs.lower_bound(block.begin);
         entry != mesh.procs.end() && entry->first < block.end; ++entry) {
      if (entry->first != expected && !missing) missing = expected;
      expected = entry->first + 1;
      each(*entry->second);
    }
    if (expected != block.end && !missing) missing = expected;
  }
  return missing;
}

}  // namespace

Mesh* HostAgent::find_mesh(const Request& request, const flatbuffers::String* name) {
  Mesh* mesh = procs_->table().find_mesh(name->string_view());
  if (mesh == nullptr)
    bus_->refuse(request, Error(ErrorCode::not_exist,
                                "host " + host_text_ + " has no mesh '" + name->str() + "'"));
  return mesh;
}

void HostAgent::refuse_spawn(const Request& request, const wire::SpawnProcs& message,
                             const Error& error) {
  wire::EventT event;
  event.kind = wire::EventKind::spawn_refused;
  event.mesh = message.mesh()->str().substr(0, kLongestName);
  event.by = short_text(message.owner());
  event.text = error.to_string().substr(0, kLongestText);
  procs_->events().add_limited(std::move(event));
  bus_->refuse(request, error);
}

void HostAgent::on_spawn_procs(const Request& request, const wire::SpawnProcs& message) {
  auto spec = parse_spawn(message, options_.host);
  if (!spec) return refuse_spawn(request, message, spec.error());
  const ProcId owner = spec->owner;
  const std::string name = spec->mesh.to_string();
  const auto started = procs_->spawn(std::move(*spec), LedgerWriter::request_entry(name, message));
  if (!started) return refuse_spawn(request, message, started.error());
  wire::SpawnAcceptedT accepted;
  accepted.started = *started;
  bus_->answer(request, std::move(accepted));
  has_accepted_ = true;
  if (const Mesh* mesh = procs_->table().find_mesh(name); mesh != nullptr && !mesh->owner_gone)
    peers_->add(owner);
}

void HostAgent::on_stop_procs(const Request& request, const wire::StopProcs& message) {
  if (const auto name = Name::parse(message.mesh()->string_view()); !name)
    return bus_->refuse(request, name.error().within("StopProcs.mesh"));
  const auto ranks = parse_ranks(message.ranks(), kAnyRank, "StopProcs.ranks");
  if (!ranks) return bus_->refuse(request, ranks.error());
  ack(request);
  Mesh* mesh = procs_->table().find_mesh(message.mesh()->string_view());
  if (mesh == nullptr) return;
  const StopOrder order{.reason = short_text(message.reason()),
                        .requester = short_text(message.requester()),
                        .grace = grace_of(message.grace_ms()),
                        .because = message.because()};
  bool is_new = false;
  for_ranks(*mesh, *ranks, [&](Proc& proc) {
    is_new = is_new || (!proc.has_ended() && !proc.termination);
    procs_->stop(proc, order);
  });
  if (!is_new) return;
  wire::EventT event;
  event.kind = wire::EventKind::stop_asked;
  event.mesh = mesh->name;
  event.by = order.requester;
  event.text = (order.reason.empty() ? "a stop" : order.reason) + " (grace " +
               std::to_string(message.grace_ms()) + " ms)";
  event.because = message.because();
  set_ranks(event, message.ranks());
  procs_->events().add(std::move(event));
}

void HostAgent::on_signal_procs(const Request& request, const wire::SignalProcs& message) {
  const auto ranks = parse_ranks(message.ranks(), kAnyRank, "SignalProcs.ranks");
  if (!ranks) return bus_->refuse(request, ranks.error());
  if (message.signal() < 1 || message.signal() > 64)
    return bus_->refuse(request, Error(ErrorCode::out_of_range,
                                       "SignalProcs.signal: there is no signal " +
                                           std::to_string(message.signal()) + "; 1 to 64"));
  Mesh* mesh = find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const auto missing = for_ranks(*mesh, *ranks, [](Proc&) {});
  if (missing)
    return bus_->refuse(request, Error(ErrorCode::not_exist,
                                       "mesh " + mesh->name + " has no rank " +
                                           std::to_string(*missing) + " on host " + host_text_));
  for_ranks(*mesh, *ranks, [&](Proc& proc) { procs_->signal(proc, message.signal()); });
  ack(request);
  if (!is_for_ending(message.signal())) return;
  wire::EventT event;
  event.kind = wire::EventKind::signal_asked;
  event.mesh = mesh->name;
  event.text = signal_name(message.signal()) + " was asked for";
  set_ranks(event, message.ranks());
  procs_->events().add_limited(std::move(event));
}

void HostAgent::on_write_input(const Request& request, const wire::WriteInput& message) {
  Mesh* mesh = find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const auto found = mesh->procs.find(message.rank());
  if (found == mesh->procs.end())
    return bus_->refuse(
        request,
        Error(ErrorCode::not_exist, "mesh " + mesh->name + " has no rank " +
                                        std::to_string(message.rank()) + " on host " + host_text_));
  const Bytes data = message.data() == nullptr
                         ? Bytes()
                         : bytes_of(message.data()->data(), message.data()->size());
  procs_->write_input(*found->second, data, message.end(),
                      [this, request](const Result<void>& written) {
                        if (written) {
                          ack(request);
                        } else {
                          bus_->refuse(request, written.error());
                        }
                      });
}

void HostAgent::on_get_free_port(const Request& request, const wire::GetFreePort&) {
  const auto port = find_free_port();
  if (!port) return bus_->refuse(request, port.error().within("host " + host_text_));
  wire::FreePortT answer;
  answer.port = *port;
  bus_->answer(request, std::move(answer));
}

std::optional<std::size_t> HostAgent::find_in_flight(const Request& request,
                                                     std::uint16_t in_flight) {
  if (in_flight > 0 && in_flight <= 256) return in_flight;
  if (in_flight == 0) return options_.config.count(keys::terminate_in_flight);
  bus_->refuse(request,
               Error(ErrorCode::out_of_range, "in_flight: " + std::to_string(in_flight) +
                                                  "; 1 to 256, or 0 for the host's own setting"));
  return std::nullopt;
}

void HostAgent::on_shutdown_host(const Request& request, const wire::ShutdownHost& message) {
  const auto in_flight = find_in_flight(request, message.in_flight());
  if (!in_flight) return;
  const auto order = make_order(message, "host shut down", host_text_, wire::Cause::host_ended);
  procs_->shut_down(order, *in_flight, [this, request](const DrainOutcome& outcome) {
    publisher_->flush();  // the ends first, then that all have ended
    bus_->answer(request, to_summary(outcome));
    // Whatever the broker answers to this, it has seen the summary before.
    wire::IntroduceT last;
    last.host = host_text_;
    bus_->request(Destination::to_broker(), std::move(last), kFarewellLimit,
                  [this, ok = outcome.failed == 0](const Result<ControlMessage>&) {
                    events_.on_shutdown(ok);
                  });
  });
}

std::optional<DrainScope> HostAgent::find_scope(const Request& request,
                                                const flatbuffers::String* owner,
                                                const flatbuffers::String* mesh) {
  DrainScope scope{.owner = text_of(owner), .mesh = text_of(mesh)};
  Result<void> fine;
  if (!scope.owner.empty()) {
    auto parsed = ProcId::parse(scope.owner);
    if (parsed) scope.owner = parsed->to_string();
    if (!parsed) fine = fail(parsed.error().within("owner"));
  }
  if (!scope.mesh.empty()) {
    if (const auto parsed = Name::parse(scope.mesh); !parsed)
      fine = fail(parsed.error().within("mesh"));
  }
  if (fine) return scope;
  bus_->refuse(request, fine.error());
  return std::nullopt;
}

void HostAgent::on_drain_host(const Request& request, const wire::DrainHost& message) {
  const auto scope = find_scope(request, message.owner(), message.mesh());
  if (!scope) return;
  const auto in_flight = find_in_flight(request, message.in_flight());
  if (!in_flight) return;
  const auto order = make_order(message, "host drained", host_text_);
  const auto started = procs_->drains().start(
      {.scope = *scope, .stop = order, .in_flight = *in_flight, .hold = message.hold()},
      [this, request](const DrainOutcome& outcome) {
        publisher_->flush();  // the ends first
        bus_->answer(request, to_summary(outcome));
      });
  if (!started) return bus_->refuse(request, started.error());
  wire::EventT event;
  event.kind = wire::EventKind::stop_asked;
  event.mesh = scope->mesh;
  event.by = order.requester;
  event.text = "a drain of " + scope->words() + ": " + order.reason;
  procs_->events().add_limited(std::move(event));
}

void HostAgent::on_resume_host(const Request& request, const wire::ResumeHost& message) {
  const auto scope = find_scope(request, message.owner(), message.mesh());
  if (!scope) return;
  procs_->drains().resume(*scope);
  ack(request);
}

std::optional<std::vector<RankBlock>> HostAgent::find_ranks(
    const Request& request, const flatbuffers::String* name,
    const flatbuffers::Vector<const wire::RankInterval*>* ranks, std::string_view field) {
  auto blocks = parse_ranks(ranks, kAnyRank, field);
  if (!blocks) {
    bus_->refuse(request, blocks.error());
    return std::nullopt;
  }
  if (!blocks->empty()) return std::move(*blocks);
  const Mesh* mesh = find_mesh(request, name);
  if (mesh == nullptr) return std::nullopt;
  for (const auto& [rank, proc] : mesh->procs) {
    if (!blocks->empty() && blocks->back().end == rank) {
      ++blocks->back().end;
    } else {
      blocks->push_back({rank, rank + 1});
    }
  }
  return std::move(*blocks);
}

void HostAgent::on_get_rank_status(const Request& request, const wire::GetRankStatus& message) {
  if (const auto ranks =
          find_ranks(request, message.mesh(), message.ranks(), "GetRankStatus.ranks"))
    waits_->answer(request, message.mesh()->str(), *ranks);
}

void HostAgent::on_wait_rank_status(const Request& request, const wire::WaitRankStatus& message) {
  const auto asker = ProcId::parse(message.asker()->string_view());
  if (!asker) return bus_->refuse(request, asker.error().within("WaitRankStatus.asker"));
  if (asker->key() != request.envelope.source_proc() ||
      asker->host().key() != request.envelope.source_host())
    return bus_->refuse(request, Error(ErrorCode::identity_mismatch,
                                       "WaitRankStatus.asker: '" + asker->to_string() +
                                           "' is not who sends this; wait for yourself"));
  if (message.minimum() == wire::StatusKind::unknown || message.minimum() > wire::StatusKind::MAX)
    return bus_->refuse(request, Error(ErrorCode::out_of_range,
                                       "WaitRankStatus.minimum: " +
                                           std::to_string(static_cast<int>(message.minimum())) +
                                           " is no status that a rank can reach"));
  auto ranks = find_ranks(request, message.mesh(), message.ranks(), "WaitRankStatus.ranks");
  if (!ranks) return;
  const auto waits = waits_->add(request, {.mesh = message.mesh()->str(),
                                           .ranks = std::move(*ranks),
                                           .minimum = static_cast<Status::Kind>(message.minimum()),
                                           .limit = std::chrono::milliseconds(message.wait_ms()),
                                           .asker = *asker});
  if (!waits) return bus_->refuse(request, waits.error());
  if (*waits) peers_->add(*asker);
}

void HostAgent::on_get_state(const Request& request, const wire::GetState& message) {
  const Mesh* mesh = find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  if (message.usage()) procs_->usage().refresh(*mesh);
  bus_->answer(request, make_mesh_state(*mesh, report_bytes, nullptr, message.usage()));
}

void HostAgent::on_list_meshes(const Request& request, const wire::ListMeshes& message) {
  if (message.usage()) procs_->usage().refresh_all();
  bus_->answer(request, make_mesh_list(procs_->table().meshes(), text_of(message.after()),
                                       host_text_, report_bytes, message.usage()));
}

void HostAgent::on_get_events(const Request& request, const wire::GetEvents& message) {
  auto list = procs_->events().find(short_text(message.mesh()), message.from(), report_bytes);
  list.host = host_text_;
  bus_->answer(request, std::move(list));
}

void HostAgent::on_get_host(const Request& request, const wire::GetHost&) {
  std::array<char, 256> node{};
  if (gethostname(node.data(), node.size() - 1) != 0) node[0] = '\0';
  wire::HostStateT state;
  state.host = host_text_;
  state.version = MESHBUS_VERSION;
  state.incarnation = incarnation_;
  state.pid = static_cast<std::uint32_t>(getpid());
  state.containment = options_.containment;
  state.live = procs_->table().live();
  state.node = node.data();
  state.refused = bus_->refused();
  for (auto& drain : procs_->drains().to_wire())
    state.drains.push_back(std::make_unique<wire::DrainT>(std::move(drain)));
  bus_->answer(request, std::move(state));
}

Proc* HostAgent::find_sender(const Request& request, const flatbuffers::String* claimed) {
  Proc* proc = procs_->table().find_key(request.envelope.source_proc());
  if (proc != nullptr && proc->address.to_string() == claimed->string_view() &&
      request.envelope.source_incarnation() == proc->state.to_wire().incarnation())
    return proc;
  static log::Limited limited(10);
  limited.warn("a message from proc '" + claimed->str() +
               "' is refused: it is not a live proc of this host, or not the one it says");
  bus_->refuse(request, Error(ErrorCode::identity_mismatch,
                              "host " + host_text_ + " has no live proc '" + claimed->str() +
                                  "' of that incarnation; only the proc itself may say this"));
  return nullptr;
}

void HostAgent::on_proc_ready(const Request& request, const wire::ProcReady& message) {
  Proc* proc = find_sender(request, message.proc());
  if (proc == nullptr) return;
  if (message.incarnation() != proc->state.to_wire().incarnation())
    return bus_->refuse(request,
                        Error(ErrorCode::identity_mismatch,
                              "ProcReady.incarnation: it is not the one in the bootstrap of " +
                                  message.proc()->str()));
  ack(request);
  procs_->on_ready(*proc, message.connected_ns(), message.hello_ns());
  signs_->on_sign(*proc);
}

void HostAgent::on_proc_heartbeat(const Request& request, const wire::ProcHeartbeat& message) {
  Proc* proc = find_sender(request, message.proc());
  if (proc == nullptr) return;
  ack(request);
  signs_->on_sign(*proc);
}

void HostAgent::on_output_taken(const Request& request, const wire::OutputTaken& message) {
  Mesh* mesh = procs_->table().find_mesh(message.mesh()->string_view());
  if (mesh != nullptr && mesh->owner_key == request.envelope.source_proc()) {
    procs_->on_output_taken(*mesh, message);
    publisher_->mark(*mesh);
  }
}

}  // namespace meshbus::host
