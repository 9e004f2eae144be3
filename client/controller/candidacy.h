#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "wire/forward.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {

/// Decides whether a controller of a pair acts
/// (docs/decisions/0064-one-of-several-controllers-acts.md): it asks the hosts for a term when a
/// majority of them has none that runs, and acts as long as those that still count on it are too
/// many for another one to get a majority. Pure: answers and times come in, claims go out.
///
/// Time is the monotonic clock of this machine. What a host grants counts here from when it was
/// asked, and for a tenth less than there, so that clocks may differ by that much in speed.
class Candidacy {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::size_t hosts = 0;
    std::chrono::milliseconds lease{0};
    std::uint64_t seed = 0;
  };
  /// A ClaimTerm to that host. Each gets one answer(). With number 0 nothing is asked for: the host
  /// says what it knows.
  struct Claim {
    std::size_t host = 0;
    std::uint64_t number = 0;
    wire::TermStep step = wire::TermStep::ask;
    bool renews = false;
    Time sent{};
  };
  /// As in wire::TermState.
  struct HostTerm {
    bool is_granted = false;
    std::uint64_t number = 0;
    std::string controller;
    bool is_acting = false;
    std::chrono::milliseconds left{0};
    /// Other controllers of the pair that have asked there of late.
    std::uint32_t others = 0;
  };
  enum class Change { none, acts, stands_by };
  struct Actions {
    std::vector<Claim> claims;
    Change change = Change::none;
    /// Why, in words.
    std::string why;
  };

  Candidacy(Options options, Time now);

  /// To be called at next_due(), and whenever.
  Actions turn(Time now);
  /// A host answers again: it hears at once that we act, if we do.
  Actions host_back(std::size_t host, Time now) const;
  /// Nothing: no answer came.
  Actions answer(const Claim& claim, const std::optional<HostTerm>& answer, Time now);
  Time next_due() const;
  /// Wants no term any more: the hosts are told, and another one may have it at once.
  Actions give_up(Time now);
  /// After give_up(): it may ask for a term again.
  void resume(Time now);

  /// Whether nobody else can act. To be asked, with the time of that moment, before each act.
  bool may_act(Time now) const;
  bool is_acting() const noexcept { return is_acting_; }
  /// The term that it acts under, or the last one that it has heard of.
  std::uint64_t number() const noexcept { return is_acting_ ? number_ : heard_; }
  /// The controller that acts, as the hosts said last; empty: none that they know of.
  const std::string& actor() const noexcept { return actor_; }
  /// Other controllers of the pair, as the hosts said last.
  std::uint32_t others() const noexcept { return others_; }
  /// The number of hosts that makes a majority.
  std::size_t majority() const noexcept { return hosts_.size() / 2 + 1; }

 private:
  struct Host {
    /// What it has granted for the term that we act under counts until then.
    Time valid_until{};
    /// When it was asked for the term of this round, if it has granted that.
    std::optional<Time> granted;
    bool has_refused = false;
    /// It has heard that we act.
    bool knows = false;
    /// In this look around: nobody holds a term there.
    bool is_free = false;
  };
  enum class Phase { watching, waiting, asking, resigned };

  /// With that so many hosts have to count on us; a majority cannot be had by another one then.
  std::size_t quorum() const noexcept { return hosts_.size() - majority() + 1; }
  std::chrono::milliseconds part(int of) const { return options_.lease / of; }
  std::chrono::milliseconds jitter();
  void claim_all(Actions& actions, std::uint64_t number, wire::TermStep step, Time now);
  void begin_round(Actions& actions, Time now);
  void fail_round(Actions& actions, Time now);
  void win(Actions& actions, Time now);
  void stand_by(Actions& actions, std::string why, Time now);
  void hear(const HostTerm& said);
  void on_look(const Claim& claim, const std::optional<HostTerm>& answer, Time now);
  void on_asked(Actions& actions, const Claim& claim, const std::optional<HostTerm>& answer,
                Time now);
  void on_acted(Actions& actions, const Claim& claim, const std::optional<HostTerm>& answer,
                Time now);

  Options options_;
  std::mt19937_64 random_;
  std::vector<Host> hosts_;
  Phase phase_ = Phase::watching;
  bool is_acting_ = false;
  /// A host has granted a term to another one that does not act, and it is not earlier than ours:
  /// ours has to be later still.
  bool wants_later_ = false;
  std::uint64_t number_ = 0;
  std::uint64_t round_ = 0;
  std::uint64_t heard_ = 0;
  std::string actor_;
  std::uint32_t others_ = 0;
  Time due_;
  Time round_due_{};
};

}  // namespace meshbus
