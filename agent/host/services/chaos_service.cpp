#include "agent/host/services/chaos_service.h"

#include <csignal>
#include <utility>

#include "agent/host/model/proc_text.h"
#include "agent/host/model/real_time.h"
#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/chaos_generated.h"
#include "wire/control_generated.h"

namespace meshbus::host {
namespace {

using Kind = wire::ChaosKind;

constexpr std::uint8_t kMostPercent = 99;
/// The warden begins so much later, so that the answer leaves first.
constexpr std::int64_t kRoleDelayNs = 100'000'000;

std::string length_of(const wire::StartChaos& message) {
  return " for " + std::to_string(message.for_ms()) + " ms";
}

std::string ranks_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " rank" : " ranks");
}

}  // namespace

ChaosService::ChaosService(Bus& bus, MeshProcs& procs, RequestChecks& checks, Options options)
    : bus_(bus),
      procs_(procs),
      checks_(checks),
      options_(std::move(options)),
      disk_(bus.reactor(), options_.disk) {}

void ChaosService::add_rows(Dispatcher& handlers, const std::unique_ptr<ChaosService>& service) {
  handlers.on<wire::StartChaos>(Role::operate, row(service, &ChaosService::on_start_chaos));
}

Result<void> ChaosService::check(const wire::StartChaos& message) const {
  const auto refused = [this](const std::string& why) {
    return fail(ErrorCode::refused, "host " + checks_.host() + " " + why);
  };
  const auto wrong = [](const std::string& why) {
    return fail(ErrorCode::out_of_range, "StartChaos: " + why);
  };
  if (!options_.is_allowed)
    return refused(
        "is not disturbed on purpose: its setting chaos.allowed is false (meshbus host "
        "--set chaos.allowed=true)");
  const std::chrono::milliseconds length(message.for_ms());
  if (length > options_.longest)
    return refused("is disturbed for " + std::to_string(options_.longest.count()) +
                   " ms at most (its setting chaos.longest)");
  const bool has_mesh = message.mesh() != nullptr;
  const bool has_role = message.role() != nullptr;
  switch (message.kind()) {
    case Kind::kill:
    case Kind::freeze:
      if (has_mesh == has_role) return wrong("it names a mesh, or a role");
      break;
    case Kind::slow:
      if (!has_mesh || has_role) return wrong("only ranks are made slow");
      if (message.percent() < 1 || message.percent() > kMostPercent)
        return wrong("percent: 1 to 99");
      break;
    case Kind::fill:
      if (has_mesh || has_role) return wrong("fill has no mesh and no role");
      if (message.bytes() == 0 || message.bytes() > INT64_MAX) return wrong("bytes: at least 1");
      break;
    case Kind::cut:
    case Kind::mute:
    case Kind::delay: return wrong("the broker of a host disturbs its links, not the agent");
    default: return wrong("this release does not know that kind");
  }
  if ((message.kind() == Kind::kill) != (length.count() == 0))
    return wrong("for_ms: 0 for kill, more for everything else");
  return {};
}

void ChaosService::on_start_chaos(const Request& request, const wire::StartChaos& message) {
  if (auto fine = check(message); !fine) return checks_.refuse(request, fine.error());
  if (message.mesh() != nullptr) return disturb_ranks(request, message);
  if (message.role() != nullptr) return disturb_role(request, message);
  fill_disk(request, message);
}

std::vector<Proc*> ChaosService::find_ranks(const Request& request,
                                            const wire::StartChaos& message) {
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    checks_.refuse(request, Error(code, "host " + checks_.host() + ": " + why));
    return std::vector<Proc*>();
  };
  const auto blocks = parse_ranks(message.ranks(), kAnyRank, "StartChaos.ranks");
  if (!blocks) return refuse(blocks.error().code(), blocks.error().detail());
  if (blocks->empty()) return refuse(ErrorCode::out_of_range, "StartChaos.ranks: name the ranks");
  Mesh* const mesh = checks_.find_mesh(request, message.mesh());
  if (mesh == nullptr) return {};
  std::vector<Proc*> ranks;
  for (const auto& block : *blocks) {
    for (auto rank = block.begin; rank < block.end; ++rank) {
      if (ranks.size() >= options_.most)
        return refuse(ErrorCode::refused,
                      "more ranks at a time than its setting chaos.most allows, " +
                          std::to_string(options_.most));
      Proc* const proc = mesh->find(rank);
      if (proc == nullptr || proc->has_ended() || !proc->launch.is_born())
        return refuse(ErrorCode::not_exist,
                      "rank " + std::to_string(rank) + " of " + mesh->name + " is not alive here");
      ranks.push_back(proc);
    }
  }
  return ranks;
}

