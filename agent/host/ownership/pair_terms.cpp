#include "agent/host/ownership/pair_terms.h"

#include <algorithm>
#include <utility>

#include "common/wire/control.h"
#include "wire/frame_generated.h"

namespace meshbus::host {
namespace {

using std::chrono::milliseconds;

std::string length_text(milliseconds length) {
  return std::to_string(length.count()) + " ms";
}

wire::LedgerMemberT to_left(const PairMember& member) {
  wire::LedgerMemberT left;
  left.controller = member.controller.to_string();
  left.incarnation = member.incarnation;
  return left;
}

}  // namespace

PairTerm::PairTerm(const wire::LedgerTerm& left, Time now)
    : number_(left.number()),
      first_number_(left.number()),
      is_acting_(left.acting()),
      lease_(left.lease_ms()),
      due_(now + lease_),
      hosts_(left.hosts()) {
  if (auto holder = ProcId::parse(left.holder()->controller()->string_view()))
    holder_ = PairMember{std::move(*holder), left.holder()->incarnation()};
  for (flatbuffers::uoffset_t i = 0; left.members() != nullptr && i < left.members()->size(); ++i) {
    const auto* const member = left.members()->Get(i);
    if (auto id = ProcId::parse(member->controller()->string_view()))
      members_.push_back({std::move(*id), member->incarnation()});
  }
}

std::string PairTerm::words(Time now) const {
  if (!holder_) return "no term of it was granted here";
  return "term " + std::to_string(number_) + " is held by " + holder_->controller.to_string() +
         (is_held(now) ? " for another " + length_text(left(now)) : ", whose lease has lapsed");
}

milliseconds PairTerm::left(Time now) const {
  return is_held(now) ? std::chrono::ceil<milliseconds>(due_ - now) : milliseconds(0);
}

milliseconds PairTerm::wait(milliseconds lease, Time now) const {
  if (holder_ || !since_ || now >= *since_ + lease) return milliseconds(0);
  return std::chrono::ceil<milliseconds>(*since_ + lease - now);
}

std::uint32_t PairTerm::others(const PairMember& member, milliseconds within, Time now) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(asked_, [&](const auto& entry) {
    return entry.first != member.incarnation && now - entry.second < within;
  }));
}

Result<void> PairTerm::claim(const Claim& claim, Time now) {
  if (asked_.size() >= kMostMembers && !asked_.contains(claim.from.incarnation))
    asked_.erase(
        std::ranges::min_element(asked_, {}, [](const auto& entry) { return entry.second; }));
  asked_[claim.from.incarnation] = now;
  if (is_held(now) && hosts_ != claim.hosts)
    return fail(ErrorCode::refused,
                words(now) +
                    ", which was told of other hosts: all controllers of a pair need the "
                    "same --hosts");
  switch (claim.step) {
    case wire::TermStep::ask: return ask(claim, now);
    case wire::TermStep::act: return act(claim, now);
    case wire::TermStep::give_up:
      if (!is_holder(claim.from) || number_ != claim.number)
        return fail(ErrorCode::refused, words(now));
      due_ = now;
      return {};
  }
  return fail(ErrorCode::out_of_range, "ClaimTerm.step is unknown");
}

Result<void> PairTerm::ask(const Claim& claim, Time now) {
  // Not asked for anything: what is known is in the answer.
  if (claim.number == 0) return fail(ErrorCode::refused, words(now));
  if (const auto rest = wait(claim.lease, now); rest.count() > 0)
    return fail(ErrorCode::refused,
                "this host has just started and may have granted a term before: it grants one in " +
                    length_text(rest));
  if (is_holder(claim.from)) {
    if (claim.number < number_) return fail(ErrorCode::refused, words(now));
    take(claim, now);
    return {};
  }
  if (is_held(now)) return fail(ErrorCode::refused, words(now));
  if (claim.number <= number_)
    return fail(ErrorCode::refused,
                "term " + std::to_string(claim.number) + " comes too late: " + words(now));
  take(claim, now);
  return {};
}

Result<void> PairTerm::act(const Claim& claim, Time now) {
  // A majority has granted it; what this host has granted meanwhile to a controller that does not
  // act counts no more.
  const bool is_later = claim.number > number_;
  const bool is_same = is_holder(claim.from);
  if (!is_later && !is_same) return fail(ErrorCode::refused, words(now));
  take(claim, now);
  is_acting_ = true;
  return {};
}

