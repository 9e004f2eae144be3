// The parts of the actor runtime that need no proc: mailbox, states, pool.
#include <doctest/doctest.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "agent/proc/actors/actor_life.h"
#include "agent/proc/actors/actor_pool.h"
#include "agent/proc/actors/mailbox.h"
#include "common/wire/actor_body.h"
#include "meshbus/actor_ref.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::mesh_proc;

namespace {

mesh_proc::Letter letter(std::string body) {
  return {.body = std::move(body)};
}

/// Counts its runs, and submits itself again so often.
struct Runner : ActorPool::Runnable, std::enable_shared_from_this<Runner> {
  Runner(ActorPool& owner, std::string& order_of_all, char own_name, int own_runs)
      : pool(owner), order(order_of_all), name(own_name), runs(own_runs) {}
  void run() override {
    order += name;
    if (--runs > 0) return pool.submit(shared_from_this());
    done.set_value();
  }
  ActorPool& pool;
  std::string& order;
  char name;
  int runs;
  std::promise<void> done;
};

/// Keeps its thread until it is let go.
struct Holder : ActorPool::Runnable {
  void run() override {
    started.set_value();
    go.get_future().wait();
  }
  std::promise<void> started, go;
};

/// Sleeps until the pool wants its thread, and counts.
class Nap {
 public:
  explicit Nap(ActorPool& pool) {
    pool.share_loop(
        [this, &pool] {
          note_asleep(1);
          while (!pool.is_wanted()) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return is_awake_; });
            is_awake_ = false;
          }
          note_asleep(-1);
        },
        [this] { wake(); });
  }
  /// As a turn does that has brought work.
  void wake() {
    const std::lock_guard lock(mutex_);
    is_awake_ = true;
    ++wakes_;
    changed_.notify_all();
  }
  /// Waits until a thread sleeps; how often it was woken until then.
  int asleep() {
    std::unique_lock lock(mutex_);
    CHECK(changed_.wait_for(lock, 10s, [&] { return num_asleep_ > 0; }));
    return wakes_;
  }
  bool is_woken_after(int wakes) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, [&] { return wakes_ > wakes; });
  }
  bool has_two() {
    const std::lock_guard lock(mutex_);
    return has_two_;
  }

 private:
  void note_asleep(int change) {
    const std::lock_guard lock(mutex_);
    num_asleep_ += change;
    has_two_ = has_two_ || num_asleep_ > 1;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int num_asleep_ = 0;
  bool is_awake_ = false;
  bool has_two_ = false;
  int wakes_ = 0;
};

/// Has another one run meanwhile.
struct Asker : ActorPool::Runnable {
  explicit Asker(ActorPool& owner) : pool(owner) {}
  void run() override {
    pool.submit(other);
    is_done.set_value(other->started.get_future().wait_for(10s) == std::future_status::ready);
    other->go.set_value();
  }
  ActorPool& pool;
  std::shared_ptr<Holder> other = std::make_shared<Holder>();
  std::promise<bool> is_done;
};

using Batch = std::vector<std::shared_ptr<ActorPool::Runnable>>;

constexpr ActorLife::Time start{1000s};

}  // namespace

TEST_CASE("proc_mailbox: keeps order, and is bounded in number and bytes") {
  Mailbox mailbox({3, 10 * sizeof(mesh_proc::Letter)});
  for (const char* body : {"a", "b", "c"}) CHECK(mailbox.push(letter(body)));
  CHECK_FALSE(mailbox.push(letter("d")));
  CHECK(mailbox.count() == 3);
  CHECK(mailbox.pop()->body == "a");
  CHECK(mailbox.push(letter("d")));
  for (const char* body : {"b", "c", "d"}) CHECK(mailbox.pop()->body == body);
  CHECK_FALSE(mailbox.pop().has_value());
  CHECK(mailbox.bytes() == 0);
  // One always fits; bytes count.
  CHECK(mailbox.push(letter(std::string(100 * sizeof(mesh_proc::Letter), 'x'))));
  CHECK_FALSE(mailbox.push(letter("y")));
  mailbox.push_always(letter("own"));
  CHECK(mailbox.take_all().size() == 2);
  CHECK(mailbox.is_empty());
  CHECK(mailbox.bytes() == 0);
}

TEST_CASE("proc_actor_life: goes one way, and an illegal step changes nothing") {
  ActorLife life(start);
  CHECK(life.status() == Status::Kind::initializing);
  CHECK(life.generation() == 1);
  CHECK_FALSE(life.on_stopped(start));
  CHECK(life.on_running(start + 1s));
  CHECK_FALSE(life.on_running(start + 2s));
  CHECK(life.is_open());
  CHECK(life.on_stopping("enough", start + 3s));
  CHECK_FALSE(life.on_stopping("again", start + 4s));
  CHECK_FALSE(life.is_open());
  CHECK_FALSE(life.is_ended());
  CHECK(life.words() == "is stopping: enough");
  CHECK(life.on_stopped(start + 5s));
  CHECK(life.is_ended());
  CHECK_FALSE(life.on_failed({"boom"}, start + 6s));
  CHECK_FALSE(life.on_stopping("later", start + 6s));
  CHECK(life.generation() == 4);
  CHECK(life.changed() == start + 5s);
  CHECK(life.words() == "has stopped: enough");
}

