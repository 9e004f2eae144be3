#include "agent/host/services/pair_service.h"

#include <chrono>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/wire/control.h"
#include "meshbus/name.h"
#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

using std::chrono::milliseconds;

/// A lease that is longer would keep a pair without a controller for too long.
constexpr std::chrono::hours kLongestTerm{1};

wire::TermStateT to_term_state(const std::string& pair, const PairTerm& term,
                               const Result<void>& granted, milliseconds lease,
                               PairTerm::Time now) {
  wire::TermStateT state;
  state.pair = pair;
  state.granted = granted.has_value();
  state.number = term.number();
  if (term.holder()) state.controller = term.holder()->controller.to_string();
  state.acting = term.is_acting();
  // A host that has just started is as if somebody held a term there.
  const auto left = term.left(now) + term.wait(lease, now);
  state.left_ms = static_cast<std::uint32_t>(left.count());
  if (!granted) state.problem = granted.error().detail();
  return state;
}

void add_former(wire::TermStateT& state, const PairTerm& term) {
  for (const auto& member : term.former()) {
    auto former = std::make_unique<wire::TermMemberT>();
    former->controller = member.controller.to_string();
    former->incarnation = member.incarnation;
    state.former.push_back(std::move(former));
  }
}

}  // namespace

void PairService::add_rows(Dispatcher& handlers, const std::unique_ptr<PairService>& service) {
  handlers.on<wire::ClaimTerm>(Role::operate, row(service, &PairService::on_claim_term));
}

void PairService::take_over() {
  auto& ledger = parts_.procs.ledger();
  const auto left = read_terms(ledger.ledger());
  if (left.empty()) return;
  parts_.terms.restore(left, parts_.bus.reactor().now());
  ledger.set_terms(parts_.terms.to_ledger());
}

void PairService::on_claim_term(const Request& request, const wire::ClaimTerm& message) {
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    parts_.checks.refuse(request, Error(code, "ClaimTerm." + why));
  };
  const auto controller =
      parts_.checks.find_sender(request, message.controller(), "ClaimTerm.controller");
  if (!controller) return;
  if (controller->name() != ProcName(Name::controller()))
    return refuse(ErrorCode::unauthorised,
                  "controller: " + controller->to_string() + " is no controller");
  const auto pair = message.pair()->str();
  if (const auto name = Name::parse(pair); !name)
    return parts_.checks.refuse(request, name.error().within("ClaimTerm.pair"));
  const milliseconds lease(message.lease_ms());
  if (lease.count() == 0 || lease > kLongestTerm)
    return refuse(ErrorCode::out_of_range, "lease_ms: expected 1 ms to 1 h");
  auto* const term = parts_.terms.find_or_add(pair);
  if (term == nullptr)
    return refuse(ErrorCode::queue_full,
                  "pair: this host knows " + std::to_string(PairTerms::kMost) + " pairs already");
  const auto now = parts_.bus.reactor().now();
  const auto holder = term->holder();
  const auto before = holder ? holder->controller.to_string() : std::string();
  const bool has_acted = term->is_acting();
  const auto number = term->number();
  const PairMember from{*controller, request.envelope.source_incarnation()};
  const auto granted = term->claim({.from = from,
                                    .number = message.number(),
                                    .lease = lease,
                                    .step = message.step(),
                                    .hosts = message.hosts()},
                                   now);
  const bool is_other = granted && (!holder || holder->incarnation != term->holder()->incarnation ||
                                    !(holder->controller == term->holder()->controller));
  const bool acts_now = granted && term->is_acting() && (is_other || !has_acted);
  if (is_other || acts_now || number != term->number())
    parts_.procs.ledger().set_terms(parts_.terms.to_ledger());
  if (acts_now) note_actor(pair, *term, before);
  if (granted && message.step() == wire::TermStep::act) move_owned(*term);
  auto state = to_term_state(pair, *term, granted, lease, now);
  state.others = term->others(from, lease, now);
  if (granted && message.step() == wire::TermStep::act) add_former(state, *term);
  parts_.bus.answer(request, std::move(state));
}

void PairService::note_actor(const std::string& pair, const PairTerm& term,
                             const std::string& before) {
  const auto now = term.holder()->controller.to_string();
  const auto words = "pair " + pair + ": " + now + " acts from now on, in term " +
                     std::to_string(term.number()) +
                     (before.empty() || before == now ? "" : "; before, it was " + before);
  log::info(words);
  parts_.procs.events().add(wire::EventKind::handed_over, {}, now, words);
}

void PairService::move_owned(const PairTerm& term) {
  const auto& holder = *term.holder();
  std::vector<Mesh*> found;
  for (const auto& [name, mesh] : parts_.procs.table().meshes()) {
    const auto& ownership = mesh->ownership;
    if (!ownership.is_gone() && term.is_former(ownership.owner(), ownership.incarnation()))
      found.push_back(mesh.get());
  }
  for (auto* const mesh : found) {
    const auto& ownership = mesh->ownership;
    if (!parts_.ownership.hand_over(*mesh, holder.controller, ownership.lease().length(),
                                    ownership.loss()))
      continue;
    // The owner before acts no more, so it restarts nothing on the hosts that name it still.
    mesh->ownership.confirm();
    mesh->ownership.identify(holder.incarnation);
  }
  const auto* const host = parts_.host.find_ownership();
  if (host != nullptr && term.is_former(host->owner(), 0))
    (void)parts_.host.hand_over(holder.controller, host->lease().length(), host->loss());
}

}  // namespace meshbus::host
