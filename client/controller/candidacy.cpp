#include "client/controller/candidacy.h"

#include <algorithm>
#include <utility>

namespace meshbus {
namespace {

using std::chrono::milliseconds;
using wire::TermStep;

/// Hosts are asked so often while another one acts, and told so often while we do.
constexpr int kLooks = 6;
constexpr int kRenewals = 4;
/// A round is given up after this part of the lease.
constexpr int kRounds = 3;

}  // namespace

Candidacy::Candidacy(Options options, Time now)
    : options_(options), random_(options.seed), hosts_(options.hosts), due_(now) {}

milliseconds Candidacy::jitter() {
  const auto most = std::max<std::int64_t>(part(kLooks).count(), 1);
  return milliseconds(std::uniform_int_distribution<std::int64_t>(0, most)(random_));
}

bool Candidacy::may_act(Time now) const {
  if (!is_acting_) return false;
  const auto count =
      std::ranges::count_if(hosts_, [now](const Host& host) { return now < host.valid_until; });
  return static_cast<std::size_t>(count) >= quorum();
}

void Candidacy::claim_all(Actions& actions, std::uint64_t number, TermStep step, Time now) {
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    actions.claims.push_back({.host = i,
                              .number = number,
                              .step = step,
                              .renews = step == TermStep::act && hosts_[i].knows,
                              .sent = now});
}

void Candidacy::stand_by(Actions& actions, std::string why, Time now) {
  is_acting_ = false;
  wants_later_ = false;
  phase_ = Phase::watching;
  for (auto& host : hosts_) host = Host();
  due_ = now + part(kLooks);
  actions.change = Change::stands_by;
  actions.why = std::move(why);
}

void Candidacy::begin_round(Actions& actions, Time now) {
  phase_ = Phase::asking;
  round_ = std::max(heard_, number_) + 1;
  heard_ = round_;
  round_due_ = now + part(kRounds);
  for (auto& host : hosts_) {
    host.granted.reset();
    host.has_refused = false;
  }
  claim_all(actions, round_, TermStep::ask, now);
}

void Candidacy::fail_round(Actions& actions, Time now) {
  phase_ = Phase::watching;
  // What was granted keeps others away; while we act, that is well.
  for (std::size_t i = 0; i < hosts_.size() && !is_acting_; ++i) {
    if (hosts_[i].granted)
      actions.claims.push_back(
          {.host = i, .number = round_, .step = TermStep::give_up, .sent = now});
  }
  if (!is_acting_) due_ = now + part(kLooks) + jitter();
}

void Candidacy::win(Actions& actions, Time now) {
  const bool is_new = !std::exchange(is_acting_, true);
  phase_ = Phase::watching;
  wants_later_ = false;
  number_ = round_;
  const auto before = std::exchange(actor_, std::string());
  const auto length = options_.lease - part(10);
  std::size_t count = 0;
  for (auto& host : hosts_) {
    host.knows = false;
    if (!host.granted) continue;
    ++count;
    host.valid_until = std::max(host.valid_until, *host.granted + length);
  }
  claim_all(actions, number_, TermStep::act, now);
  due_ = now + part(kRenewals);
  if (!is_new) return;
  actions.change = Change::acts;
  actions.why = std::to_string(count) + " of " + std::to_string(hosts_.size()) +
                " hosts have granted term " + std::to_string(number_) +
                (before.empty() ? "" : "; before, " + before + " acted");
}

Candidacy::Actions Candidacy::turn(Time now) {
  Actions actions;
  if (is_acting_ && !may_act(now)) {
    stand_by(actions,
             "term " + std::to_string(number_) + " is over: fewer than " +
                 std::to_string(quorum()) + " of " + std::to_string(hosts_.size()) +
                 " hosts have renewed it in time",
             now);
    return actions;
  }
  if (phase_ == Phase::asking && now >= round_due_) fail_round(actions, now);
  if (now < due_) return actions;
  if (is_acting_) {
    due_ = now + part(kRenewals);
    claim_all(actions, number_, TermStep::act, now);
    if (wants_later_ && phase_ == Phase::watching) begin_round(actions, now);
  } else if (phase_ == Phase::waiting) {
    begin_round(actions, now);
    due_ = round_due_ + part(kLooks);
  } else if (phase_ == Phase::watching) {
    due_ = now + part(kLooks);
    for (auto& host : hosts_) host.is_free = false;
    claim_all(actions, 0, TermStep::ask, now);
  } else if (phase_ == Phase::resigned) {
    due_ = now + part(kLooks);
    claim_all(actions, 0, TermStep::ask, now);
  }
  return actions;
}

Candidacy::Time Candidacy::next_due() const {
  auto next = phase_ == Phase::asking ? std::min(due_, round_due_) : due_;
  if (!is_acting_) return next;
  // When too few count on us.
  std::vector<Time> ends;
  for (const auto& host : hosts_) ends.push_back(host.valid_until);
  std::ranges::sort(ends, std::greater<>());
  return std::min(next, ends[quorum() - 1]);
}

void Candidacy::hear(const HostTerm& said) {
  if (said.number >= heard_ && said.is_acting && said.left.count() > 0) actor_ = said.controller;
  heard_ = std::max(heard_, said.number);
}

Candidacy::Actions Candidacy::answer(const Claim& claim, const std::optional<HostTerm>& answer,
                                     Time now) {
  Actions actions;
  if (answer && !is_acting_) hear(*answer);
  if (answer) heard_ = std::max(heard_, answer->number);
  if (answer) others_ = answer->others;
  switch (claim.step) {
    case TermStep::ask:
      if (claim.number == 0) {
        on_look(claim, answer, now);
      } else {
        on_asked(actions, claim, answer, now);
      }
      break;
    case TermStep::act: on_acted(actions, claim, answer, now); break;
    case TermStep::give_up: break;
  }
  return actions;
}

void Candidacy::on_look(const Claim& claim, const std::optional<HostTerm>& answer, Time now) {
  if (is_acting_ || phase_ != Phase::watching || !answer) return;
  hosts_[claim.host].is_free = answer->left.count() == 0;
  const auto free = std::ranges::count_if(hosts_, [](const Host& host) { return host.is_free; });
  if (static_cast<std::size_t>(free) < majority()) return;
  // Not all at the same time.
  phase_ = Phase::waiting;
  due_ = now + jitter() / 2;
}

void Candidacy::on_asked(Actions& actions, const Claim& claim,
                         const std::optional<HostTerm>& answer, Time now) {
  const bool is_granted = answer && answer->is_granted;
  if (phase_ != Phase::asking || claim.number != round_) {
    // It comes too late.
    if (is_granted && !is_acting_)
      actions.claims.push_back(
          {.host = claim.host, .number = claim.number, .step = TermStep::give_up, .sent = now});
    return;
  }
  auto& host = hosts_[claim.host];
  if (is_granted) host.granted = claim.sent;
  host.has_refused = !is_granted;
  const auto count = [this](auto holds) {
    return static_cast<std::size_t>(std::ranges::count_if(hosts_, holds));
  };
  if (count([](const Host& one) { return one.granted.has_value(); }) >= majority())
    return win(actions, now);
  const auto refused = count([](const Host& one) { return one.has_refused; });
  if (hosts_.size() - refused < majority()) fail_round(actions, now);
}

void Candidacy::on_acted(Actions& actions, const Claim& claim,
                         const std::optional<HostTerm>& answer, Time now) {
  // An answer from a term before says nothing: that may have been given up since.
  if (!is_acting_ || !answer || claim.number != number_) return;
  auto& host = hosts_[claim.host];
  if (answer->is_granted) {
    host.knows = true;
    host.valid_until = std::max(host.valid_until, claim.sent + options_.lease - part(10));
    return;
  }
  host.knows = false;
  if (answer->number < number_) return;
  // It has granted that number, or a later one, to a controller that has no majority. Until we have
  // a later one still, it takes no orders of ours.
  if (!answer->is_acting || answer->left.count() == 0) {
    wants_later_ = true;
    return;
  }
  actor_ = answer->controller;
  stand_by(actions,
           "term " + std::to_string(number_) + " is over: " + answer->controller +
               " acts in term " + std::to_string(answer->number),
           now);
}

Candidacy::Actions Candidacy::host_back(std::size_t host, Time now) const {
  Actions actions;
  if (may_act(now))
    actions.claims.push_back({.host = host,
                              .number = number_,
                              .step = TermStep::act,
                              .renews = hosts_[host].knows,
                              .sent = now});
  return actions;
}

Candidacy::Actions Candidacy::give_up(Time now) {
  Actions actions;
  if (is_acting_) {
    for (auto& host : hosts_) host = Host();
    claim_all(actions, number_, TermStep::give_up, now);
    actions.change = Change::stands_by;
    actions.why = "this controller gives up term " + std::to_string(number_);
  }
  is_acting_ = false;
  actor_.clear();
  phase_ = Phase::resigned;
  due_ = now;
  return actions;
}

void Candidacy::resume(Time now) {
  if (phase_ != Phase::resigned) return;
  phase_ = Phase::watching;
  due_ = now;
}

}  // namespace meshbus
