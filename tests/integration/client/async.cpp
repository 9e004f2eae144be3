// Asynchronous calls of a launcher.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <thread>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// What handlers of asynchronous calls have got, and how often.
class Answers {
 public:
  AnswerHandler one(std::uint64_t number) {
    return [this, number](const Result<std::string>& answer) { add(number, answer); };
  }
  RankAnswerHandler all() {
    return
        [this](std::uint64_t ordinal, const Result<std::string>& answer) { add(ordinal, answer); };
  }
  /// Waits until so many handlers have run.
  bool wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, in_time, [&] { return count_ >= count; });
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  /// The answer to that call; not_exist before there is one, internal when there was a second one.
  Result<std::string> of(std::uint64_t number) const {
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = answers_.equal_range(number);
    if (begin == end) return fail(ErrorCode::not_exist, "no answer yet");
    if (std::next(begin) != end) return fail(ErrorCode::internal, "answered twice");
    return begin->second;
  }

 private:
  void add(std::uint64_t number, const Result<std::string>& answer) {
    const std::lock_guard lock(mutex_);
    answers_.emplace(number, answer);
    ++count_;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<std::uint64_t, Result<std::string>> answers_;
  std::size_t count_ = 0;
};

struct Served {
  explicit Served(const std::string& ranks = "gpu=2")
      : context(must(Context::create())),
        hosts(must(HostMesh::process(context, extent("host=1"), of_this_build()))) {
    mesh.emplace(
        must(hosts.spawn("ranks", extent(ranks),
                         {.kind = ProcKind::mesh, .command = {bin("meshbus_test_proc"), "serve"}},
                         heard.handlers())));
  }
  ProcRef proc(std::uint64_t rank) const { return must(mesh->proc(rank)); }

  Context context;
  HostMesh hosts;
  Heard heard;
  std::optional<ProcMesh> mesh;
};

/// Threads of this process.
std::ptrdiff_t count_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE(
    "client: 10,000 asynchronous calls are open at once without a thread each, and every handler "
    "is called once") {
  Served ranks;
  constexpr std::size_t kCalls = 10'000;
  must(ranks.proc(0).call(ranks.context, 1, ""));
  Answers answers;
  ranks.proc(0).call_async(ranks.context, 1, "", {}, answers.one(kCalls));
  REQUIRE(answers.wait(1));
  const auto before = count_threads();
  for (std::size_t i = 0; i < kCalls; ++i)
    ranks.proc(i % 2).call_async(ranks.context, 1, std::to_string(i), {.deadline = in_time},
                                 answers.one(i));
  CHECK(count_threads() <= before + 1);  // that of the flusher
  REQUIRE(answers.wait(kCalls + 1));
  for (std::size_t i = 0; i < kCalls; ++i) REQUIRE(must(answers.of(i)) == std::to_string(i));
}

