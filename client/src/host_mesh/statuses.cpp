#include <algorithm>
#include <map>
#include <thread>

#include "client/src/base/status_limits.h"
#include "client/src/base/wire_reports.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "common/wire/frame.h"
#include "common/wire/wire_values.h"
#include "meshbus/status_wait.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// One question waits so long at most: a host that is lost meanwhile is found out.
constexpr milliseconds kStatusRound{10'000};
/// What an answer may take beyond the wait itself.
constexpr milliseconds kStatusAnswerLimit{5'000};
/// Hosts that did not answer are asked again so often.
constexpr milliseconds kSilentAgain{250};

/// When no host has answered for so long, a wait is given up (setting state.idle). Pure.
class SilenceLimit {
 public:
  SilenceLimit(milliseconds limit, Clock::time_point now) : limit_(limit), heard_(now) {}
  /// What a host may be asked to wait for before it answers anyhow.
  milliseconds round() const { return std::clamp(limit_ / 2, milliseconds(1), kStatusRound); }
  /// What an answer may take beyond that.
  milliseconds answer() const { return std::clamp(limit_, milliseconds(1), kStatusAnswerLimit); }
  void hear(Clock::time_point now) { heard_ = now; }
  bool is_over(Clock::time_point now) const { return now - heard_ >= limit_; }
  std::string words() const {
    return "no host has given an answer for " + std::to_string(limit_.count()) + " ms (state.idle)";
  }

 private:
  milliseconds limit_;
  Clock::time_point heard_;
};

/// The ranks of a view that lie on one host of the mesh.
struct Place {
  HostAddr host;
  RankSet ranks = {};  // create ranks
  std::string problem = {};
  bool is_settled = false;
};

/// Whether the ordinals of a view are the create ranks: then nothing need be done rank by rank.
bool is_whole(const ProcMeshRef& mesh) {
  return mesh.region() == Region(mesh.region().extent());
}

std::vector<Place> places_of(const ProcMeshRef& mesh) {
  std::vector<Place> list;
  if (is_whole(mesh)) {
    for (std::uint64_t host = 0; host < mesh.hosts().size(); ++host) {
      const auto block = mesh.block_of(host);
      if (!block || block->begin >= std::min(block->end, mesh.num_ranks())) continue;
      list.push_back(
          Place{mesh.hosts()[host], {{block->begin, std::min(block->end, mesh.num_ranks())}}});
    }
    return list;
  }
  std::map<std::uint64_t, std::vector<std::uint64_t>> places;
  for (std::uint64_t ordinal = 0; ordinal < mesh.num_ranks(); ++ordinal) {
    const auto rank = mesh.create_rank(ordinal);
    const auto host = rank ? mesh.host_index_of(*rank) : rank;
    if (host) places[*host].push_back(*rank);
  }
  for (auto& [host, ranks] : places) {
    std::sort(ranks.begin(), ranks.end());
    list.push_back(Place{mesh.hosts()[host], to_rank_set(ranks)});
  }
  return list;
}

/// What was said of these ranks; unknown where nothing was.
StatusOverlay cut(const StatusOverlay& said, const RankSet& ranks) {
  std::vector<StatusOverlay::Run> runs;
  auto from = said.runs().begin();
  for (const RankBlock& block : ranks) {
    auto next = block.begin;
    while (from != said.runs().end() && from->end <= block.begin) ++from;
    for (auto run = from; run != said.runs().end() && run->begin < block.end; ++run) {
      append_run(runs, next, run->begin, Status());
      next = std::min(run->end, block.end);
      append_run(runs, std::max(run->begin, block.begin), next, run->value);
    }
    append_run(runs, next, block.end, Status());
  }
  return StatusOverlay::of(std::move(runs));
}

/// Takes over what a host said of the ranks that it was asked for, or that it said nothing.
void take_answer(StatusWait& wait, const ProcMeshRef& mesh, Place& place,
                 const Result<ControlMessage>& answer, Status::Kind minimum) {
  const auto* const body = answer ? answer->body_as<wire::RankStatuses>() : nullptr;
  StatusOverlay statuses;
  place.problem.clear();
  if (body == nullptr) {
    place.problem = answer ? "it answered " + answer->body_name() : answer.error().to_string();
  } else if (auto read = from_wire(*body->statuses(), kBodyLimit)) {
    statuses = std::move(*read);
  } else {
    place.problem = read.error().to_string();
  }
  const auto now = Clock::now();
  statuses = cut(statuses, place.ranks);
  const auto has_settled = [minimum](const StatusOverlay::Run& run) {
    return run.value.has_reached(minimum) || run.value.is_terminated();
  };
  place.is_settled = place.problem.empty() &&
                     std::all_of(statuses.runs().begin(), statuses.runs().end(), has_settled);
  if (is_whole(mesh)) {
    (void)wait.merge(statuses, now);
    return;
  }
  for (const auto& run : statuses.runs()) {
    for (auto rank = run.begin; rank < run.end; ++rank) {
      if (const auto ordinal = mesh.ordinal_of(rank)) (void)wait.set(*ordinal, run.value, now);
    }
  }
}

}  // namespace

Result<StatusMesh> HostMesh::statuses(const ProcMeshRef& mesh, milliseconds deadline) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  StatusWait now(Region(mesh.region().extent()), Status::Kind::not_exist, {}, Clock::now());
  auto places = places_of(mesh);
  // On the reactor's thread: what is asked in one turn leaves together.
  auto answers = impl_->core()->run([&] {
    std::vector<Connection::Answer> asked;
    for (const auto& place : places) {
      wire::GetRankStatusT get;
      get.mesh = mesh.mesh().to_string();
      get.ranks = to_wire(place.ranks);
      asked.push_back(
          impl_->connection().ask(Destination::to_agent(place.host), std::move(get), deadline));
    }
    return asked;
  });
  // The last one first: a thread that waits for it is seldom woken for another.
  for (std::size_t i = places.size(); i-- > 0;)
    take_answer(now, mesh, places[i], answers[i].get(), Status::Kind::not_exist);
  return now.statuses();
}