TEST_CASE("proc_actor_life: fails from wherever it is, once") {
  for (int steps = 0; steps < 3; ++steps) {
    ActorLife life(start);
    if (steps > 0) life.on_running(start);
    if (steps > 1) life.on_stopping("enough", start);
    CHECK(life.on_failed({"boom", "add", {"cause"}}, start));
    CHECK_FALSE(life.on_failed({"again"}, start));
    CHECK_FALSE(life.on_running(start));
    CHECK_FALSE(life.on_stopped(start));
    CHECK(life.words() == "has failed in message add: boom");
    CHECK(life.fault().causes == std::vector<std::string>{"cause"});
  }
}

TEST_CASE("proc_actor_life: what an exception says, with all that is nested in it, bounded") {
  const auto nest = [](int levels) {
    std::exception_ptr inner = std::make_exception_ptr(std::runtime_error("0"));
    for (int level = 1; level <= levels; ++level) {
      try {
        try {
          std::rethrow_exception(inner);
        } catch (...) {
          std::throw_with_nested(std::runtime_error(std::to_string(level)));
        }
      } catch (...) {
        inner = std::current_exception();
      }
    }
    return inner;
  };
  const auto fault = describe(nest(2), "add");
  CHECK(fault.error == "2");
  CHECK(fault.message == "add");
  CHECK(fault.causes == std::vector<std::string>{"1", "0"});
  CHECK(describe(nest(40), "").causes.size() == 16);
  CHECK(describe(std::make_exception_ptr(4), "").error == "an exception that is no std::exception");
  CHECK(describe(std::make_exception_ptr(std::runtime_error(std::string(5000, 'x'))), "")
            .error.size() <= 1100);
}

TEST_CASE("proc_actor_pool: those who have much to do take turns with the others") {
  ActorPool pool({.threads = 1});
  std::string order;
  auto a = std::make_shared<Runner>(pool, order, 'a', 3);
  auto b = std::make_shared<Runner>(pool, order, 'b', 2);
  pool.submit(std::vector<std::shared_ptr<ActorPool::Runnable>>{a, b});
  pool.start();
  a->done.get_future().wait();
  b->done.get_future().wait();
  CHECK(pool.finish() == 0);
  CHECK(order == "ababa");
}

TEST_CASE("proc_actor_pool: a slice ends after so many steps, or so much time") {
  const Slice::Time begin{};
  Slice steps(begin);
  for (unsigned i = 1; i < Slice::kMaxSteps; ++i) CHECK_FALSE(steps.is_over(begin));
  CHECK(steps.is_over(begin));
  Slice time(begin);
  CHECK_FALSE(time.is_over(begin + Slice::kMaxTime - 1ns));
  CHECK(time.is_over(begin + Slice::kMaxTime));
}

TEST_CASE(
    "proc_actor_pool: whoever keeps its thread for long gets it to itself, and the others another "
    "one") {
  ActorPool pool({.threads = 1, .most_threads = 2, .patience = 10s});
  pool.start();
  auto first = std::make_shared<Holder>();
  pool.submit(first);
  first->started.get_future().wait();
  CHECK_FALSE(pool.is_starved());
  auto second = std::make_shared<Holder>();
  pool.submit(second);
  CHECK(pool.is_starved());
  const auto now = ActorPool::Clock::now();
  pool.relieve(now + 5s);
  CHECK(pool.threads() == 1);
  pool.relieve(now + 11s);
  second->started.get_future().wait();
  auto third = std::make_shared<Holder>();
  pool.submit(third);
  pool.relieve(now + 60s);  // no more than that
  CHECK(pool.threads() == 2);
  CHECK(pool.is_starved());
  first->go.set_value();  // its thread ends: it was replaced
  second->go.set_value();
  third->started.get_future().wait();
  third->go.set_value();
  CHECK(pool.finish() == 0);
}

TEST_CASE("proc_actor_pool: does not wait for ever for whoever does not come back") {
  ActorPool pool({.threads = 2});
  pool.start();
  auto stuck = std::make_shared<Holder>();
  pool.submit(stuck);
  stuck->started.get_future().wait();
  CHECK(pool.finish(10ms) == 1);
  stuck->go.set_value();
  while (pool.left_behind() > 0) std::this_thread::yield();
}