void ChaosService::disturb_ranks(const Request& request, const wire::StartChaos& message) {
  const auto ranks = find_ranks(request, message);
  if (ranks.empty()) return;
  const bool is_kill = message.kind() == Kind::kill;
  const bool is_slow = message.kind() == Kind::slow;
  std::string done = is_kill ? "killed "
                     : is_slow
                         ? "stopped for " + std::to_string(message.percent()) + " % of the time: "
                         : "stopped ";
  done += ranks_text(ranks.size()) + (is_kill ? "" : length_of(message));
  const auto event = std::make_shared<wire::EventT>(event_of(message, done));
  procs_.ending().forget_refusals();
  for (Proc* const proc : ranks) {
    if (is_kill) {
      procs_.ending().signal(*proc, SIGKILL);
    } else {
      procs_.ending().hold({.id = proc->id,
                            .for_ms = message.for_ms(),
                            .percent = is_slow ? message.percent() : std::uint8_t{100},
                            .most = static_cast<std::uint32_t>(options_.most)});
    }
  }
  const std::string mesh = message.mesh()->str();
  procs_.ending().after_signals(
      mesh, [this, request, done, event, time_ns = now_ns()](const Result<void>& sent) {
        if (!sent) return checks_.refuse(request, sent.error().within("host " + checks_.host()));
        note(std::move(*event));
        confirm(request, done, time_ns);
      });
}

void ChaosService::disturb_role(const Request& request, const wire::StartChaos& message) {
  const std::string role = short_text(message.role());
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    checks_.refuse(request, Error(code, "host " + checks_.host() + ": " + why));
  };
  if (role != "agent" && role != "broker")
    return refuse(ErrorCode::out_of_range, "StartChaos.role: agent or broker, not '" + role + "'");
  if (!options_.ask_warden)
    return refuse(ErrorCode::refused, "it has no warden that could disturb its " + role);
  const bool is_kill = message.kind() == Kind::kill;
  std::string done = is_kill ? "killed the " + role : "stopped the " + role + length_of(message);
  asked_.push_back({request, done, event_of(message, done)});
  options_.ask_warden((is_kill ? "kill " : "freeze ") + role + " " +
                      std::to_string(message.for_ms()));
}

void ChaosService::on_warden_answer(std::string_view answer) {
  if (asked_.empty()) return;
  Asked asked = std::move(asked_.front());
  asked_.pop_front();
  if (answer != "ok")
    return checks_.refuse(asked.request, Error(ErrorCode::refused, "host " + checks_.host() + ": " +
                                                                       std::string(answer)));
  note(std::move(asked.event));
  confirm(asked.request, asked.detail, now_ns() + kRoleDelayNs);
}

void ChaosService::fill_disk(const Request& request, const wire::StartChaos& message) {
  const auto filled = disk_.start(message.bytes(), std::chrono::milliseconds(message.for_ms()));
  if (!filled) return checks_.refuse(request, filled.error().within("host " + checks_.host()));
  const std::string done =
      "took " + std::to_string(message.bytes()) + " bytes in " + options_.disk + length_of(message);
  note(event_of(message, done));
  confirm(request, done, now_ns());
}

wire::EventT ChaosService::event_of(const wire::StartChaos& message, const std::string& what) {
  wire::EventT event;
  event.kind = wire::EventKind::chaos;
  if (message.mesh() != nullptr) event.mesh = message.mesh()->str();
  event.by = short_text(message.requester());
  event.text = "on purpose (meshbus chaos): " + what;
  if (message.ranks() != nullptr && message.mesh() != nullptr) {
    for (const auto* block : *message.ranks()) event.ranks.push_back(*block);
  }
  return event;
}

void ChaosService::note(wire::EventT event) {
  log::warn(event.text);
  procs_.events().add(std::move(event));
}

void ChaosService::confirm(const Request& request, const std::string& detail,
                           std::int64_t time_ns) {
  wire::ChaosStartedT started;
  started.detail = detail;
  started.time_ns = time_ns;
  bus_.answer(request, std::move(started));
}

}  // namespace meshbus::host
