#include "client/src/host_mesh/mesh_stop.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "client/src/base/wire_reports.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "common/wire/wire_values.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

using std::chrono::milliseconds;

/// For an answer that an agent gives at once.
constexpr milliseconds kAskLimit{5000};
/// A host waits this long for ends before we ask it again: its agent may have been replaced, and
/// the new one knows of no wait.
constexpr milliseconds kAwaitLimit{2000};
/// What a host has started is gone so long after its warden, however that ended (spec 4.7).
constexpr milliseconds kNothingLeft{2000};
/// The time between two tries.
constexpr milliseconds kAgain{250};
/// The same while there is no broker to ask: it comes back, or its host ends.
constexpr milliseconds kNoBroker{20};
/// The same while only descendants are left, which have been killed.
constexpr milliseconds kSoon{10};

}  // namespace

MeshStop::MeshStop(ContextCore& core, Connection& connection, const std::vector<HostAddr>& hosts,
                   Order order)
    : core_(core), connection_(connection), order_(std::move(order)) {
  for (const auto& host : hosts) places_.push_back({.host = host});
}

MeshStop::Outcome MeshStop::run() {
  auto future = promise_.get_future();
  core_.post([self = shared_from_this()] { self->start(); });
  return future.get();
}

void MeshStop::start() {
  timer_ = core_.reactor().at(order_.end,
                              [self = shared_from_this()] { self->finish(self->outcome()); });
  for (auto& place : places_) place.has_socket = probe_socket(place).has_value();
  for (std::size_t place = 0; place < places_.size(); ++place) order(place);
  if (places_.empty()) finish(outcome());
}

template <typename Body>
void MeshStop::ask(std::size_t place, Body body, milliseconds limit, Taker take) {
  auto* const bus = connection_.gateway().bus();
  if (bus == nullptr) return (this->*take)(place, fail(connection_.gateway().closed_error()));
  bus->request(Destination::to_agent(places_[place].host), std::move(body), limit,
               [self = shared_from_this(), place, take](const Result<ControlMessage>& answer) {
                 if (!self->is_over_) (self.get()->*take)(place, answer);
               });
}

void MeshStop::again(std::size_t place, Step step) {
  after(is_connected() ? kAgain : kNoBroker, place, step);
}

void MeshStop::after(milliseconds pause, std::size_t place, Step step) {
  core_.reactor().after(pause, [self = shared_from_this(), place, step] {
    if (self->is_over_) return;
    if (self->is_connected()) return (self.get()->*step)(place);
    // A question would wait now until a broker is there again.
    if (!self->may_end_with_host(place)) self->again(place, step);
  });
}

bool MeshStop::is_connected() const {
  const auto* const bus = connection_.gateway().bus();
  return bus == nullptr || bus->is_up();  // without one, ask() says why
}

milliseconds MeshStop::left(milliseconds most) const {
  const auto left = std::chrono::ceil<milliseconds>(order_.end - core_.reactor().now());
  return std::clamp(left, milliseconds(0), most);
}

void MeshStop::order(std::size_t place) {
  wire::StopProcsT stop;
  stop.mesh = order_.mesh;
  stop.ranks = to_wire(order_.options.ranks);
  stop.reason = order_.options.reason;
  stop.requester = connection_.self();
  stop.because = order_.options.because;
  stop.grace_ms =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(order_.grace.count(), 0, UINT32_MAX));
  ask(place, std::move(stop), left(kAskLimit), &MeshStop::on_ordered);
}

void MeshStop::on_ordered(std::size_t place, const Result<ControlMessage>& answer) {
  if (answer) return read(place);
  // Asking again makes no operator of us.
  if (answer.error().code() == ErrorCode::unauthorised)
    return finish(fail(answer.error().within("stop " + order_.mesh + ": host " +
                                             places_[place].host.to_string())));
  if (may_end_with_host(place)) return;
  places_[place].problem = answer.error().to_string();
  again(place, &MeshStop::order);
}

void MeshStop::read(std::size_t place) {
  wire::GetStateT get;
  get.mesh = order_.mesh;
  ask(place, std::move(get), left(kAskLimit), &MeshStop::on_read);
}

void MeshStop::on_read(std::size_t index, const Result<ControlMessage>& answer) {
  auto& place = places_[index];
  if (!answer) {
    if (answer.error().code() == ErrorCode::not_exist) return done(place);
    if (may_end_with_host(index)) return;
    place.problem = answer.error().to_string();
    return again(index, &MeshStop::read);
  }
  place.problem.clear();
  const auto* const state = answer->body_as<wire::MeshState>();
  auto report = state == nullptr ? Result<MeshReport>(fail(ErrorCode::malformed_message,
                                                           "it answered " + answer->body_name()))
                                 : to_report(*state);
  if (!report) {
    place.problem = report.error().to_string();
    return again(index, &MeshStop::read);
  }
  place.report = std::move(*report);
  place.descendants.clear();
  if (const auto* const ranks = state->descendants()) {
    std::copy_if(ranks->begin(), ranks->end(), std::back_inserter(place.descendants),
                 [this](std::uint64_t rank) { return is_meant(rank); });
  }
  if (open_ranks(place).empty())
    return place.descendants.empty() ? done(place) : after(kSoon, index, &MeshStop::read);
  // An answer that comes at once although ranks are left must not become a busy loop.
  const bool is_quick = core_.reactor().now() - place.awaited < kAgain;
  is_quick ? again(index, &MeshStop::await) : await(index);
}