TEST_CASE(
    "proc_actor_pool: one thread passes its time with something else, and is called when there is "
    "something to run") {
  ActorPool pool({.threads = 2});
  Nap nap(pool);
  pool.start();
  std::string order;
  for (int i = 0; i < 1000; ++i) {
    auto one = std::make_shared<Runner>(pool, order, 'x', 1);
    pool.submit(Batch{one});
    nap.wake();
    REQUIRE(one->done.get_future().wait_for(10s) == std::future_status::ready);
  }
  CHECK(pool.batches() == 1000);
  // The other one is there for what is queued besides; and what runs may count on it that another
  // one runs meanwhile.
  nap.asleep();
  auto first = std::make_shared<Holder>();
  auto second = std::make_shared<Holder>();
  pool.submit(Batch{first, second});
  nap.wake();
  first->started.get_future().wait();
  second->started.get_future().wait();
  for (auto& holder : {first, second}) holder->go.set_value();
  nap.asleep();
  auto asker = std::make_shared<Asker>(pool);
  pool.submit(Batch{asker});
  nap.wake();
  CHECK(asker->is_done.get_future().get());
  nap.asleep();
  CHECK_FALSE(nap.has_two());
  CHECK(pool.finish() == 0);
}

TEST_CASE(
    "proc_actor_pool: whoever has nothing to do wakes the one that passes its time, for what was "
    "left to it") {
  ActorPool pool({.threads = 2});
  Nap nap(pool);
  auto busy = std::make_shared<Holder>();
  pool.submit(Batch{busy});
  pool.start();
  busy->started.get_future().wait();
  const int wakes = nap.asleep();
  busy->go.set_value();
  CHECK(nap.is_woken_after(wakes));
  CHECK(pool.finish() == 0);
}

TEST_CASE("actor_ref: messages have names or numbers, by key") {
  CHECK(MessageType("add") == MessageType(std::string("add")));
  CHECK(MessageType("add") != MessageType("sub"));
  CHECK(MessageType(7) == MessageType(7U));
  CHECK(MessageType(0).key() == 0);
  CHECK(MessageType(7).to_string() == "7");
  CHECK(MessageType("add").to_string() == "add");
  CHECK(MessageType("7") != MessageType(7));
  const auto known = MessageType::from_key(MessageType("add").key());
  CHECK(known == MessageType("add"));
  CHECK(known.to_string().starts_with("#"));
  CHECK(MessageType::from_key(7).to_string() == "7");
  // For ever: part of the protocol.
  CHECK(MessageType("add").key() == (key_of("add") | std::uint64_t{1} << 63));
}

TEST_CASE("actor_ref: an actor's port is computed from its name and pid, above those of handlers") {
  const auto tally = *Name::plain("tally");
  CHECK(actor_port(tally) == ((key_of("tally[0]") & 0x7fffffff) | 0x80000000));
  CHECK(actor_port(tally, 1) == ((key_of("tally[1]") & 0x7fffffff) | 0x80000000));
  const auto proc = *ProcId::parse("tcp:h1:7420,trainers_3-13Se1Maqzryj");
  CHECK(actor_port(proc.actor(tally, 1)) == actor_port(tally, 1));
}

TEST_CASE("actor_ref: a mesh of actors prints, parses, slices and names its actors") {
  const auto procs =
      *ProcMeshRef::parse("trainers-13Se1Maqzryj[8]:tcp:h1:7420,tcp:h2:7420@host=2/4,gpu=4/1");
  const ActorMeshRef tally(procs, *Name::plain("tally"));
  CHECK(tally.to_string() ==
        "tally@trainers-13Se1Maqzryj[8]:tcp:h1:7420,tcp:h2:7420@host=2/4,gpu=4/1");
  CHECK(*ActorMeshRef::parse(tally.to_string()) == tally);
  const ActorMeshRef fresh(procs, *Name::make("tally", 5));
  CHECK(*ActorMeshRef::parse(fresh.to_string()) == fresh);
  CHECK(tally.actor_at(5)->to_string() == "tcp:h2:7420,trainers_5-13Se1Maqzryj,tally[0]");
  CHECK(tally.at("host", 1)->range("gpu", 1, 3)->actor_at(1)->to_string() ==
        "tcp:h2:7420,trainers_6-13Se1Maqzryj,tally[0]");
  CHECK(tally.actor_at(8).error().code() == ErrorCode::out_of_range);
  for (const char* bad : {"", "tally", "@", "9x@trainers-13Se1Maqzryj[8]:tcp:h1:7420@gpu=8/1",
                          "tally@trainers", "a@b@c"}) {
    INFO(bad);
    CHECK_FALSE(ActorMeshRef::parse(bad).has_value());
  }
}

TEST_CASE("actor_body: says what a message is; whatever is shorter is none") {
  const auto body = encode_actor_body("add", 4711, "5");
  CHECK(body.size() == 17);
  const auto decoded = decode_actor_body(body);
  REQUIRE(decoded.has_value());
  CHECK(decoded->message == MessageType("add").key());
  CHECK(decoded->from == 4711);
  CHECK(decoded->bytes == "5");
  CHECK(decode_actor_body(body.substr(0, 16))->bytes.empty());
  for (std::size_t size = 0; size < 16; ++size)
    CHECK(decode_actor_body(body.substr(0, size)).error().code() == ErrorCode::malformed_message);
}
