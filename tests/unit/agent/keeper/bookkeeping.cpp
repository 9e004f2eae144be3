// What the keeper decides without a process: its queue, its waves of signals, its pace, its table.
#include <doctest/doctest.h>

#include <csignal>
#include <utility>
#include <vector>

#include "agent/keeper/orphan_pace.h"
#include "agent/keeper/proc_table.h"
#include "agent/keeper/signal_waves.h"
#include "agent/keeper/spawn_queue.h"

namespace meshbus::keeper {
namespace {

using namespace std::chrono_literals;

os::SpawnBatch batch(const std::string& mesh,
                     const std::vector<std::pair<std::uint64_t, std::uint32_t>>& procs) {
  os::SpawnBatch made;
  made.shared.program = "true";
  made.shared.mesh = mesh;
  for (const auto& [id, place] : procs) {
    os::ProcSpec& proc = made.procs.emplace_back();
    proc.id = id;
    proc.place = place;
  }
  return made;
}

bool knows_none(std::uint64_t) {
  return false;
}

std::vector<std::uint64_t> ids_of(const QueuedProcess& process) {
  std::vector<std::uint64_t> ids;
  for (const os::ProcSpec& proc : process.procs) ids.push_back(proc.id);
  return ids;
}

}  // namespace

TEST_CASE("agent_keeper: procs leave the queue in order, those of one process together") {
  SpawnQueue queue;
  CHECK(queue.add(batch("a", {{1, 0}, {2, 0}, {3, 1}, {4, 2}, {5, 0}}), knows_none).empty());
  auto first = queue.take();
  CHECK(ids_of(first) == std::vector<std::uint64_t>{1});
  CHECK_FALSE(first.is_shared);
  auto second = queue.take();
  CHECK(ids_of(second) == std::vector<std::uint64_t>{2, 3, 4});
  CHECK(second.is_shared);
  CHECK(ids_of(queue.take()) == std::vector<std::uint64_t>{5});
  CHECK(queue.empty());
}

TEST_CASE("agent_keeper: what is queued or known is not queued again") {
  SpawnQueue queue;
  queue.add(batch("a", {{1, 0}}), knows_none);
  queue.add(batch("a", {{1, 0}, {2, 0}}), [](std::uint64_t id) { return id == 2; });
  CHECK(ids_of(queue.take()) == std::vector<std::uint64_t>{1});
  CHECK(queue.empty());
}

TEST_CASE("agent_keeper: a proc cannot join a process that was started before") {
  SpawnQueue queue;
  const auto late =
      queue.add(batch("a", {{1, 0}, {2, 1}}), [](std::uint64_t id) { return id == 1; });
  CHECK(late == std::vector<std::uint64_t>{2});
  CHECK(queue.empty());
  CHECK_FALSE(queue.cancel(2));
}

TEST_CASE("agent_keeper: cancelling takes one proc, or all of a mesh, out of the queue") {
  SpawnQueue queue;
  queue.add(batch("a", {{1, 0}, {2, 1}, {3, 0}}), knows_none);
  queue.add(batch("b", {{4, 0}}), knows_none);
  CHECK(queue.cancel(1));
  CHECK_FALSE(queue.cancel(1));
  CHECK(queue.cancel_mesh("a") == std::vector<std::uint64_t>{2, 3});
  CHECK(ids_of(queue.take()) == std::vector<std::uint64_t>{4});
  CHECK(queue.empty());
  CHECK_FALSE(queue.cancel(4));
}

TEST_CASE("agent_keeper: signals leave in waves, the next one when most of the last have ended") {
  SignalWaves waves(4);
  const SignalWaves::Time t0{10s};
  CHECK_FALSE(waves.begin(t0));
  for (std::uint64_t id = 1; id <= 8; ++id) waves.add(Signal{id, SIGTERM, true});
  std::vector<std::uint64_t> process_waves(9);
  const auto send_wave = [&] {
    std::vector<std::uint64_t> sent;
    while (const auto entry = waves.next()) {
      const auto& signal = std::get<Signal>(*entry);
      waves.count(process_waves[signal.id]);
      sent.push_back(signal.id);
    }
    return sent;
  };
  REQUIRE(waves.begin(t0));
  CHECK(send_wave() == std::vector<std::uint64_t>{1, 2, 3, 4});
  CHECK_FALSE(waves.begin(t0 + 1ms));
  waves.on_end(process_waves[1]);
  CHECK_FALSE(waves.begin(t0 + 1ms));
  waves.on_end(process_waves[2]);
  REQUIRE(waves.begin(t0 + 1ms));
  CHECK(send_wave() == std::vector<std::uint64_t>{5, 6, 7, 8});
  CHECK(waves.empty());
}

TEST_CASE("agent_keeper: a wave that does not end holds up the next one only for a moment") {
  SignalWaves waves(1);
  const SignalWaves::Time t0{10s};
  std::uint64_t wave = 0;
  waves.add(Signal{1, SIGTERM, true});
  waves.add(Mark{7});
  waves.add(Signal{2, SIGTERM, true});
  REQUIRE(waves.begin(t0));
  REQUIRE(waves.next().has_value());
  waves.count(wave);
  // A mark waits for the signals before it, and for no others.
  const auto mark = std::get<Mark>(waves.next().value());
  waves.on_refused(1, EPERM);
  waves.on_refused(2, ESRCH);
  const auto answer = waves.answer(mark);
  CHECK(answer.token == 7);
  CHECK(answer.id == 1);
  CHECK(answer.error == EPERM);
  CHECK(waves.answer(mark).error == 0);
  CHECK_FALSE(waves.next().has_value());
  CHECK_FALSE(waves.begin(t0));
  CHECK(waves.begin(t0 + SignalWaves::kWaveLimit));
}

TEST_CASE("agent_keeper: between two marks only the refusals of signals between them are told") {
  SignalWaves waves(4);
  // A stop, then what `meshbus signal` makes of a request.
  waves.add(Signal{1, SIGTERM, true});
  waves.add(Mark{7});
  waves.add(Signal{2, SIGUSR1, true});
  waves.add(Mark{8});
  REQUIRE(waves.begin(SignalWaves::Time{10s}));
  std::vector<Signalled> answers;
  while (const auto entry = waves.next()) {
    if (const auto* const signal = std::get_if<Signal>(&*entry))
      waves.on_refused(signal->id, signal->id == 1 ? EPERM : EOPNOTSUPP);
    else
      answers.push_back(waves.answer(std::get<Mark>(*entry)));
  }
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].token == 7);
  CHECK(answers[0].id == 1);
  CHECK(answers[1].token == 8);
  CHECK(answers[1].id == 2);
  CHECK(answers[1].error == EOPNOTSUPP);
}