void MeshStop::await(std::size_t index) {
  auto& place = places_[index];
  place.awaited = core_.reactor().now();
  const auto limit = left(kAwaitLimit);
  wire::WaitRankStatusT wait;
  wait.mesh = order_.mesh;
  wait.ranks = to_wire(to_rank_set(open_ranks(place)));
  wait.minimum = wire::StatusKind::stopped;
  wait.wait_ms = static_cast<std::uint32_t>(limit.count());
  wait.asker = connection_.self();
  ask(index, std::move(wait), limit + kAgain, &MeshStop::on_awaited);
}

void MeshStop::on_awaited(std::size_t place, const Result<ControlMessage>& answer) {
  if (answer) return read(place);
  if (may_end_with_host(place)) return;
  // A host that takes no more waits is asked now and then.
  again(place, &MeshStop::read);
}

Result<void> MeshStop::probe_socket(const Place& place) const {
  const auto socket = core_.ways().find(place.host).socket.value_or(place.host);
  if (socket.transport() != Transport::unix_socket)
    return fail(ErrorCode::refused, "no unix socket");
  return probe(socket);
}

bool MeshStop::has_ended(const Place& place) const {
  if (!place.has_socket) return false;
  const auto found = probe_socket(place);
  return !found && found.error().code() == ErrorCode::not_exist;
}

bool MeshStop::has_said_bye(const Place& place) const {
  const auto* const bus = connection_.gateway().bus();
  return bus != nullptr && bus->has_broker_left() && bus->self() &&
         bus->self()->host() == place.host;
}

bool MeshStop::may_end_with_host(std::size_t index) {
  if (!has_ended(places_[index])) return false;
  if (has_said_bye(places_[index])) return end_with_host(places_[index]), true;
  core_.reactor().after(kNothingLeft, [self = shared_from_this(), index] {
    if (self->is_over_) return;
    auto& place = self->places_[index];
    self->has_ended(place) ? self->end_with_host(place) : self->order(index);
  });
  return true;
}

void MeshStop::end_with_host(Place& place) {
  place.problem.clear();
  if (place.report) {
    for (auto& rank : place.report->ranks) {
      if (rank.is_terminal()) continue;
      rank.state = ProcState::failed;
      rank.cause = Cause::host_lost;
      rank.reason = "ended with its host";
    }
  }
  done(place);
}

std::vector<std::uint64_t> MeshStop::open_ranks(const Place& place) const {
  std::vector<std::uint64_t> open;
  if (!place.report) return open;
  for (const auto& rank : place.report->ranks) {
    if (!rank.is_terminal() && is_meant(rank.rank)) open.push_back(rank.rank);
  }
  return open;
}

bool MeshStop::is_meant(std::uint64_t rank) const {
  return order_.options.ranks.empty() || contains(order_.options.ranks, rank);
}

void MeshStop::done(Place& place) {
  place.is_done = true;
  const bool is_all =
      std::all_of(places_.begin(), places_.end(), [](const Place& one) { return one.is_done; });
  if (is_all) finish(outcome());
}

void MeshStop::finish(Outcome outcome) {
  if (std::exchange(is_over_, true)) return;
  core_.reactor().cancel(timer_);
  promise_.set_value(std::move(outcome));
}

std::string MeshStop::problem_of(const Place& place) const {
  std::string text;
  if (!place.problem.empty()) text = "host " + place.host.to_string() + ": " + place.problem;
  const auto open = open_ranks(place);
  for (std::size_t i = 0; place.report && i < place.report->ranks.size(); ++i) {
    const auto& rank = place.report->ranks[i];
    if (std::find(open.begin(), open.end(), rank.rank) != open.end())
      text += (text.empty() ? "" : ", ") + rank.describe();
  }
  if (!place.descendants.empty())
    text += std::string(text.empty() ? "" : ", ") + "processes that " +
            (place.descendants.size() == 1 ? "rank " : "ranks ") +
            to_string(to_rank_set(place.descendants)) + " started are still there";
  return text.empty() ? "host " + place.host.to_string() + " has not answered" : text;
}

MeshStop::Outcome MeshStop::outcome() const {
  std::vector<RankReport> ranks;
  std::string problems;
  for (const auto& place : places_) {
    if (place.report)
      ranks.insert(ranks.end(), place.report->ranks.begin(), place.report->ranks.end());
    if (!place.is_done) problems += (problems.empty() ? "" : "; ") + problem_of(place);
  }
  if (!problems.empty())
    return fail(ErrorCode::stop_error, "mesh " + order_.mesh + ": not ended: " + problems);
  if (ranks.empty())
    return fail(ErrorCode::not_exist, "no mesh " + order_.mesh + " on " +
                                          std::to_string(places_.size()) +
                                          (places_.size() == 1 ? " host" : " hosts"));
  std::sort(ranks.begin(), ranks.end(),
            [](const RankReport& a, const RankReport& b) { return a.rank < b.rank; });
  return ranks;
}

}  // namespace meshbus
