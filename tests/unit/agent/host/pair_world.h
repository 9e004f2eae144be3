// Several controllers and the hosts that grant them terms, in a world of its own: clocks that run
// at different speeds, messages that are late, lost and overtaken, controllers that are killed,
// frozen and cut off, agents that begin anew with their ledger and hosts that begin without.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/ownership/pair_terms.h"
#include "client/controller/candidacy.h"

namespace meshbus::test::pair_world {

using namespace std::chrono_literals;

using host::PairMember;
using host::PairTerm;
using Time = Candidacy::Time;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using wire::TermStep;

inline constexpr milliseconds kTermLease{1000};
inline constexpr std::uint64_t kHostsDigest = 7;
inline constexpr milliseconds kLongestStep{10};

inline ProcId controller_named(int number) {
  return *ProcId::parse("tcp:h" + std::to_string(number) + ":7420,controller");
}

inline PairTerm::Claim claim_of(int member, std::uint64_t number, TermStep step) {
  return {.from = {controller_named(member), static_cast<std::uint64_t>(100 + member)},
          .number = number,
          .lease = kTermLease,
          .step = step,
          .hosts = kHostsDigest};
}

/// The clock of one machine: it runs faster or slower than true time, by at most 4 %.
class DriftingClock {
 public:
  explicit DriftingClock(std::mt19937_64& random)
      : speed_(std::uniform_real_distribution<double>(0.96, 1.04)(random)),
        begin_(std::uniform_int_distribution<std::int64_t>(1, 1'000'000)(random)) {}
  Time at(milliseconds now) const {
    const auto passed = static_cast<double>(now.count()) * 1e6 * speed_;
    return Time(milliseconds(begin_) + nanoseconds(static_cast<std::int64_t>(passed)));
  }

  /// When it shows that, or a little later.
  milliseconds true_time(Time shown) const {
    const auto passed = static_cast<double>((shown - Time(milliseconds(begin_))).count());
    return milliseconds(static_cast<std::int64_t>(passed / 1e6 / speed_) + 1);
  }

 private:
  double speed_;
  std::int64_t begin_;
};

/// Controllers, hosts, and what lies between them.
class PairWorld {
 public:
  PairWorld(std::uint64_t seed, std::size_t hosts, std::size_t controllers) : random_(seed) {
    for (std::size_t i = 0; i < hosts; ++i) {
      hosts_.push_back(std::make_unique<HostSide>(random_));
      // They have run for long.
      hosts_.back()->term.emplace(hosts_.back()->clock.at(0ms) - 1h);
    }
    for (std::size_t i = 0; i < controllers; ++i) {
      seats_.push_back(std::make_unique<Seat>(random_));
      begin(i);
    }
  }

  /// Some milliseconds of true time, to what happens next.
  void step() {
    auto next = now_ + kLongestStep;
    if (!under_way_.empty()) next = std::min(next, under_way_.top().due);
    for (const auto& seat : seats_) {
      if (seat->candidacy && !seat->is_frozen)
        next = std::min(next, seat->clock.true_time(seat->candidacy->next_due()));
    }
    now_ = std::max(next, now_ + 1ms);
    while (!under_way_.empty() && under_way_.top().due <= now_) {
      auto message = under_way_.top();
      under_way_.pop();
      message.is_answer ? take_answer(message) : take_claim(message);
    }
    for (std::size_t i = 0; i < seats_.size(); ++i) turn(i);
    check();
  }
  void run(milliseconds length) {
    for (auto end = now_ + length; now_ < end && problem_.empty();) step();
  }

