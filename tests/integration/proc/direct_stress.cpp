// Direct paths between procs that are stopped, forked, killed and started again, that have no
// descriptors, and whose broker ends (decision 73): nothing is lost in silence, nothing changes
// places.
#include <doctest/doctest.h>

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/needs.h"
#include "tests/integration/proc/harness.h"
#include "tests/support/process_table.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

// Read before main(), which removes all our variables from the environment.
const std::chrono::seconds duration(number_from_environment("MESHBUS_TEST_DIRECT_SECONDS", 5));

constexpr std::array<std::uint64_t, 2> kTalkers{0, 1};
const std::vector<std::string> kTalk = {"talk", "mixed"};
/// The programs end after this time, whatever goes wrong.
const std::vector<std::string> kLongEnough = {
    "env", "TEST_PROC_SECONDS=" + std::to_string(duration.count() + 300)};

/// Ranks 0 and 1, which send numbers to each other without a pause, and rank 2, which serves.
class Stress {
 public:
  explicit Stress(std::uint64_t seed) : random_(seed) {
    for (const auto rank : kTalkers) harness_.start(rank, kTalk, kLongEnough);
    harness_.start(2, {"serve"}, kLongEnough);
    for (std::uint64_t rank = 0; rank < 3; ++rank) harness_.wait_ready(rank);
  }
  ~Stress() { end_forks(); }
  Stress(const Stress&) = delete;
  Stress& operator=(const Stress&) = delete;