void PairTerm::take(const Claim& claim, Time now) {
  const bool is_same = is_holder(claim.from);
  const bool has_moved = is_same && !(holder_->controller == claim.from.controller);
  if (is_acting_ && (!is_same || has_moved)) {
    std::erase_if(members_, [&](const PairMember& member) {
      return member.controller == holder_->controller && member.incarnation == holder_->incarnation;
    });
    members_.push_back(*holder_);
    if (members_.size() > kMostMembers) members_.erase(members_.begin());
  }
  is_acting_ = is_acting_ && is_same;
  if (!is_same) first_number_ = claim.number;
  holder_ = claim.from;
  number_ = std::max(number_, claim.number);
  lease_ = claim.lease;
  due_ = now + lease_;
  hosts_ = claim.hosts;
}

Result<void> PairTerm::check(std::uint64_t incarnation, std::uint64_t number) const {
  const bool is_its_own = holder_ && holder_->incarnation == incarnation;
  if (is_its_own && is_acting_ && number >= first_number_) return {};
  // Its claim is under way, or this host has just started. Or a term was granted to another one
  // that may have no majority: then this one goes on, and claims a later term.
  if (!holder_ || number > number_ || is_its_own || !is_acting_)
    return fail(ErrorCode::would_block,
                "term " + std::to_string(number) + " is not known to act here yet; claim it first");
  return fail(ErrorCode::refused, "term " + std::to_string(number) + " is over: term " +
                                      std::to_string(number_) + " is held by " +
                                      holder_->controller.to_string());
}

bool PairTerm::is_former(const ProcId& owner, std::uint64_t incarnation) const {
  if (!holder_ || owner == holder_->controller) return false;
  return std::ranges::any_of(members_, [&](const PairMember& member) {
    return member.controller == owner && (incarnation == 0 || member.incarnation == incarnation);
  });
}

std::vector<PairMember> PairTerm::former() const {
  std::vector<PairMember> found;
  std::ranges::copy_if(members_, std::back_inserter(found), [this](const PairMember& member) {
    return holder_ && !(member.controller == holder_->controller);
  });
  return found;
}

wire::LedgerTermT PairTerm::to_ledger(const std::string& pair) const {
  wire::LedgerTermT left;
  left.pair = pair;
  left.number = number_;
  left.acting = is_acting_;
  left.lease_ms = static_cast<std::uint32_t>(lease_.count());
  left.hosts = hosts_;
  if (holder_) left.holder = std::make_unique<wire::LedgerMemberT>(to_left(*holder_));
  for (const auto& member : members_)
    left.members.push_back(std::make_unique<wire::LedgerMemberT>(to_left(member)));
  return left;
}

PairTerm* PairTerms::find_or_add(const std::string& pair) {
  const auto found = pairs_.find(pair);
  if (found != pairs_.end()) return &found->second;
  if (pairs_.size() >= kMost) return nullptr;
  return &pairs_.emplace(pair, PairTerm(since_)).first->second;
}

const PairTerm* PairTerms::find(std::string_view pair) const {
  const auto found = pairs_.find(pair);
  return found == pairs_.end() ? nullptr : &found->second;
}

Result<void> PairTerms::check(const wire::Envelope& envelope, const wire::Term* term) const {
  if (term == nullptr) return {};
  const auto* const pair = find(term->pair()->string_view());
  const auto may = (pair == nullptr ? PairTerm(since_) : *pair)
                       .check(envelope.source_incarnation(), term->number());
  return may ? may : fail(may.error().within("pair " + term->pair()->str()));
}

void PairTerms::restore(const std::vector<wire::LedgerTermT>& left, Time now) {
  for (const auto& one : left) {
    if (one.holder == nullptr || pairs_.size() >= kMost) continue;
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(wire::LedgerTerm::Pack(builder, &one));
    pairs_.insert_or_assign(
        one.pair,
        PairTerm(*flatbuffers::GetRoot<wire::LedgerTerm>(builder.GetBufferPointer()), now));
  }
}

std::vector<wire::LedgerTermT> PairTerms::to_ledger() const {
  std::vector<wire::LedgerTermT> left;
  for (const auto& [pair, term] : pairs_) {
    if (term.holder()) left.push_back(term.to_ledger(pair));
  }
  return left;
}

}  // namespace meshbus::host