TEST_CASE("agent_keeper: looks for orphans cost a fifth of the time at most, and follow SIGCHLD") {
  OrphanPace pace;
  const OrphanPace::Time t0{10s};
  pace.after_look(t0, t0 + 1ms, true, false, false);
  CHECK(pace.next_look() == t0 + 5ms);
  pace.on_child_ended();
  CHECK(pace.next_look() == t0 + 5ms);
  CHECK(pace.has_dead_child());
  pace.after_look(t0, t0, true, false, true);
  CHECK(pace.next_look() == t0 + OrphanPace::kBusyPause);
  // Orphans that do not die: ever more slowly, or at once when a child ends.
  pace.after_look(t0, t0, false, false, false);
  CHECK(pace.next_look() == t0 + 2 * OrphanPace::kFirstPause);
  for (int i = 0; i < 20; ++i) pace.after_look(t0, t0, false, false, false);
  CHECK(pace.next_look() == t0 + OrphanPace::kLastPause);
  pace.on_child_ended();
  CHECK(pace.next_look() == t0);
}

TEST_CASE("agent_keeper: a proc is running, then exited, then empty") {
  ProcTable table;
  table.add(100, {.first = 1, .pidfd = {}, .mesh = "a", .wave = 0, .shared = nullptr}, {1});
  CHECK(table.find_pid(1) == 100);
  CHECK(table.contains(100));
  std::vector<pid_t> of_mesh;
  table.for_each_of_mesh("a", [&](pid_t pid) { of_mesh.push_back(pid); });
  CHECK(of_mesh == std::vector<pid_t>{100});
  CHECK(table.bury(100).procs == std::vector<std::uint64_t>{1});
  CHECK(table.find_pid(1) == -1);
  CHECK(table.find(100) == nullptr);
  CHECK(table.has_dead());
  const auto dead = table.take_dead();
  REQUIRE(dead.size() == 1);
  CHECK(dead.front().mesh == "a");
  CHECK_FALSE(table.has_dead());
}

}  // namespace meshbus::keeper