  // What happens to them.
  void kill(std::size_t seat) {
    seats_[seat]->candidacy.reset();
    ++seats_[seat]->life;
  }
  void begin(std::size_t seat) {
    auto& one = *seats_[seat];
    one.incarnation = ++incarnations_;
    one.candidacy.emplace(
        Candidacy::Options{.hosts = hosts_.size(), .lease = kTermLease, .seed = random_()},
        one.clock.at(now_));
    one.is_frozen = false;
  }
  void freeze(std::size_t seat, bool is_frozen) {
    seats_[seat]->is_frozen = is_frozen;
    if (is_frozen) return;
    for (auto& message : std::exchange(seats_[seat]->unread, {})) take_answer(message);
  }
  void cut(std::size_t seat, std::size_t host, bool is_cut) {
    if (is_cut) {
      cuts_.emplace(seat, host);
    } else {
      cuts_.erase({seat, host});
    }
  }
  /// Another agent takes over there; `remembers`: else the whole host is started again.
  void restart_host(std::size_t host, bool remembers) {
    auto& one = *hosts_[host];
    const auto at = one.clock.at(now_);
    const auto left = one.term->to_ledger("p");
    if (!remembers) {
      has_forgotten_ = true;
      one.orders.clear();
      one.term.emplace(at);
    } else if (left.holder != nullptr) {
      flatbuffers::FlatBufferBuilder builder;
      builder.Finish(wire::LedgerTerm::Pack(builder, &left));
      one.term.emplace(*flatbuffers::GetRoot<wire::LedgerTerm>(builder.GetBufferPointer()), at);
    }
  }
  void give_up(std::size_t seat) {
    auto& one = *seats_[seat];
    if (!one.candidacy || one.is_frozen) return;
    carry_out(seat, one.candidacy->give_up(one.clock.at(now_)));
    one.candidacy->resume(one.clock.at(now_));
  }
  void heal() {
    cuts_.clear();
    loss_ = 0;
    // A message that is later than a lease, and a term goes, however healthy all of them are.
    longest_ = 5;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      freeze(i, false);
      if (!seats_[i]->candidacy) begin(i);
    }
  }
  /// Whatever may happen, with such chances, for a while.
  void torment(milliseconds length) {
    loss_ = std::uniform_int_distribution<int>(0, 30)(random_);
    longest_ = std::uniform_int_distribution<int>(1, 1500)(random_);
    for (auto end = now_ + length; now_ < end && problem_.empty();) {
      step();
      if (random_() % 40 != 0) continue;
      const auto seat = random_() % seats_.size();
      const auto host = random_() % hosts_.size();
      switch (random_() % 9) {
        case 0: kill(seat); break;
        case 1:
          if (!seats_[seat]->candidacy) begin(seat);
          break;
        case 2: freeze(seat, true); break;
        case 3: freeze(seat, false); break;
        case 4: cut(seat, host, true); break;
        case 5:
        case 6: cut(seat, host, false); break;
        case 7: restart_host(host, random_() % 4 != 0); break;
        case 8: give_up(seat); break;
      }
    }
  }