  void round() {
    order(0, "go on");
    order(1, "go on");
    wait_for_path();
    const std::uint64_t rank = random_() % 2;
    const auto deed = static_cast<Deed>(random_() % kDeeds.size());
    INFO(kDeeds.at(deed));
    CAPTURE(rank);
    ++count_.at(deed);
    carry_out(deed, rank);
    if (deed != kill_it) wait_for_path();
    settle(deed == kill_it ? Ended{rank} : Ended{}, deed == end_broker);
  }
  std::string to_string() const {
    std::string text;
    for (std::size_t i = 0; i < kDeeds.size(); ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(count_.at(i)) + " " + kDeeds.at(i);
    return text + "; " + std::to_string(messages_) + " messages, " + std::to_string(returned_) +
           " returned";
  }

 private:
  /// What befalls a rank, or the broker.
  enum Deed : std::size_t { stop_it, fork_it, take_descriptors, kill_it, end_broker };
  static constexpr std::array<const char*, 5> kDeeds = {"stops", "forks", "without descriptors",
                                                        "kills", "ends of the broker"};
  using Ended = std::optional<std::uint64_t>;
  /// What a rank tells of itself.
  struct Told {
    std::int64_t sent = 0, returned = 0, received = 0, out_of_order = 0;
  };

  Told order(std::uint64_t rank, const std::string& what) {
    // While the broker is away, a call may end without an answer.
    Result<std::string> answer = harness_.call(rank, 28, what);
    for (int tries = 0; !answer && tries < 100; ++tries) answer = harness_.call(rank, 28, what);
    REQUIRE(answer.has_value());
    std::istringstream text(*answer);
    Told told;
    std::string word;
    text >> word >> told.sent >> word >> told.returned >> word >> told.received >> word >> word >>
        word >> told.out_of_order;
    return told;
  }
  void wait_for_path() {
    harness_.wait("messages by the path", [&, before = harness_.broker().counters().direct] {
      return harness_.broker().counters().direct > before + 200;
    });
  }
  void ask_the_third(int times) {
    for (int i = 0; i < times; ++i) REQUIRE(harness_.call(2, 1, "lively").value() == "lively");
  }

  void carry_out(Deed deed, std::uint64_t rank) {
    switch (deed) {
      case stop_it: return stop_for_a_while(rank);
      case fork_it: return fork(rank);
      case take_descriptors: return use_descriptors(rank);
      case kill_it: return kill(rank);
      case end_broker: return end_the_broker();
    }
  }
  void stop_for_a_while(std::uint64_t rank) {
    auto& process = harness_.process(rank);
    process.send_signal(SIGSTOP);
    harness_.wait("the process is stopped",
                  [&] { return find_process(process.pid())->state == 'T'; });
    ask_the_third(static_cast<int>(random_() % 200));
    process.send_signal(SIGCONT);
  }
  void fork(std::uint64_t rank) {
    end_forks();
    forks_.push_back(std::stoi(harness_.call(rank, 29, "").value()));
    REQUIRE(forks_.back() > 0);
  }
  void end_forks() {
    for (const pid_t pid : forks_) ::kill(pid, SIGKILL);
    forks_.clear();
  }
  void use_descriptors(std::uint64_t rank) {
    REQUIRE(std::stoi(harness_.call(rank, 30, "all").value()) >= 0);
    ask_the_third(static_cast<int>(random_() % 50));
    REQUIRE(harness_.call(rank, 30, "none").value() == "closed");
  }
  void kill(std::uint64_t rank) {
    end_forks();  // they have the connection to the broker, and no agent ends them here
    harness_.restart(rank, kTalk, kLongEnough);
  }
  void end_the_broker() {
    harness_.stop_broker();
    harness_.start_broker();
    const auto is_back = [&](std::uint64_t rank) { return harness_.call(rank, 1, "x") == "x"; };
    for (std::uint64_t rank = 0; rank < 3; ++rank)
      REQUIRE(wait_until([&] { return is_back(rank); }, in_time));
  }

  /// Both ranks send no more. Of what was sent, what has neither come nor come back was taken by a
  /// process that was killed later; it never becomes more.
  void settle(Ended killed, bool is_broker_gone) {
    order(0, "pause");
    order(1, "pause");
    std::array<Told, 2> told;
    std::array<std::int64_t, 2> left{};
    const auto is_settled = [&](std::size_t from) {
      if (killed == 1 - from) return left[from] >= 0;  // the receiver's former life has the rest
      if (killed == from) return left[from] == 0;
      const auto before = left_[from];
      return is_broker_gone || is_loose_ ? left[from] <= before : left[from] == before;
    };
    const auto until = std::chrono::steady_clock::now() + 60s;
    do {
      for (const auto rank : kTalkers) told[rank] = order(rank, "pause");
      // The receiver counts what a former life of the sender sent until the new one has sent.
      for (const auto rank : kTalkers)
        left[rank] = told[rank].sent == 0
                         ? 0
                         : told[rank].sent - told[rank].returned - told[1 - rank].received;
    } while (!(is_settled(0) && is_settled(1)) && std::chrono::steady_clock::now() < until);
    for (const auto from : kTalkers) {
      CAPTURE(from);
      CAPTURE(told[from].sent);
      CAPTURE(told[from].returned);
      CAPTURE(told[1 - from].received);
      CAPTURE(left_[from]);
      CHECK(is_settled(from));
      CHECK(told[from].out_of_order == 0);
      messages_ += told[from].sent - (killed == from ? 0 : sent_[from]);
      returned_ += told[from].returned - (killed == from ? 0 : came_back_[from]);
      sent_[from] = told[from].sent;
      came_back_[from] = told[from].returned;
    }
    left_ = left;
    // After these, messages may still come back whose fate is not known.
    is_loose_ = killed || is_broker_gone;
  }

  ProcHarness harness_{{.ranks = 3}};
  std::mt19937_64 random_;
  std::vector<pid_t> forks_;
  std::array<std::int64_t, 2> left_{};
  std::array<std::int64_t, 2> sent_{}, came_back_{};
  bool is_loose_ = false;
  std::array<int, kDeeds.size()> count_{};
  std::int64_t messages_ = 0, returned_ = 0;
};

}  // namespace

TEST_CASE("proc: direct paths under stops, forks, kills and ends of the broker lose nothing") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  const auto until = std::chrono::steady_clock::now() + duration;
  Stress stress(seed);
  int rounds = 0;
  do {
    stress.round();
    ++rounds;
  } while (std::chrono::steady_clock::now() < until);
  MESSAGE(rounds, " rounds: ", stress.to_string());
}
