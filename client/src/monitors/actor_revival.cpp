#include "client/src/monitors/actor_revival.h"

#include "meshbus/actor_mesh.h"

namespace meshbus {

void ActorRevival::on_ready(const Order& order) {
  auto& rank = ranks_[order.rank];
  if (is_stopped_ || order.restarts <= rank.restarts) return;
  rank.restarts = order.restarts;
  rank.step = Step::wanted;
}

void ActorRevival::on_end(const Order& order) {
  auto& rank = ranks_[order.rank];
  if (rank.restarts <= order.restarts) rank.step = Step::none;
}

std::vector<ActorRevival::Order> ActorRevival::take_wanted() {
  std::vector<Order> orders;
  for (std::uint64_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].step != Step::wanted) continue;
    ranks_[rank].step = Step::asked;
    orders.push_back({.rank = rank, .restarts = ranks_[rank].restarts});
  }
  return orders;
}

bool ActorRevival::take_answer(const Order& order) {
  auto& rank = ranks_[order.rank];
  if (rank.step != Step::asked || rank.restarts != order.restarts) return false;
  rank.step = Step::none;
  return true;
}

void ActorRevival::retry(const Order& order) {
  auto& rank = ranks_[order.rank];
  if (!is_stopped_ && rank.restarts == order.restarts) rank.step = Step::wanted;
}

void ActorRevival::on_made(const Order& order, std::uint64_t generation) {
  ranks_[order.rank].base = generation;
}

std::vector<std::uint64_t> ActorRevival::stop() {
  is_stopped_ = true;
  std::vector<std::uint64_t> asked;
  for (std::uint64_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].step == Step::asked) asked.push_back(rank);
    ranks_[rank].step = Step::none;
  }
  return asked;
}

}  // namespace meshbus
