#include "client/controller/pair_seat.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/bus/bus.h"
#include "common/security/token.h"

namespace meshbus {
namespace {

using std::chrono::milliseconds;

std::vector<HostAddr> each_once(std::vector<HostAddr> hosts) {
  std::ranges::sort(hosts);
  const auto [first, last] = std::ranges::unique(hosts);
  hosts.erase(first, last);
  return hosts;
}

/// The same for controllers that were told of the same hosts and lease, in whatever order.
std::uint64_t digest_of(const std::vector<HostAddr>& hosts, milliseconds lease) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  auto digest = static_cast<std::uint64_t>(lease.count());
  for (const auto& host : hosts) digest = (digest ^ host.key()) * kPrime;
  return digest;
}

std::vector<PairFormer> former_in(const wire::TermState& state) {
  std::vector<PairFormer> former;
  for (flatbuffers::uoffset_t i = 0; state.former() != nullptr && i < state.former()->size(); ++i) {
    const auto* const member = state.former()->Get(i);
    former.push_back({.name = member->controller()->str(), .incarnation = member->incarnation()});
  }
  return former;
}

}  // namespace

PairSeat::PairSeat(Reactor& reactor, ControllerGateway& gateway, Options options, Events events)
    : reactor_(reactor),
      gateway_(gateway),
      options_(std::move(options)),
      events_(std::move(events)),
      candidacy_({.hosts = each_once(options_.hosts).size(),
                  .lease = options_.lease,
                  .seed = random_u64()},
                 reactor.now()) {
  options_.hosts = each_once(std::move(options_.hosts));
  digest_ = digest_of(options_.hosts, options_.lease);
}

bool PairSeat::may_act() const {
  // Not the time of this turn: the process may have been stopped since.
  return !has_pair() || candidacy_.may_act(reactor_.now());
}

std::string PairSeat::actor() const {
  return is_acting() ? gateway_.self().to_string() : candidacy_.actor();
}

std::unique_ptr<wire::TermT> PairSeat::mark() const {
  if (!has_pair()) return nullptr;
  auto term = std::make_unique<wire::TermT>();
  term->pair = options_.pair;
  term->number = candidacy_.number();
  return term;
}

Result<void> PairSeat::check() const {
  if (may_act()) return {};
  const auto actor = candidacy_.actor();
  const bool is_known = !actor.empty() && actor != gateway_.self().to_string();
  return fail(ErrorCode::would_block,
              "controller " + gateway_.self().to_string() + " stands by (pair " + options_.pair +
                  "); " + (is_known ? actor + " acts" : "none is known to act at the moment"));
}

void PairSeat::look() {
  if (has_pair() && !is_closed_ && candidacy_.is_acting() && !may_act()) on_timer();
}

void PairSeat::on_up() {
  if (has_pair() && !is_closed_) on_timer();
}

void PairSeat::on_host_back(const HostAddr& host) {
  const auto found = std::ranges::find(options_.hosts, host);
  if (!has_pair() || found == options_.hosts.end()) return;
  const auto number = static_cast<std::size_t>(found - options_.hosts.begin());
  carry_out(candidacy_.host_back(number, reactor_.now()));
}

void PairSeat::give_up() {
  if (has_pair()) carry_out(candidacy_.give_up(reactor_.now()));
}

void PairSeat::resume() {
  candidacy_.resume(reactor_.now());
  arm();
}

void PairSeat::close() {
  is_closed_ = true;
  reactor_.cancel(std::exchange(timer_, 0));
}

void PairSeat::on_timer() {
  carry_out(candidacy_.turn(reactor_.now()));
}

void PairSeat::arm() {
  reactor_.cancel(std::exchange(timer_, 0));
  if (is_closed_ || !has_pair()) return;
  timer_ = reactor_.at(candidacy_.next_due(), [this] {
    timer_ = 0;
    on_timer();
  });
}

void PairSeat::carry_out(Candidacy::Actions actions) {
  if (is_closed_) return;
  for (const auto& claim : actions.claims) send(claim);
  arm();
  if (actions.change == Candidacy::Change::none) return;
  events_.on_change({.pair = options_.pair,
                     .is_acting = actions.change == Candidacy::Change::acts,
                     .term = candidacy_.number(),
                     .why = std::move(actions.why)});
}

void PairSeat::send(const Candidacy::Claim& claim) {
  auto* const bus = gateway_.bus();
  const auto self = gateway_.confirmed_self();
  // Nothing comes back, as if it were lost: it is asked again when its time comes.
  if (bus == nullptr || !self) return;
  wire::ClaimTermT message;
  message.pair = options_.pair;
  message.controller = self->to_string();
  message.number = claim.number;
  message.lease_ms = static_cast<std::uint32_t>(options_.lease.count());
  message.step = claim.step;
  message.hosts = digest_;
  message.renews = claim.renews;
  bus->request(Destination::to_agent(options_.hosts[claim.host]), std::move(message),
               options_.lease, [this, claim](const Result<ControlMessage>& answer) {
                 if (!is_closed_) on_answer(claim, answer);
               });
}

void PairSeat::on_answer(const Candidacy::Claim& claim, const Result<ControlMessage>& answer) {
  const auto& host = options_.hosts[claim.host];
  std::optional<Candidacy::HostTerm> said;
  const auto* const state = answer ? answer->body_as<wire::TermState>() : nullptr;
  if (state != nullptr) {
    said.emplace(Candidacy::HostTerm{.is_granted = state->granted(),
                                     .number = state->number(),
                                     .controller = text_of(state->controller()),
                                     .is_acting = state->acting(),
                                     .left = milliseconds(state->left_ms()),
                                     .others = state->others()});
  }
  const bool is_unable = !answer && (answer.error().code() == ErrorCode::no_such_port ||
                                     answer.error().code() == ErrorCode::unauthorised);
  const bool is_of_others =
      state != nullptr && text_of(state->problem()).find("--hosts") != std::string::npos;
  if ((is_unable || is_of_others) && !std::exchange(has_warned_, true))
    log::warn("pair " + options_.pair + ": host " + host.to_string() + " grants no term: " +
              (is_unable ? answer.error().to_string() : text_of(state->problem())) +
              "; it does not count for the majority of the hosts");
  carry_out(candidacy_.answer(claim, said, reactor_.now()));
  const bool is_of_this_term = claim.step == wire::TermStep::act && candidacy_.is_acting() &&
                               claim.number == candidacy_.number();
  if (!is_of_this_term || is_closed_ || !(state != nullptr || is_unable)) return;
  events_.on_claimed(host, state == nullptr ? std::vector<PairFormer>() : former_in(*state));
}

}  // namespace meshbus