Result<StatusMesh> HostMesh::wait_status(const ProcMeshRef& mesh, Status::Kind minimum,
                                         WaitOptions options) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  if (auto fine = check_minimum(minimum); !fine) return fail(fine.error());
  StatusWait wait(Region(mesh.region().extent()), minimum, limits_of(options), Clock::now());
  auto places = places_of(mesh);
  const auto is_open = [](const Place& place) { return !place.is_settled; };
  SilenceLimit silence(impl_->core()->config().duration(keys::state_idle), Clock::now());
  bool is_given_up = false;
  while (std::any_of(places.begin(), places.end(), is_open)) {
    auto now = Clock::now();
    const auto due = wait.next_due();
    const auto round = silence.round();
    const auto limit =
        due ? std::clamp(std::chrono::ceil<milliseconds>(*due - now), milliseconds(0), round)
            : round;
    std::vector<std::pair<Place*, Connection::Answer>> answers;
    for (auto& place : places) {
      if (place.is_settled) continue;
      wire::WaitRankStatusT question;
      question.mesh = mesh.mesh().to_string();
      question.ranks = to_wire(place.ranks);
      question.minimum = static_cast<wire::StatusKind>(minimum);
      question.wait_ms = static_cast<std::uint32_t>(limit.count());
      question.asker = impl_->connection().self();
      answers.emplace_back(
          &place, impl_->connection().ask(Destination::to_agent(place.host), std::move(question),
                                          limit + silence.answer()));
    }
    bool is_silent = false;
    for (auto& [place, answer] : answers) {
      const auto& got = answer.get();
      take_answer(wait, mesh, *place, got, minimum);
      if (got) silence.hear(Clock::now());
      is_silent = is_silent || !place->problem.empty();
    }
    now = Clock::now();
    const auto state = wait.check(now);
    is_given_up = state == StatusWait::State::waiting && silence.is_over(now);
    if (state == StatusWait::State::deadline || state == StatusWait::State::idle || is_given_up)
      break;
    if (is_silent)
      std::this_thread::sleep_for(
          due ? std::clamp(*due - now, Clock::duration(0), Clock::duration(kSilentAgain))
              : kSilentAgain);
  }
  if (is_settled(wait, Clock::now())) return wait.statuses();
  auto error = wait.outcome(Clock::now()).error().within("mesh " + mesh.mesh().to_string());
  std::string problems = is_given_up ? "; " + silence.words() : "";
  for (const auto& place : places) {
    if (!place.problem.empty())
      problems += "; host " + place.host.to_string() + ": " + place.problem;
  }
  return fail(error.code(), error.detail() + problems);
}

}  // namespace meshbus
