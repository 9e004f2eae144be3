#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "meshbus/actor_mesh.h"

namespace meshbus {

/// Which actors of a mesh are to be made again, because their ranks were restarted, and what it
/// takes. Pure: no clock, socket or thread.
class ActorRevival {
 public:
  using Made = std::function<void(const ActorReport&)>;
  /// One actor to make: in that rank, in the attempt after so many restarts.
  struct Order {
    std::uint64_t rank = 0;
    std::uint64_t restarts = 0;
    friend bool operator==(const Order&, const Order&) = default;
  };

  /// `params`: for the constructors. `on_made`: may be empty.
  ActorRevival(std::uint64_t ranks, std::string params, Made on_made)
      : params_(std::move(params)), on_made_(std::move(on_made)), ranks_(ranks) {}

  const std::string& params() const noexcept { return params_; }
  const Made& on_made() const noexcept { return on_made_; }

  /// A later attempt of that rank is ready.
  void on_ready(const Order& order);
  /// No actor is made any more in that attempt, which has ended.
  void on_end(const Order& order);
  /// Those that nobody was asked for yet; they count as asked from now on.
  std::vector<Order> take_wanted();
  /// Whether the answer to that order still counts. If so, the order is over.
  bool take_answer(const Order& order);
  /// What became of that order is not known: it is wanted again, if it still counts.
  void retry(const Order& order);
  /// The actor was made. `generation`: of its last report in the attempt before.
  void on_made(const Order& order, std::uint64_t generation);
  /// What to add to the generations of that rank's actor: each attempt counts from 1.
  std::uint64_t base(std::uint64_t rank) const { return ranks_[rank].base; }
  /// Whether its actor is to be made, or being made.
  bool is_due(std::uint64_t rank) const { return ranks_[rank].step != Step::none; }
  /// Nothing is made from now on. The ranks where an actor is being made.
  std::vector<std::uint64_t> stop();

 private:
  enum class Step : std::uint8_t { none, wanted, asked };
  struct Rank {
    Step step = Step::none;
    std::uint64_t restarts = 0;
    std::uint64_t base = 0;
  };

  const std::string params_;
  const Made on_made_;
  std::vector<Rank> ranks_;
  bool is_stopped_ = false;
};

}  // namespace meshbus