  std::optional<std::size_t> actor() const {
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      if (may_act(i)) return i;
    }
    return std::nullopt;
  }
  /// Whether every host takes the orders of the one that acts.
  bool is_known_everywhere() const {
    const auto seat = actor();
    return seat && std::ranges::all_of(hosts_, [&](const auto& host) {
             return host->term
                 ->check(seats_[*seat]->incarnation, seats_[*seat]->candidacy->number())
                 .has_value();
           });
  }
  const std::string& problem() const { return problem_; }
  std::size_t changes() const { return changes_; }
  std::size_t orders() const { return orders_; }
  std::size_t refused() const { return refused_; }

 private:
  struct HostSide {
    explicit HostSide(std::mt19937_64& random) : clock(random) {}
    DriftingClock clock;
    std::optional<PairTerm> term;
    /// Number -> incarnation whose orders were carried out here.
    std::map<std::uint64_t, std::uint64_t> orders;
  };
  struct Message {
    milliseconds due{0};
    std::uint64_t order = 0;
    std::size_t seat = 0;
    std::uint64_t life = 0;
    std::uint64_t incarnation = 0;
    bool is_answer = false;
    /// An order of an owner, in a term; else a claim.
    bool is_order = false;
    Candidacy::Claim claim = {};
    std::optional<Candidacy::HostTerm> said = {};
    bool operator<(const Message& other) const {
      return std::tie(due, order) > std::tie(other.due, other.order);
    }
  };
  struct Seat {
    explicit Seat(std::mt19937_64& random) : clock(random) {}
    DriftingClock clock;
    std::optional<Candidacy> candidacy;
    std::uint64_t life = 0;
    std::uint64_t incarnation = 0;
    bool is_frozen = false;
    std::vector<Message> unread;
  };

  bool may_act(std::size_t seat) const {
    const auto& one = *seats_[seat];
    return one.candidacy && one.candidacy->may_act(one.clock.at(now_));
  }
  void check() {
    std::size_t acting = 0;
    for (std::size_t i = 0; i < seats_.size(); ++i) acting += may_act(i) ? 1U : 0U;
    if (acting > 1) problem_ = "two act at " + std::to_string(now_.count());
  }
  milliseconds delay() {
    return milliseconds(random_() % 20 == 0 ? random_() % static_cast<unsigned>(longest_)
                                            : random_() % 5);
  }
  void send(Message message) {
    if (cuts_.contains({message.seat, message.claim.host})) return;
    if (static_cast<int>(random_() % 100) < loss_) return;
    message.due = now_ + delay();
    message.order = ++sent_;
    under_way_.push(std::move(message));
  }
  void carry_out(std::size_t seat, const Candidacy::Actions& actions) {
    auto& one = *seats_[seat];
    if (actions.change == Candidacy::Change::acts) ++changes_;
    for (const auto& claim : actions.claims)
      send({.seat = seat, .life = one.life, .incarnation = one.incarnation, .claim = claim});
  }
  void turn(std::size_t seat) {
    auto& one = *seats_[seat];
    if (!one.candidacy || one.is_frozen) return;
    const auto at = one.clock.at(now_);
    if (one.candidacy->next_due() <= at) carry_out(seat, one.candidacy->turn(at));
    // An order, as an owner gives one, to any host.
    if (random_() % 8 != 0 || !one.candidacy->may_act(at)) return;
    Message order{.seat = seat, .life = one.life, .incarnation = one.incarnation, .is_order = true};
    order.claim.host = random_() % hosts_.size();
    order.claim.number = one.candidacy->number();
    send(std::move(order));
  }
  void take_claim(Message message) {
    auto& there = *hosts_[message.claim.host];
    const auto at = there.clock.at(now_);
    const PairMember from{controller_named(static_cast<int>(message.seat)), message.incarnation};
    if (message.is_order) return take_order(there, message, from);
    const auto granted = there.term->claim({.from = from,
                                            .number = message.claim.number,
                                            .lease = kTermLease,
                                            .step = message.claim.step,
                                            .hosts = kHostsDigest},
                                           at);
    Candidacy::HostTerm said;
    said.is_granted = granted.has_value();
    said.number = there.term->number();
    if (there.term->holder()) said.controller = there.term->holder()->controller.to_string();
    said.is_acting = there.term->is_acting();
    said.left = there.term->left(at) + there.term->wait(kTermLease, at);
    message.said = said;
    message.is_answer = true;
    send(std::move(message));
  }
  /// Once an order of a term was carried out, none of an earlier one is, and one controller gives
  /// all orders of a term.
  void take_order(HostSide& there, const Message& message, const PairMember& from) {
    ++orders_;
    if (!there.term->check(from.incarnation, message.claim.number)) {
      ++refused_;
      return;
    }
    const auto number = message.claim.number;
    // Numbers begin anew when most hosts have forgotten them, with all that was owned there.
    if (!has_forgotten_) {
      const auto [known, is_new] = giver_.try_emplace(number, message.incarnation);
      if (!is_new && known->second != message.incarnation)
        problem_ = "two controllers give orders in term " + std::to_string(number);
    }
    if (!there.orders.empty()) {
      const auto& last = *there.orders.rbegin();
      if (const auto same = there.orders.find(number);
          same != there.orders.end() && same->second != message.incarnation)
        problem_ = "a host takes orders from two controllers in term " + std::to_string(number);
      if (last.first > number && last.second != message.incarnation)
        problem_ = "an order of term " + std::to_string(number) + " is carried out after one of " +
                   std::to_string(last.first);
    }
    there.orders.emplace(number, message.incarnation);
  }
  void take_answer(const Message& message) {
    auto& one = *seats_[message.seat];
    if (!one.candidacy || one.life != message.life) return;
    if (one.is_frozen) {
      one.unread.push_back(message);
      return;
    }
    carry_out(message.seat, one.candidacy->answer(message.claim, message.said, one.clock.at(now_)));
  }

  std::mt19937_64 random_;
  milliseconds now_{0};
  std::vector<std::unique_ptr<HostSide>> hosts_;
  std::vector<std::unique_ptr<Seat>> seats_;
  std::priority_queue<Message> under_way_;
  std::set<std::pair<std::size_t, std::size_t>> cuts_;
  std::map<std::uint64_t, std::uint64_t> giver_;
  bool has_forgotten_ = false;
  std::uint64_t incarnations_ = 0;
  std::uint64_t sent_ = 0;
  int loss_ = 0;
  int longest_ = 5;
  std::size_t changes_ = 0;
  std::size_t orders_ = 0;
  std::size_t refused_ = 0;
  std::string problem_;
};

}  // namespace meshbus::test::pair_world
