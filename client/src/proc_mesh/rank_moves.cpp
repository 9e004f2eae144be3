#include "client/src/proc_mesh/rank_moves.h"

#include <algorithm>
#include <set>
#include <string>

#include "client/src/base/unclear_answer.h"
#include "common/base/log.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

using namespace std::chrono_literals;

constexpr auto kSpareLimit = 5s;
constexpr auto kPlaceLimit = 10s;
/// Between two looks whether ranks have begun: doubled each time.
constexpr std::chrono::milliseconds kFirstBegunLook = 20ms;
constexpr std::chrono::milliseconds kLongestBegunLook = 500ms;

/// Why a host that has answered cannot take ranks; empty: it can.
std::string spare_problem(const Result<ControlMessage>& answer) {
  if (!answer) return answer.error().to_string();
  const auto* const state = answer->body_as<wire::HostState>();
  if (state == nullptr) return "it answered " + answer->body_name() + " to GetHost";
  if (state->drains() == nullptr) return {};
  for (const auto* drain : *state->drains()) {
    const bool is_whole = (drain->owner() == nullptr || drain->owner()->size() == 0) &&
                          (drain->mesh() == nullptr || drain->mesh()->size() == 0);
    if (is_whole) return "it is drained";
  }
  return {};
}

}  // namespace

std::shared_ptr<MeshMonitor> RankMoves::find_monitor() const {
  auto monitor = monitor_.lock();
  return monitor == nullptr || monitor->progress().is_abandoned() ? nullptr : monitor;
}

template <typename Function>
void RankMoves::after(std::chrono::milliseconds delay, Function function) {
  core_.reactor().after(delay, [weak = weak_from_this(), function = std::move(function)] {
    const auto self = weak.lock();
    if (self != nullptr && self->find_monitor() != nullptr) function(*self);
  });
}

MeshLayout RankMoves::layout_of(const MeshMonitor& monitor) const {
  return {.region = monitor.shown().region(),
          .hosts = monitor.shown().hosts(),
          .revision = recipe_->revision()};
}

void RankMoves::answer(const SpareHosts::Pair& pair, bool can_take) {
  // The monitor may be asking at the moment.
  after(0ms, [pair, can_take](RankMoves& self) {
    if (const auto monitor = self.find_monitor()) monitor->on_spare(pair, can_take);
  });
}

void RankMoves::ask(const SpareHosts::Pair& pair) {
  if (find_monitor() == nullptr) return;
  connection_.hosts().add({pair.second});
  if (const auto loss = connection_.hosts().loss_of(pair.second)) {
    log::warn("spare " + loss->detail());
    return answer(pair, false);
  }
  if (!connection_.gateway().is_up())
    return after(kLongestBegunLook, [pair](RankMoves& self) { self.ask(pair); });
  connection_.gateway().bus()->request(
      Destination::to_agent(pair.second), wire::GetHostT(), kSpareLimit,
      [weak = weak_from_this(), pair](const Result<ControlMessage>& answer) {
        if (const auto self = weak.lock()) self->on_host(pair, answer);
      });
}

void RankMoves::on_host(const SpareHosts::Pair& pair, const Result<ControlMessage>& answered) {
  if (find_monitor() == nullptr) return;
  const auto problem = spare_problem(answered);
  if (!answered && !connection_.gateway().is_up())
    return after(kLongestBegunLook, [pair](RankMoves& self) { self.ask(pair); });
  if (!problem.empty())
    log::warn("spare host " + pair.second.to_string() + " cannot take the ranks of lost host " +
              pair.first.to_string() + ": " + problem);
  answer(pair, problem.empty());
}

void RankMoves::start(const RestartJudge::Move& move) {
  const auto monitor = find_monitor();
  if (monitor == nullptr) return;
  if (move.place != move.to) {
    const auto layout = replaced(layout_of(*monitor), move.place, move.to);
    auto ref = layout ? ProcMeshRef::make(monitor->mesh().mesh(), layout->hosts,
                                          layout->region.num_ranks(), layout->region)
                      : Result<ProcMeshRef>(fail(layout.error()));
    if (!ref) return monitor->fail_incarnations(move.ranks, ref.error());
    recipe_->set_revision(layout->revision);
    monitor->replace_host(std::move(*ref), move.place);
  }
  monitor->move_in(move);
  Started started;
  for (const auto rank : move.ranks)
    started.emplace_back(rank, monitor->progress().restarts_of(rank));
  if (move.ranks.front() == 0) return find_port(move, started);
  order(move, started);
}

bool RankMoves::is_pending(const Started& started) const {
  const auto monitor = find_monitor();
  return monitor != nullptr && std::any_of(started.begin(), started.end(), [&](const auto& rank) {
           return monitor->progress().start_of(rank.first, rank.second) ==
                  MeshProgress::Start::wanted;
         });
}

