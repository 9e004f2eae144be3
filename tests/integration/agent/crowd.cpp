// Crowds of procs through one agent: every end is told once and right, and the keeper is never
// asked for more at a time than is set.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <deque>

#include "agent/keeper/protocol.h"
#include "tests/integration/agent/harness.h"
#include "tests/integration/needs.h"
#include "tests/support/sanitizer_scale.h"
#include "wire/lifecycle_generated.h"
#include "wire/ranks_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

// Read before main(), which removes all our variables from the environment. 1000 procs each.
const std::uint64_t crowd_meshes = number_from_environment("MESHBUS_TEST_CROWD", 3);

/// Stands between an agent and its keeper, passes on all that they say, and counts births. Lives on
/// the agent's reactor, and longer.
class KeeperTap {
 public:
  UniqueFd put_between(Reactor& reactor, UniqueFd keeper) {
    reactor_ = &reactor;
    auto pair = os::make_packet_pair().value();
    keeper_.socket = std::move(keeper);
    agent_.socket = std::move(pair.first);
    pump();
    return std::move(pair.second);
  }

  std::size_t asked = 0;          ///< Births that were asked for.
  std::size_t ask_packets = 0;    ///< In so many packets.
  std::size_t largest_ask = 0;    ///< In one packet.
  std::size_t born = 0;           ///< Births that were told.
  std::size_t birth_packets = 0;  ///< In so many packets.
  std::size_t most_open = 0;      ///< At any time: asked for, and not yet told.

 private:
  struct End {
    UniqueFd socket;
    std::deque<os::Packet> waiting = {};  ///< What it is to get.
    bool is_lost = false;
  };

