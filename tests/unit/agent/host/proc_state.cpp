#include "agent/host/model/proc_state.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "wire/codes_generated.h"

namespace meshbus::host {
namespace {

using State = wire::ProcState;
using Step = wire::StopStep;

const std::int64_t kBirth = 1'700'000'000'000'000'000;

ProcState in(State state) {
  ProcState proc(3, 77);
  if (state == State::starting) return proc;
  proc.on_started(4711, kBirth);
  if (state == State::ready) proc.on_ready();
  if (state == State::stopping) proc.on_stop(Step::term);
  if (state == State::stopped) proc.on_ended({.code = 3, .ended_ns = kBirth + 1});
  if (state == State::killed) proc.on_ended({.signaled = true, .code = 9, .ended_ns = kBirth + 1});
  if (state == State::failed) proc.on_failed(kBirth + 1);
  REQUIRE(proc.state() == state);
  return proc;
}

TEST_CASE("proc_state: the whole table of transitions (spec 4.1)") {
  const std::vector<std::pair<std::string, std::function<bool(ProcState&)>>> events{
      {"started", [](ProcState& p) { return p.on_started(1, kBirth); }},
      {"ready", [](ProcState& p) { return p.on_ready(); }},
      {"stop", [](ProcState& p) { return p.on_stop(Step::term); }},
      {"exit", [](ProcState& p) { return p.on_ended({.code = 0, .ended_ns = kBirth}); }},
      {"signal",
       [](ProcState& p) { return p.on_ended({.signaled = true, .code = 11, .ended_ns = kBirth}); }},
      {"cancelled", [](ProcState& p) { return p.on_cancelled(kBirth); }},
      {"failed", [](ProcState& p) { return p.on_failed(kBirth); }},
  };
  struct Row {
    State from;
    // none = not allowed. The order is that of `events`.
    std::vector<State> to;
  };
  const auto N = State::none;
  const std::vector<Row> rows{
      // "stop" in Starting is noted, but leads nowhere before there is a pid
      {State::starting,
       {State::running, N, State::starting, State::stopped, State::killed, State::stopped,
        State::failed}},
      {State::running,
       {N, State::ready, State::stopping, State::stopped, State::killed, N, State::failed}},
      {State::ready, {N, N, State::stopping, State::stopped, State::killed, N, State::failed}},
      {State::stopping, {N, N, State::stopping, State::stopped, State::stopped, N, State::failed}},
      {State::stopped, {N, N, N, N, N, N, N}},
      {State::killed, {N, N, N, N, N, N, N}},
      {State::failed, {N, N, N, N, N, N, N}},
  };
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      ProcState proc = in(row.from);
      const auto before = proc.to_wire();
      const bool allowed = events[i].second(proc);
      INFO("from ", wire::EnumNameProcState(row.from), " by ", events[i].first);
      CHECK(allowed == (row.to[i] != N));
      CHECK(proc.state() == (allowed ? row.to[i] : row.from));
      const bool is_further = allowed && proc.to_wire().step() != before.step();
      CHECK(proc.to_wire().generation() ==
            before.generation() + (proc.state() != row.from || is_further ? 1 : 0));
      if (!allowed) CHECK(std::memcmp(&proc.to_wire(), &before, sizeof before) == 0);
    }
  }
}

TEST_CASE("proc_state: what travels") {
  ProcState proc(3, 77);
  CHECK(proc.to_wire().rank() == 3);
  CHECK(proc.to_wire().incarnation() == 77);
  CHECK(proc.to_wire().generation() == 1);
  proc.on_started(4711, kBirth);
  CHECK(proc.to_wire().pid() == 4711);
  CHECK(proc.to_wire().started_ns() == kBirth);
  proc.on_ready();
  proc.on_ended({.signaled = true, .code = 6, .core_dumped = true, .ended_ns = kBirth + 5});
  CHECK(proc.state() == State::killed);
  CHECK(proc.to_wire().signal() == 6);
  CHECK(proc.to_wire().core_dumped());
  CHECK(proc.to_wire().ended_ns() == kBirth + 5);
  CHECK(proc.to_wire().exit_code() == 0);
  CHECK(proc.to_wire().generation() == 4);
  CHECK(proc.to_wire().step() == Step::none);
}

TEST_CASE(
    "proc_state: an end that was asked for is Stopped, whatever it took, and keeps how (spec "
    "4.2)") {
  ProcState killed = in(State::ready);
  killed.on_stop(Step::asked);
  killed.on_stop(Step::term);
  killed.on_stop(Step::kill);
  killed.on_stop(Step::term);  // the furthest step is kept
  killed.on_ended({.signaled = true, .code = 9, .ended_ns = kBirth});
  CHECK(killed.state() == State::stopped);
  CHECK(killed.to_wire().signal() == 9);
  CHECK(killed.to_wire().step() == Step::kill);

  // Each further step is a change, and has a generation of its own; a step that is not further is
  // none.
  ProcState stepwise = in(State::ready);
  const auto ready = stepwise.to_wire().generation();
  stepwise.on_stop(Step::asked);
  CHECK(stepwise.to_wire().generation() == ready + 1);
  stepwise.on_stop(Step::term);
  CHECK(stepwise.to_wire().generation() == ready + 2);
  stepwise.on_stop(Step::asked);
  CHECK(stepwise.to_wire().generation() == ready + 2);

  ProcState exited = in(State::running);
  exited.on_stop(Step::term);
  exited.on_ended({.code = 7, .ended_ns = kBirth});
  CHECK(exited.state() == State::stopped);
  CHECK(exited.to_wire().exit_code() == 7);

  ProcState early(0, 1);
  early.on_stop(Step::term);
  early.on_started(5, kBirth);
  CHECK(early.state() == State::running);
  early.on_stop(Step::term);
  CHECK(early.state() == State::stopping);
}

TEST_CASE("proc_state: an exit that nobody asked for is Stopped with its code, step none") {
  ProcState proc = in(State::ready);
  proc.on_ended({.code = 3, .ended_ns = kBirth});
  CHECK(proc.state() == State::stopped);
  CHECK(proc.to_wire().exit_code() == 3);
  CHECK_FALSE(proc.is_stop_asked());
}

}  // namespace
}  // namespace meshbus::host