TEST_CASE("client: a direct answer does not wait for the handlers' thread") {
  Answers answers;
  std::optional<Served> served(std::in_place);
  Served& ranks = *served;
  std::promise<void> is_direct_there;
  std::atomic<bool> has_waited_in_vain = false;
  // Keeps the handlers' thread busy until the direct answers have come.
  ranks.proc(0).call_async(ranks.context, 1, "", {}, [&](const Result<std::string>& answer) {
    has_waited_in_vain =
        is_direct_there.get_future().wait_for(in_time) != std::future_status::ready;
    answers.one(0)(answer);
  });
  const AsyncOptions direct{.deadline = in_time, .is_direct = true};
  ranks.proc(1).call_async(ranks.context, 1, std::string(5'000'000, 'x'), direct, answers.one(1));
  ranks.proc(1).call_async(ranks.context, 99, "", direct, answers.one(2));
  ranks.context.call_async(ranks.mesh->ref(), 1, "all", direct,
                           [&](std::uint64_t ordinal, const Result<std::string>& answer) {
                             answers.one(3 + ordinal)(answer);
                             throw std::runtime_error("of no account");
                           });
  REQUIRE(answers.wait(4));
  is_direct_there.set_value();
  REQUIRE(answers.wait(5));
  CHECK_FALSE(has_waited_in_vain);
  CHECK(must(answers.of(1)).size() == 5'000'000);
  CHECK(answers.of(2).error().code() == ErrorCode::no_such_port);
  CHECK(must(answers.of(3)) == "all");
  CHECK(must(answers.of(4)) == "all");
  // One that is given up is answered, too, and so is one whose rank is killed, and one that the end
  // of its Context finds open.
  std::stop_source stop;
  REQUIRE(ranks.mesh->signal({RankBlock{0, 1}}, SIGSTOP).has_value());
  ranks.proc(0).call_async(ranks.context, 1, "", {.stop = stop.get_token(), .is_direct = true},
                           answers.one(5));
  ranks.proc(0).call_async(ranks.context, 1, "", direct, answers.one(6));
  stop.request_stop();
  REQUIRE(answers.wait(6));
  CHECK(answers.of(5).error().code() == ErrorCode::fate_unknown);
  REQUIRE(ranks.mesh->signal({RankBlock{0, 1}}, SIGKILL).has_value());
  REQUIRE(answers.wait(7));
  CHECK(answers.of(6).error().code() == ErrorCode::fate_unknown);
  Answers last;
  REQUIRE(ranks.mesh->signal({RankBlock{1, 2}}, SIGSTOP).has_value());
  ranks.proc(1).call_async(ranks.context, 1, "", direct, last.one(0));
  served.reset();
  REQUIRE(last.wait(1));
  CHECK_FALSE(last.of(0).has_value());
}

TEST_CASE("client: an asynchronous call tells its handler what a call returns") {
  Served ranks;
  Answers answers;
  ranks.proc(0).call_async(ranks.context, 99, "", {}, answers.one(0));
  ranks.proc(0).call_async(ranks.context, 3, "boom", {}, answers.one(1));
  ranks.proc(0).call_async(ranks.context, 1, std::string(2'000'000, 'x'), {}, answers.one(2));
  ranks.context.call_async(*ProcId::parse("tcp:127.0.0.1:9,none"), 1, "", {.deadline = 50ms},
                           answers.one(3));
  REQUIRE(answers.wait(4));
  CHECK(answers.of(0).error().code() == ErrorCode::no_such_port);
  CHECK(answers.of(0).error().detail().find("port 99") != std::string::npos);
  CHECK(answers.of(1).error().code() == ErrorCode::call_error);
  CHECK(must(answers.of(2)).size() == 2'000'000);
  CHECK_FALSE(answers.of(3).has_value());
  // A handler may call, and what it throws ends nothing.
  ranks.proc(0).call_async(ranks.context, 1, "", {}, [&](const Result<std::string>&) {
    ranks.proc(1).call_async(ranks.context, 1, "inner", {}, answers.one(4));
    throw std::runtime_error("of no account");
  });
  REQUIRE(answers.wait(5));
  CHECK(must(answers.of(4)) == "inner");
  // No handlers' thread ever has these.
  const Context moved = std::move(ranks.context);
  ranks.proc(0).call_async(ranks.context, 1, "", {}, answers.one(5));
  CHECK(answers.of(5).error().code() == ErrorCode::refused);
  ranks.context.call_async(ranks.mesh->ref(), 1, "", {},
                           [&](std::uint64_t ordinal, const Result<std::string>& answer) {
                             answers.one(6 + ordinal)(answer);
                           });
  CHECK(answers.of(6).error().code() == ErrorCode::refused);
  CHECK(answers.of(7).error().code() == ErrorCode::refused);
}