void RankMoves::find_port(const RestartJudge::Move& move, const Started& started) {
  // Where nothing is to be started any more, order() tells what has become of it.
  if (!is_pending(started)) return order(move, started);
  const auto again = [move, started](RankMoves& self) { self.find_port(move, started); };
  if (!connection_.gateway().is_up()) return after(kLongestBegunLook, again);
  connection_.gateway().bus()->request(
      Destination::to_agent(move.to), wire::GetFreePortT(), kSpareLimit,
      [weak = weak_from_this(), move, started, again](const Result<ControlMessage>& answer) {
        const auto self = weak.lock();
        const auto monitor = self == nullptr ? nullptr : self->find_monitor();
        if (monitor == nullptr) return;
        const auto* const port = answer ? answer->body_as<wire::FreePort>() : nullptr;
        if (!answer && is_unclear(answer.error().code()))
          return self->after(kLongestBegunLook, again);
        if (port == nullptr)
          log::warn("host " + move.to.to_string() + " has no port for MASTER_PORT" +
                    (answer ? std::string() : ": " + answer.error().to_string()));
        self->recipe_->set_master(move.to, port == nullptr ? std::uint16_t{0} : port->port());
        self->order(move, started);
      });
}

void RankMoves::order(const RestartJudge::Move& move, const Started& started) {
  const auto monitor = find_monitor();
  if (monitor == nullptr) return;
  // The messages name this launcher as it is on the bus when they are sent.
  if (!connection_.gateway().is_up())
    return after(kFirstBegunLook, [move, started](RankMoves& self) { self.order(move, started); });
  const auto layout = layout_of(*monitor);
  RestartOrders::Messages messages;
  for (std::uint64_t index = 0; index < layout.hosts.size(); ++index) {
    const auto block = monitor->mesh().block_of(index).value_or(RankBlock{});
    if (layout.hosts[index] != move.to || block.size() == 0) continue;
    auto message = recipe_->make(connection_, *monitor, index, block);
    if (!message) return monitor->fail_incarnations(move.ranks, message.error());
    messages.emplace(index, std::move(*message));
  }
  orders_->resize(layout, std::move(messages));
  orders_->start_moved(move);
  tell_when_begun(move.to, started, kFirstBegunLook);
}

void RankMoves::tell_when_begun(const HostAddr& spare, const Started& started,
                                std::chrono::milliseconds wait) {
  const auto monitor = find_monitor();
  if (monitor == nullptr) return;
  if (is_pending(started))
    return after(wait, [spare, started, wait](RankMoves& self) {
      self.tell_when_begun(spare, started, std::min(2 * wait, kLongestBegunLook));
    });
  const auto layout = layout_of(*monitor);
  for (const auto& host : std::set<HostAddr>(layout.hosts.begin(), layout.hosts.end())) {
    if (host != spare) tell(host, layout);
  }
}

void RankMoves::tell(const HostAddr& host, const MeshLayout& layout) {
  const auto monitor = find_monitor();
  // A later layout has been told since then; where nothing lives, the next order brings it.
  if (monitor == nullptr || recipe_->revision() != layout.revision ||
      !monitor->progress().is_ours() || !monitor->progress().is_alive_on(host))
    return;
  const auto again = [host, layout](RankMoves& self) { self.tell(host, layout); };
  if (!connection_.gateway().is_up()) return after(kLongestBegunLook, again);
  wire::ResizeMeshT message;
  message.mesh = monitor->name();
  message.layout = to_wire(layout);
  connection_.gateway().bus()->request(
      Destination::to_agent(host), std::move(message), kPlaceLimit,
      [weak = weak_from_this(), again, host](const Result<ControlMessage>& answer) {
        const auto self = weak.lock();
        if (answer || self == nullptr || self->find_monitor() == nullptr) return;
        if (is_unclear(answer.error().code())) return self->after(kLongestBegunLook, again);
        log::warn("host " + host.to_string() +
                  " does not know where ranks have moved to: " + answer.error().to_string());
      });
}

void follow_moves(ContextCore& core, Connection& connection,
                  const std::shared_ptr<MeshMonitor>& monitor,
                  const std::shared_ptr<SpawnRecipe>& recipe,
                  const std::shared_ptr<RestartOrders>& orders) {
  const auto moves = std::make_shared<RankMoves>(core, connection, monitor, recipe, orders);
  orders->set_owner_for([recipe, &connection](const HostAddr& host) {
    return recipe->name_owner_anew(host, connection);
  });
  monitor->set_moves({.ask_spare = [moves](const SpareHosts::Pair& pair) { moves->ask(pair); },
                      .move = [moves](const RestartJudge::Move& move) { moves->start(move); }});
}

}  // namespace meshbus
