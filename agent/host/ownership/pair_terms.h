#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/ledger_generated.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {

/// A controller, as the envelopes of its messages prove it.
struct PairMember {
  ProcId controller;
  std::uint64_t incarnation = 0;
};

/// The terms of one pair of controllers, as this host grants them
/// (docs/decisions/0064-one-of-several-controllers-acts.md). Pure: the time is an argument.
class PairTerm {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// As in wire::ClaimTerm.
  struct Claim {
    PairMember from;
    std::uint64_t number = 0;
    std::chrono::milliseconds lease{0};
    wire::TermStep step = wire::TermStep::ask;
    std::uint64_t hosts = 0;
  };
  /// The host remembers what it has granted since `since`.
  explicit PairTerm(Time since) : since_(since) {}
  /// As an agent before has left it; the lease counts from now.
  PairTerm(const wire::LedgerTerm& left, Time now);

  /// Errors: refused, with the reason in words.
  Result<void> claim(const Claim& claim, Time now);
  /// Whether the controller of that incarnation may give orders here under that term: it is known
  /// to act. Errors: refused (another one does); would_block (whether it acts is not known yet).
  Result<void> check(std::uint64_t incarnation, std::uint64_t number) const;
  /// Whether that owner is a controller of this pair that has acted before the present one, or the
  /// present one by another name. `incarnation`: 0 = not known.
  bool is_former(const ProcId& owner, std::uint64_t incarnation) const;
  /// Those controllers, as far as this host remembers.
  std::vector<PairMember> former() const;

  std::uint64_t number() const noexcept { return number_; }
  /// Nothing: no term was granted.
  const std::optional<PairMember>& holder() const noexcept { return holder_; }
  bool is_acting() const noexcept { return is_acting_; }
  /// The number of other controllers of the pair that have asked here within that time.
  std::uint32_t others(const PairMember& member, std::chrono::milliseconds within, Time now) const;
  std::chrono::milliseconds left(Time now) const;
  /// When a term can be granted for the first time, if that is not now.
  std::chrono::milliseconds wait(std::chrono::milliseconds lease, Time now) const;
  wire::LedgerTermT to_ledger(const std::string& pair) const;

 private:
  Result<void> ask(const Claim& claim, Time now);
  Result<void> act(const Claim& claim, Time now);
  void take(const Claim& claim, Time now);
  bool is_holder(const PairMember& member) const {
    return holder_ && holder_->incarnation == member.incarnation;
  }
  bool is_held(Time now) const { return holder_ && now < due_; }
  std::string words(Time now) const;

  /// The number of members that are remembered, of those that have acted.
  static constexpr std::size_t kMostMembers = 16;

  std::optional<Time> since_;
  std::uint64_t number_ = 0;
  std::optional<PairMember> holder_;
  /// The number of the first term of the holder, since another one held it: what it had ordered
  /// before that may still be under way. After a restart: that of the term that was left.
  std::uint64_t first_number_ = 0;
  bool is_acting_ = false;
  std::chrono::milliseconds lease_{0};
  Time due_{};
  std::uint64_t hosts_ = 0;
  std::vector<PairMember> members_;
  /// Incarnation -> when that controller asked last.
  std::map<std::uint64_t, Time> asked_;
};

/// The terms of all pairs of controllers on this host. Pure.
class PairTerms {
 public:
  using Time = PairTerm::Time;
  static constexpr std::size_t kMost = 100;

  explicit PairTerms(Time since) : since_(since) {}

  /// The pair of that name, new or known. Null: there are too many.
  PairTerm* find_or_add(const std::string& pair);
  const PairTerm* find(std::string_view pair) const;
  /// As PairTerm::check(); the sender of an order without a term is of no pair. Errors: those.
  Result<void> check(const wire::Envelope& envelope, const wire::Term* term) const;
  void restore(const std::vector<wire::LedgerTermT>& left, Time now);
  std::vector<wire::LedgerTermT> to_ledger() const;

 private:
  Time since_;
  std::map<std::string, PairTerm, std::less<>> pairs_;
};

}  // namespace meshbus::host
