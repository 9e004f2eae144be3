// Thousands of procs on one host: they come up, are listed and stopped, and every question
// meanwhile, about them or about other procs there, is answered. `./dev bench crowd` measures how
// long that takes; here other tests run beside, and sanitizers slow everything.
#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "tests/support/sanitizer_scale.h"
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

constexpr std::uint64_t crowd_size = 3000;
constexpr std::chrono::seconds crowd_time = 150s * slowness;

enum class Phase : std::size_t { birth, listing, stop };
constexpr std::array phase_names{"birth", "listing", "stop"};
constexpr std::size_t index_of(Phase phase) {
  return static_cast<std::size_t>(phase);
}

/// Asks for the states of a mesh again and again, on a thread of its own, until it goes.
class Asker {
 public:
  Asker(const ProcMesh& mesh, const std::atomic<Phase>& phase)
      : mesh_(mesh), phase_(phase), thread_([this] { ask(); }) {}
  ~Asker() { end(); }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  void end() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  // After end().
  std::size_t answers(Phase phase) const { return times_[index_of(phase)].size(); }
  const std::string& problem() const { return problem_; }
  /// "birth 12 answers, p99 3.4 ms, worst 5.6 ms; listing ..."
  std::string describe() const {
    std::string text;
    for (std::size_t phase = 0; phase < times_.size(); ++phase) {
      auto times = times_[phase];
      std::sort(times.begin(), times.end());
      if (times.empty()) times.emplace_back(0);
      text += std::string(phase == 0 ? "" : "; ") + phase_names.at(phase) + ": " +
              std::to_string(times_[phase].size()) + " answers, p99 " +
              std::to_string(times[times.size() * 99 / 100].count()) + " ms, worst " +
              std::to_string(times.back().count()) + " ms";
    }
    return text;
  }

 private:
  void ask() {
    while (!is_over_) {
      const auto begin = std::chrono::steady_clock::now();
      const Phase phase = phase_;
      const auto ranks = mesh_.status(in_time);
      times_[index_of(phase)].push_back(std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - begin));
      if (!ranks) {
        problem_ = ranks.error().to_string();
      } else {
        for (const auto& rank : *ranks) {
          if (rank.state == ProcState::unknown) problem_ = rank.describe();
        }
        if (ranks->size() != mesh_.size())
          problem_ = std::to_string(ranks->size()) + " ranks in an answer";
      }
      std::this_thread::sleep_for(5ms);  // sleep-ok: questions at a pace, since each that is
                                         // answered makes room for the next
    }
  }

  const ProcMesh& mesh_;
  const std::atomic<Phase>& phase_;
  std::array<std::vector<std::chrono::milliseconds>, phase_names.size()> times_;
  std::string problem_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE(
    "client: 3000 sleeping procs on one host are up, listed and stopped, and every question "
    "meanwhile is answered") {
  const std::string time =
      "600." + std::to_string(::getpid()) + "3000";  // nobody else sleeps so long
  const ProcSpec sleeping{
      .command = {"sleep", time}, .ready_limit = crowd_time, .wait_ready = false};
  const auto count_sleepers = [&] { return sleepers("sleep " + time).size(); };
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  auto other_context = must(Context::create());
  auto same_hosts = must(HostMesh::attach(other_context, "asker", hosts.hosts()));
  Heard small_heard, heard;
  auto small = must(same_hosts.spawn_n("small", 4,
                                       {.command = {"sleep", time + "1"}, .ready_limit = in_time},
                                       small_heard.handlers()));

  std::atomic<Phase> phase = Phase::birth;
  std::optional<Asker> about_small(std::in_place, small, phase);
  const auto started = std::chrono::steady_clock::now();
  const auto milliseconds = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 started)
        .count();
  };
  auto mesh = must(hosts.spawn_n("crowd", crowd_size, sleeping, heard.handlers()));
  std::optional<Asker> about_crowd(std::in_place, mesh, phase);
  must(mesh.wait_status(Status::Kind::running, {.deadline = crowd_time}));
  const auto is_ready = [](const RankReport& rank) { return rank.state == ProcState::ready; };
  const auto are_ready = [&] {
    const auto known = mesh.known().ranks;
    return std::all_of(known.begin(), known.end(), is_ready);
  };
  CHECK(wait_until(are_ready, in_time));
  const auto up = milliseconds();
  CHECK(count_sleepers() == crowd_size);
  CHECK(heard.failures().empty());

  phase = Phase::listing;
  const auto listing_began = milliseconds();
  for (int i = 0; i < 5; ++i) {
    const auto listed = must(hosts.meshes(in_time)).meshes;
    const auto found = std::find_if(listed.begin(), listed.end(), [&](const MeshReport& one) {
      return one.name == mesh.ref().mesh().to_string();
    });
    REQUIRE(found != listed.end());
    CHECK(found->ranks.size() == crowd_size);
    CHECK(std::all_of(found->ranks.begin(), found->ranks.end(), is_ready));
  }
  const auto listing_took = (milliseconds() - listing_began) / 5;

  phase = Phase::stop;
  const auto stop_began = milliseconds();
  const auto outcome =
      must(mesh.stop({.reason = "seen enough", .grace = in_time, .deadline = crowd_time}));
  const auto stop_took = milliseconds() - stop_began;
  CHECK(count_sleepers() == 0);
  CHECK(outcome.ranks.size() == crowd_size);
  CHECK(std::all_of(outcome.ranks.begin(), outcome.ranks.end(), [](const RankReport& rank) {
    return rank.state == ProcState::stopped && rank.cause == Cause::stopped &&
           rank.stop_reason == "seen enough";
  }));
  CHECK(heard.failures().empty());

  for (auto* asker : {&about_small, &about_crowd}) {
    (*asker)->end();
    CHECK((*asker)->problem() == "");
    for (const Phase one : {Phase::birth, Phase::listing, Phase::stop})
      CHECK((*asker)->answers(one) > 0);
  }
  MESSAGE("3000 procs up in ", up, " ms, listed in ", listing_took, " ms, stopped in ", stop_took,
          " ms\n  questions about 4 others: ", about_small->describe(),
          "\n  about the 3000: ", about_crowd->describe());
  about_small.reset();
  about_crowd.reset();
  CHECK(must(small.stop({.grace = 0ms})).is_ended());
  must(hosts.shutdown(in_time));
}
