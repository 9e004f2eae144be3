#include "broker/observe/audit_verbs.h"

#include <algorithm>

#include "wire/control_generated.h"

namespace meshbus {
namespace {

constexpr std::size_t kLongestCommand = 1024;
constexpr flatbuffers::uoffset_t kMostBlocks = 64;

using Ranks = flatbuffers::Vector<const wire::RankInterval*>;

std::vector<wire::RankInterval> ranks_of(const Ranks* ranks) {
  std::vector<wire::RankInterval> copy;
  const auto count = ranks == nullptr ? 0 : std::min(ranks->size(), kMostBlocks);
  for (flatbuffers::uoffset_t i = 0; i < count; ++i) copy.push_back(*ranks->Get(i));
  return copy;
}

std::string short_of(const flatbuffers::String* text) {
  return cut_text(text_of(text), kLongestCommand);
}

/// "sleep 300"; environments are left out, because they may hold secrets.
std::string command_of(const wire::Command& command) {
  std::string text;
  for (const auto* argument : *command.arguments()) {
    if (text.size() > kLongestCommand) break;
    text += (text.empty() ? "" : " ") + short_of(argument);
  }
  return cut_text(text.empty() ? command.program()->str() : std::move(text), kLongestCommand);
}

AuditedRequest audited(const wire::SpawnProcs& spawn) {
  return {"spawn", short_of(spawn.mesh()), ranks_of(spawn.create_ranks()),
          command_of(*spawn.command()), short_of(spawn.owner())};
}
AuditedRequest audited(const wire::StopProcs& stop) {
  return {"stop", short_of(stop.mesh()), ranks_of(stop.ranks()), short_of(stop.reason()),
          short_of(stop.requester())};
}
AuditedRequest audited(const wire::SignalProcs& signal) {
  return {"signal",
          short_of(signal.mesh()),
          ranks_of(signal.ranks()),
          "signal " + std::to_string(signal.signal()),
          {}};
}
AuditedRequest audited(const wire::GetStacks& get) {
  return {"stacks",
          short_of(get.mesh()),
          ranks_of(get.ranks()),
          get.kernel_only() ? "kernel only" : "",
          {}};
}
const char* verb_of(wire::ExecTask task) {
  switch (task) {
    case wire::ExecTask::command: return "exec";
    case wire::ExecTask::connect: return "forward";
    case wire::ExecTask::send: return "copy from";
    case wire::ExecTask::receive: return "copy to";
  }
  return "exec";
}
AuditedRequest audited(const wire::StartExec& start) {
  std::string text = start.terminal() ? "with a terminal:" : "";
  for (const auto* argument : *start.arguments()) {
    if (text.size() > kLongestCommand) break;
    text += (text.empty() ? "" : " ") + short_of(argument);
  }
  return {.verb = verb_of(start.task()),
          .mesh = short_of(start.mesh()),
          .ranks = {{start.rank(), start.rank() + 1}},
          .what = cut_text(std::move(text), kLongestCommand),
          .claimed_peer = short_of(start.requester()),
          .exec = start.exec()};
}
AuditedRequest audited(const wire::DrainHost& drain) {
  return {drain.hold() ? "drain and hold" : "drain",
          short_of(drain.mesh()),
          {},
          short_of(drain.reason()),
          short_of(drain.requester())};
}
AuditedRequest audited(const wire::ResumeHost& resume) {
  return {"resume", short_of(resume.mesh()), {}, {}, {}};
}
AuditedRequest audited(const wire::ShutdownHost& shutdown) {
  return {"shutdown", {}, {}, short_of(shutdown.reason()), short_of(shutdown.requester())};
}
AuditedRequest audited(const wire::HandOver& hand_over) {
  return {"hand over", short_of(hand_over.mesh()), {}, "to " + short_of(hand_over.owner()), {}};
}
AuditedRequest audited(const wire::RestartProcs& restart) {
  return {restart.ranks() == nullptr ? "leave restart policy" : "restart",
          short_of(restart.mesh()),
          ranks_of(restart.ranks()),
          {},
          {}};
}
/// "term 2 of pair site"
AuditedRequest audited(const wire::ClaimTerm& claim) {
  return {.verb = claim.step() == wire::TermStep::act ? "take over" : "give up",
          .mesh = {},
          .ranks = {},
          .what = "term " + std::to_string(claim.number()) + " of pair " + short_of(claim.pair()),
          .claimed_peer = short_of(claim.controller())};
}
/// "freeze broker for 5000 ms"
AuditedRequest audited(const wire::StartChaos& chaos) {
  std::string what = wire::EnumNameChaosKind(chaos.kind());
  for (const auto* target : {chaos.role(), chaos.peer()}) {
    if (target != nullptr) what += " " + short_of(target);
  }
  if (chaos.for_ms() > 0) what += " for " + std::to_string(chaos.for_ms()) + " ms";
  return {"chaos", short_of(chaos.mesh()), ranks_of(chaos.ranks()), std::move(what),
          short_of(chaos.requester())};
}
AuditedRequest audited(const wire::ResizeMesh& resize) {
  return {"resize",
          short_of(resize.mesh()),
          {},
          "to " + std::to_string(resize.layout()->hosts()->size()) + " blocks",
          {}};
}
/// "by 2 blocks on tcp:h3:7420 tcp:h4:7420"
AuditedRequest audited(const wire::OrderResize& order) {
  const auto* const hosts = order.hosts();
  const bool has_hosts = hosts != nullptr && hosts->size() > 0;
  const auto blocks = has_hosts ? hosts->size() : order.blocks();
  std::string what = "by " + std::to_string(blocks) + (blocks == 1 ? " block" : " blocks");
  for (flatbuffers::uoffset_t i = 0; has_hosts && i < hosts->size(); ++i) {
    if (what.size() > kLongestCommand) break;
    what += (i == 0 ? " on " : " ") + short_of(hosts->Get(i));
  }
  return {order.shrink() ? "order to shrink" : "order to grow",
          short_of(order.mesh()),
          {},
          cut_text(std::move(what), kLongestCommand),
          short_of(order.requester())};
}
AuditedRequest audited(const wire::UpgradeHost& upgrade) {
  return {"upgrade",
          {},
          {},
          "programs of " +
              (upgrade.programs() == nullptr ? "the same folder" : short_of(upgrade.programs())),
          short_of(upgrade.requester())};
}
AuditedRequest audited(const wire::OfferMesh& offer) {
  return {"offer", short_of(offer.mesh()), {}, {}, {}};
}
AuditedRequest audited(const wire::StopAndExit& stop) {
  return {"stop process", {}, {}, short_of(stop.reason()), {}};
}
AuditedRequest audited(const wire::Exit&) {
  return {"exit process", {}, {}, {}, {}};
}

AuditedRequest audited(const wire::WriteInput& write) {
  return {"write input", short_of(write.mesh()), {{write.rank(), write.rank() + 1}}, {}, {}};
}
AuditedRequest audited(const wire::RenewLease& renew) {
  const auto count = renew.meshes()->size();
  return {"renew lease",
          count == 0 ? std::string() : short_of(renew.meshes()->Get(0)),
          {},
          count > 1 ? "and " + std::to_string(count - 1) + " more" : std::string(),
          {}};
}
AuditedRequest audited(const wire::GetFreePort&) {
  return {"take port", {}, {}, {}, {}};
}

template <typename Message>
bool take(const ControlMessage& message, std::optional<AuditedRequest>& request) {
  const auto* body = message.body_as<Message>();
  if (body != nullptr) request = audited(*body);
  return body != nullptr;
}

template <typename... Messages>
std::optional<AuditedRequest> first_of(const ControlMessage& message) {
  std::optional<AuditedRequest> request;
  (void)(take<Messages>(message, request) || ...);
  return request;
}

}  // namespace

std::optional<AuditedRequest> audited_request(const ControlMessage& message) {
  // A question for a term changes nothing yet, and the acting controller repeats its claim.
  const auto* const claim = message.body_as<wire::ClaimTerm>();
  if (claim != nullptr && (claim->step() == wire::TermStep::ask || claim->renews()))
    return std::nullopt;
  return first_of<wire::SpawnProcs, wire::StopProcs, wire::SignalProcs, wire::GetStacks,
                  wire::StartExec, wire::DrainHost, wire::ResumeHost, wire::ShutdownHost,
                  wire::HandOver, wire::RestartProcs, wire::OfferMesh, wire::StopAndExit,
                  wire::Exit, wire::StartChaos, wire::ResizeMesh, wire::ClaimTerm,
                  wire::UpgradeHost, wire::OrderResize>(message);
}

std::optional<AuditedRequest> attempted_request(const ControlMessage& message) {
  return first_of<wire::WriteInput, wire::RenewLease, wire::GetFreePort>(message);
}

}  // namespace meshbus
