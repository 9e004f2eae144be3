#include <algorithm>
#include <map>
#include <thread>

#include "client/src/base/status_limits.h"
#include "client/src/base/wire_reports.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/asked_statuses.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/host_mesh/status_places.h"
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

}  // namespace

Result<StatusMesh> HostMesh::statuses(const ProcMeshRef& mesh, milliseconds deadline) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  return ask_statuses(*impl_->core(), impl_->connection(), mesh, {}, deadline).statuses;
}

Result<StatusMesh> HostMesh::wait_status(const ProcMeshRef& mesh, Status::Kind minimum,
                                         WaitOptions options) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  if (auto fine = check_minimum(minimum); !fine) return fail(fine.error());
  StatusWait wait(Region(mesh.region().extent()), minimum, limits_of(options), Clock::now());
  auto places = places_of(mesh);
  const auto is_open = [](const StatusPlace& place) { return !place.is_settled; };
  SilenceLimit silence(impl_->core()->config().duration(keys::state_idle), Clock::now());
  bool is_given_up = false;
  while (std::any_of(places.begin(), places.end(), is_open)) {
    auto now = Clock::now();
    const auto due = wait.next_due();
    const auto round = silence.round();
    const auto limit =
        due ? std::clamp(std::chrono::ceil<milliseconds>(*due - now), milliseconds(0), round)
            : round;
    std::vector<std::pair<StatusPlace*, Connection::Answer>> answers;
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
      is_silent = is_silent || place->problem.has_value();
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
    if (place.problem)
      problems += "; host " + place.host.to_string() + ": " + place.problem->to_string();
  }
  return fail(error.code(), error.detail() + problems);
}

}  // namespace meshbus