  void pump() {
    for (End* from : {&keeper_, &agent_}) {
      os::Packet packet;
      auto received = os::Transfer::lost;
      while (!from->is_lost &&
             (received = os::receive_packet(from->socket.get(), packet)) == os::Transfer::done) {
        from == &keeper_ ? count_from_keeper(copy_of(packet)) : count_from_agent(copy_of(packet));
        (from == &keeper_ ? agent_ : keeper_).waiting.push_back(std::exchange(packet, {}));
      }
      from->is_lost = received == os::Transfer::lost;
    }
    for (End* to : {&keeper_, &agent_}) {
      auto& waiting = to->waiting;
      while (!waiting.empty() &&
             os::send_packet(to->socket.get(), waiting.front()) == os::Transfer::done)
        waiting.pop_front();
      if (to->is_lost) {
        reactor_->forget(to->socket.get());
      } else {
        reactor_->watch(to->socket.get(), EPOLLIN | (waiting.empty() ? 0U : EPOLLOUT),
                        [this](std::uint32_t) { pump(); });
      }
    }
  }
  static os::Packet copy_of(const os::Packet& packet) {
    os::Packet copy{packet.bytes, {}};
    for (const UniqueFd& fd : packet.fds)
      copy.fds.emplace_back(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    return copy;
  }

  void count_from_agent(os::Packet packet) {
    CHECK(keeper::decode_requests(std::move(packet),
                                  {.on_spawn =
                                       [this](const os::SpawnBatch& batch) {
                                         ++ask_packets;
                                         asked += batch.procs.size();
                                         largest_ask = std::max(largest_ask, batch.procs.size());
                                         most_open = std::max(most_open, asked - born);
                                       },
                                   .on_signal = [](const keeper::Signal&) {},
                                   .on_hold = [](const keeper::Hold&) {},
                                   .on_mark = [](keeper::Mark) {},
                                   .on_kill_mesh = [](const keeper::KillMesh&) {},
                                   .on_forget = [](const keeper::Forget&) {},
                                   .on_close_input = [](const keeper::CloseInput&) {}}));
  }
  void count_from_keeper(os::Packet packet) {
    const std::size_t before = born;
    CHECK(keeper::decode_events(std::move(packet),
                                {.on_birth = [this](const keeper::Birth&) { ++born; },
                                 .on_exit = [](const keeper::Exit&) {},
                                 .on_gone = [](const keeper::Gone&) {},
                                 .on_replayed = [] {},
                                 .on_signalled = [](const keeper::Signalled&) {}}));
    if (born != before) ++birth_packets;
  }

  Reactor* reactor_ = nullptr;
  End keeper_, agent_;
};

TEST_CASE(
    "agent: thousands of short-lived procs: every code is right, and one end of each is told") {
  // So many at a time: a host takes no more than a third of the files that it may have open.
  constexpr std::uint64_t at_once = 1000;
  AgentHarness harness;
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t right = 0, told_once = 0;
  std::string wrong;
  for (std::uint64_t i = 0; i < crowd_meshes; ++i) {
    const auto mesh =
        harness.run_shell("[ $((RANK % 2)) = 0 ] && exec /bin/true; exit $((RANK % 251))", at_once);
    const auto& known = harness.launcher->mesh(mesh);
    std::uint64_t ended = 0;  // so many of the lowest ranks
    const auto have_ended = [&] {
      for (auto one = known.find(ended); one != known.end() && one->first == ended;
           ++one, ++ended) {
        if (!one->second.has_ended() || !one->second.exit_report) break;
      }
      return ended == at_once;
    };
    harness.wait("all exit reports", have_ended, 160s * slowness);
    // Answered after all that was told: what comes twice is here now.
    REQUIRE(harness.ask<wire::HostState>(wire::GetHostT{}).has_value());
    CHECK(known.size() == at_once);
    for (const auto& [rank, one] : known) {
      const int code = rank % 2 == 0 ? 0 : static_cast<int>(rank % 251);
      const auto& last = one.states.back();
      const bool is_right = one.state() == wire::ProcState::stopped && last.signal() == 0 &&
                            last.exit_code() == code &&
                            one.exit_report->cause == wire::Cause::exited &&
                            one.exit_report->reason == "exit " + std::to_string(code);
      const bool is_once =
          std::count_if(one.states.begin(), one.states.end(), [](const wire::RankState& state) {
            return state.state() >= wire::ProcState::stopped;
          }) == 1;
      right += is_right ? 1U : 0U;
      told_once += is_once ? 1U : 0U;
      if ((!is_right || !is_once) && wrong.size() < 1000)
        wrong += mesh + " rank " + std::to_string(rank) + ": " + one.exit_report->reason + "\n";
    }
    CHECK(harness.agent().live() == 0);
  }
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  INFO(wrong);
  CHECK(right == crowd_meshes * at_once);
  CHECK(told_once == crowd_meshes * at_once);
  CHECK(harness.launcher->problems.empty());
  MESSAGE(crowd_meshes * at_once, " procs: ", took.count(), " ms, ",
          harness.launcher->state_messages, " messages with changes");
}

TEST_CASE(
    "agent: the keeper is asked for as many births at a time as spawn.in_flight says, and both "
    "speak in batches") {
  for (const std::size_t in_flight : {64U, 7U, 200U}) {
    CAPTURE(in_flight);
    const std::size_t procs = in_flight == 64 ? 1000 : 300;
    KeeperTap tap;
    std::vector<Setting> settings;
    if (in_flight != 64)
      settings.push_back(
          {"spawn.in_flight", std::to_string(in_flight)});  // else: what it is without
    AgentHarness harness(
        {.settings = std::move(settings), .between = [&](Reactor& reactor, UniqueFd keeper) {
           return tap.put_between(reactor, std::move(keeper));
         }});
    const auto mesh = harness.spawn(harness.command({"/bin/true"}, procs));
    harness.wait_ended(mesh, procs);
    CHECK(tap.asked == procs);
    CHECK(tap.born == procs);
    CHECK(tap.most_open == in_flight);
    CHECK(tap.largest_ask == std::min(in_flight, keeper::kMaxProcsPerBatch));
    CHECK(tap.birth_packets <= procs);
    CHECK(tap.ask_packets <= tap.birth_packets + in_flight / keeper::kMaxProcsPerBatch + 1);
    MESSAGE("in flight ", tap.most_open, ": ", procs, " births asked for in ", tap.ask_packets,
            " packets and told in ", tap.birth_packets);
  }
}

}  // namespace
}  // namespace meshbus::test