TEST_CASE("client: an asynchronous call to a view is answered rank by rank, as each one answers") {
  Served ranks("gpu=4");
  Answers answers;
  const auto ref = ranks.mesh->ref();
  ranks.context.call_async(ref, 13, "", {}, answers.all());
  REQUIRE(answers.wait(4));
  CHECK(must(answers.of(3)) == "host=0/1,gpu=3/4");
  // Rank 2 is frozen: the others do not wait for it, and it is heard when it goes on.
  REQUIRE(ranks.mesh->signal({RankBlock{2, 3}}, SIGSTOP).has_value());
  Answers late;
  ranks.context.call_async(ref, 1, "still", {.deadline = in_time}, late.all());
  REQUIRE(late.wait(3));
  CHECK(late.of(2).error().code() == ErrorCode::not_exist);
  REQUIRE(ranks.mesh->signal({RankBlock{2, 3}}, SIGCONT).has_value());
  REQUIRE(late.wait(4));
  for (std::uint64_t rank = 0; rank < 4; ++rank) CHECK(must(late.of(rank)) == "still");
}

TEST_CASE("client: a cancelled call ends at once, lets its handler go, and no answer follows") {
  Served ranks;
  REQUIRE(ranks.mesh->signal({RankBlock{0, 1}}, SIGSTOP).has_value());
  Answers answers;
  std::stop_source source;
  const AsyncOptions options{.deadline = in_time, .stop = source.get_token()};
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  ranks.proc(0).call_async(ranks.context, 1, "", options,
                           [held = std::move(held), &answers](const Result<std::string>& answer) {
                             answers.one(10)(answer);
                           });
  ranks.context.call_async(ranks.mesh->ref(), 1, "", options, answers.all());
  REQUIRE(answers.wait(1));  // rank 1
  source.request_stop();
  REQUIRE(answers.wait(3));
  CHECK(must(answers.of(1)).empty());
  CHECK(answers.of(0).error().code() == ErrorCode::fate_unknown);
  CHECK(answers.of(10).error().detail().find("cancelled") != std::string::npos);
  CHECK(wait_until([&] { return watched.expired(); }, in_time));
  // A call that is cancelled before it is made is not sent.
  ranks.proc(1).call_async(ranks.context, 1, "", options, answers.one(11));
  REQUIRE(answers.wait(4));
  CHECK(answers.of(11).error().code() == ErrorCode::fate_unknown);
  REQUIRE(ranks.mesh->signal({RankBlock{0, 1}}, SIGCONT).has_value());
  CHECK(must(ranks.proc(0).call(ranks.context, 1, "on")) == "on");
  CHECK(answers.count() == 4);
}

TEST_CASE(
    "client: calls are cancelled by many threads while their answers come: one or the other") {
  Served ranks;
  constexpr std::size_t kCalls = 2000;
  Answers answers;
  std::vector<std::stop_source> sources(kCalls);
  std::atomic<std::size_t> made{0};
  std::thread canceller([&] {
    for (std::size_t i = 0; i < kCalls; ++i) {
      while (made <= i) std::this_thread::yield();
      if (i % 2 == 0) sources[i].request_stop();
    }
  });
  for (std::size_t i = 0; i < kCalls; ++i) {
    ranks.proc(i % 2).call_async(ranks.context, 1, std::to_string(i),
                                 {.deadline = in_time, .stop = sources[i].get_token()},
                                 answers.one(i));
    made = i + 1;
  }
  canceller.join();
  REQUIRE(answers.wait(kCalls));
  for (std::size_t i = 0; i < kCalls; ++i) {
    const auto answer = answers.of(i);
    if (answer || i % 2 == 1) {
      REQUIRE(must(answer) == std::to_string(i));
    } else {
      REQUIRE(answer.error().code() == ErrorCode::fate_unknown);
    }
  }
}

TEST_CASE("client: calls that are open when the launcher leaves are of unknown fate, each once") {
  Answers answers;
  constexpr std::size_t kCalls = 100;
  {
    Served ranks;
    REQUIRE(ranks.mesh->signal({RankBlock{0, 1}}, SIGSTOP).has_value());
    for (std::size_t i = 0; i < kCalls; ++i)
      ranks.proc(0).call_async(ranks.context, 1, "", {.deadline = forever}, answers.one(i));
    CHECK(answers.count() == 0);
  }
  CHECK(answers.count() == kCalls);
  for (std::size_t i = 0; i < kCalls; ++i)
    CHECK(answers.of(i).error().code() == ErrorCode::fate_unknown);
}
