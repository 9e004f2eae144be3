// A mesh program with everything that the tests of the library ask of one: `meshbus_test_proc
// MODE`.
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "meshbus/proc.h"

using namespace std::chrono_literals;
using namespace meshbus;

namespace {

void say(const std::string& line) {
  std::cerr << line << std::endl;
}

/// What came to port 22.
std::vector<SharedBody> kept;

/// What came to port 16, one after the other.
std::string heard;

/// The sizes of the mesh that on_world has told, one after the other.
std::string worlds;

/// Messages with numbers, which ranks 0 and 1 send each other as fast as they can in the mode
/// "talk".
struct Talk {
  std::atomic<bool> is_paused = false;
  std::atomic<std::uint64_t> sent = 0;
  std::atomic<std::uint64_t> returned = 0;
  /// On the handlers' thread: what came from the process that sends now.
  std::uint64_t received = 0;
  std::uint64_t out_of_order = 0;
  std::uint64_t next = 0;
  std::uint64_t sender = 0;

  /// Sends until the proc is to stop. `is_mixed`: some messages are long, up to what one message
  /// may have.
  int run(Proc& proc, bool is_mixed) {
    const auto to = proc.rank() ^ 1;
    const std::string self = std::to_string(::getpid()) + " ";
    std::minstd_rand random(static_cast<unsigned>(proc.rank()));
    while (!proc.stop_requested()) {
      if (is_paused) {
        proc.wait_for_stop(10ms);
        continue;
      }
      std::string text = self + std::to_string(sent) + " ";
      // More short ones would come back at once than the library keeps for on_undelivered.
      if (is_mixed) text.append(random() % 4096 == 0 ? random() % 1'000'000 : 256, 'x');
      // When the queue is full for long, or the peer is away, the same number is tried again.
      if (proc.send(to, 27, text)) ++sent;
    }
    return 0;
  }
  void on_number(std::string_view text) {
    const auto words = std::string(text.substr(0, 48));
    std::istringstream in(words);
    std::uint64_t from = 0, number = 0;
    in >> from >> number;
    if (from != std::exchange(sender, from)) received = next = 0;
    ++received;
    if (number < next) ++out_of_order;
    next = number + 1;
  }
  std::string tell() const {
    return "sent " + std::to_string(sent) + " returned " + std::to_string(returned) + " received " +
           std::to_string(received) + " out of order " + std::to_string(out_of_order);
  }
} talk;

/// Makes a child that has all descriptors of this process, and lives until it is killed; its pid.
std::string keep_in_fork() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    for (;;) ::pause();
  }
  return std::to_string(child);
}

/// Uses all descriptors that this process may have, or closes those again.
std::string use_up_descriptors(bool is_wanted) {
  static std::vector<int> used;
  if (is_wanted) {
    const rlimit few{128, 128};
    ::setrlimit(RLIMIT_NOFILE, &few);
    const auto copy = [] { return ::fcntl(2, F_DUPFD_CLOEXEC, 0); };
    for (int fd = copy(); fd >= 0; fd = copy()) used.push_back(fd);
    return std::to_string(used.size());
  }
  for (const int fd : used) ::close(fd);
  used.clear();
  return "closed";
}

/// What a child of fork() gets from the library.
std::string ask_in_fork(Proc& proc) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const auto answer = proc.call(proc.rank(), 1, "x", 5s);
    const auto sent = proc.send(proc.rank(), 1, "x");
    const std::string text = answer || sent ? "it worked"
                                            : std::string(to_string(answer.error().code())) + " " +
                                                  std::string(to_string(sent.error().code()));
    [[maybe_unused]] const auto n = ::write(pipe[1], text.data(), text.size());
    ::raise(SIGTERM);  // ends this child, and must not stop the proc
    ::_exit(9);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  char text[100];
  const auto size = ::read(pipe[0], text, sizeof text);
  ::close(pipe[0]);
  ::close(pipe[1]);
  return std::string(text, size > 0 ? static_cast<std::size_t>(size) : 0) +
         (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? ", ended by TERM" : ", ?");
}

/// Sends that many bytes twice without a copy and once with one, and waits until nobody has a share
/// of them: "let go", or what went wrong.
std::string share_with_next(Proc& proc, std::size_t size) {
  const auto next = (proc.rank() + 1) % proc.world_size();
  auto text = std::make_shared<const std::string>(size, 'x');
  const std::weak_ptr<const std::string> watched = text;
  auto body = std::make_optional<SharedBody>(*text, std::move(text));
  for (const auto& sent :
       {proc.send(next, 19, *body), proc.send(*proc.mesh().proc_at(next), 19, *body),
        proc.send(next, 19, body->bytes())}) {
    if (!sent)
      return sent.error().to_string() +
             (watched.use_count() == 1 ? "" : ", and somebody has it still");
  }
  body.reset();
  for (const auto end = std::chrono::steady_clock::now() + 20s; !watched.expired();) {
    if (std::chrono::steady_clock::now() > end) return "somebody has it still";
    std::this_thread::yield();
  }
  return "let go";
}

/// Has the next rank echo the body as pieces and as shared bodies, and sends and casts it so: what
/// is wrong, or nothing.
std::string send_pieces(Proc& proc, std::string_view body) {
  const auto next = (proc.rank() + 1) % proc.world_size();
  const auto to = proc.mesh().proc_at(next);
  const std::string_view pieces[] = {body.substr(0, 3), {}, body.substr(3)};
  const auto sealed = SharedBody::copy(body);
  const auto plain = SharedBody::of(std::string(body));
  for (const BodyParts& parts : {BodyParts(pieces), BodyParts(sealed), BodyParts(plain)}) {
    for (const auto& answer : {proc.call(next, 1, parts, 10s), proc.call(*to, 1, parts, 10s),
                               proc.call_async(next, 1, parts, 10s).get()}) {
      if (answer != body) return answer ? "another answer" : answer.error().to_string();
    }
    const auto all = proc.call(*proc.mesh().range("gpu", next, next + 1), 1, parts, 10s);
    if (!all || all->size() != 1 || all->front() != body) return "the call to a view";
    if (const auto sent = proc.send(next, 19, parts); !sent) return sent.error().to_string();
    if (const auto cast = proc.cast(*proc.mesh().range("gpu", next, next + 1), 19, parts); !cast)
      return cast.error().to_string();
  }
  return {};
}

std::string describe(Proc& proc) {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  bool blocked = false;
  for (int number = 1; number < 32; ++number)
    blocked = blocked || ::sigismember(&mask, number) == 1;
  return std::to_string(proc.rank()) + "/" + std::to_string(proc.world_size()) + " at " +
         proc.point().to_string() + " variable " + (is_mesh_proc() ? "set" : "unset") + " mask " +
         (blocked ? "blocked" : "empty");
}

void add_handlers(ProcProgram& program) {
  program.on(1, [](Proc&, const Incoming& call) { return std::string(call.body); })
      .on(2,
          [](Proc&, const Incoming& call) -> Result<std::string> {
            return fail(ErrorCode::not_exist, std::string(call.body));
          })
      .on(3,
          [](Proc&, const Incoming& call) -> Result<std::string> {
            throw std::runtime_error(std::string(call.body));
          })
      .on(4, [](Proc&, const Incoming&) -> Result<std::string> { throw 4; })
      .on(5, [](Proc&, const Incoming&) -> Result<std::string> { std::exit(41); })
      .on(6, [](Proc& proc, const Incoming&) { return describe(proc); })
      .on(7, [](Proc& proc, const Incoming&) { return ask_in_fork(proc); })
      .on(8, [](Proc& proc, const Incoming&) { return proc.call(proc.rank(), 1, "me", 5s); })
      .on(9,
          [](Proc& proc, const Incoming& call) {
            return proc.call((proc.rank() + 1) % proc.world_size(), 1,
                             "from " + std::to_string(proc.rank()) + ": " + std::string(call.body),
                             10s);
          })
      .on(10,
          [](Proc& proc, const Incoming& call) {
            const auto rank = proc.rank_of(call);
            return rank ? "rank " + std::to_string(*rank) : std::string("stranger");
          })
      .on(11,
          [](Proc& proc, const Incoming&) {
            return proc.call((proc.rank() + 1) % proc.world_size(), 10, "", 10s);
          })
      .on(12,
          [](Proc&, const Incoming& call) {  // keeps the handlers' thread busy
            say("busy");
            const std::chrono::milliseconds time(std::stoi(std::string(call.body)));
            std::this_thread::sleep_for(time);  // sleep-ok: a slow handler, as the test wants
            return std::string("done");
          })
      .on(13,
          [](Proc&, const Incoming& call) {  // where the sender's view has this rank
            return call.point ? call.point->to_string() : std::string("not cast");
          })
      .on(14,
          [](Proc& proc, const Incoming&) -> Result<std::string> {  // asks all others in one call
            const auto others = proc.mesh().range("gpu", 1);
            if (!others) return fail(others.error());
            auto answers = proc.call(*others, 13, "", 10s);
            if (!answers) return fail(answers.error());
            std::string all;
            for (const auto& answer : *answers)
              all += (answer ? *answer : answer.error().to_string()) + ";";
            return all;
          })
      .on(15,
          [](Proc& proc,
             const Incoming&) -> Result<std::string> {  // as asking itself, from a handler
            const auto answers = proc.call(proc.mesh(), 1, "", 5s);
            return answers ? std::string("it worked")
                           : std::string(to_string(answers.error().code()));
          })
      .on(16,
          [](Proc&, const Incoming& call) {
            heard += std::string(call.body);
            return heard;
          })
      .on(17,
          [](Proc& proc,
             const Incoming& call) -> Result<std::string> {  // casts what it is told to all, itself
                                                             // included, letter by letter
            for (const char letter : call.body) {
              if (auto sent = proc.cast(proc.mesh(), 16, std::string(1, letter)); !sent)
                return fail(sent.error());
            }
            return std::string("cast");
          })
      .on(18,
          [](Proc& proc, const Incoming& call) {
            return share_with_next(proc, std::stoul(std::string(call.body)));
          })
      .on(19,
          [](Proc&, const Incoming& call) {  // the sizes of what came until now, a + behind
                                             // each whose bytes are as they should be
            static std::string sizes;
            if (call.body == "?") return sizes;
            sizes += std::to_string(call.body.size()) +
                     (call.body.find_first_not_of('x') == std::string_view::npos ? "+ " : "- ");
            return std::string();
          })
      .on(22,
          [](Proc&, const Incoming& call) {  // keeps what came
            kept.push_back(call.share());
            return std::string("kept") +
                   (kept.back().bytes().data() == call.body.data() ? " as it lies" : " a copy");
          })
      .on(24, [](Proc& proc, const Incoming& call) { return send_pieces(proc, call.body); })
      .on(25,
          [](Proc& proc, const Incoming&) {  // its mesh, as it is now and as it was told
            return std::to_string(proc.world_size()) + " at " + proc.point().to_string() + " told" +
                   worlds;
          })
      .on(26,
          [](Proc& proc, const Incoming& call) {  // asks that rank
            return proc.call(std::stoul(std::string(call.body)), 10, "", 10s);
          })
      .on(27,
          [](Proc&, const Incoming& call) {
            talk.on_number(call.body);
            return std::string();
          })
      .on(28,
          [](Proc&, const Incoming& call) {
            talk.is_paused = call.body == "pause";
            return talk.tell();
          })
      .on(29, [](Proc&, const Incoming&) { return keep_in_fork(); })
      .on(30, [](Proc&, const Incoming& call) { return use_up_descriptors(call.body == "all"); })
      .on(31,
          [](Proc& proc, const Incoming&) -> Result<std::string> {  // talks to rank 1
            for (int i = 0; i < 500; ++i) {
              if (auto answer = proc.call(1, 1, "x", 10s); !answer) return answer;
            }
            return std::string("talked");
          })
      .on(32,
          [](Proc& proc, const Incoming&) {  // waits for rank 1 for long
            return proc.call(1, 12, "60000", 100s);
          })
      .on(23, [](Proc&, const Incoming&) {  // tells all of it, in one piece
        std::string all;
        for (const auto& body : kept) all += body.bytes();
        return all;
      });
  program.on_world(
      [](Proc&, const ProcMeshRef& mesh) { worlds += " " + std::to_string(mesh.num_ranks()); });
}

volatile std::sig_atomic_t own_handler_ran = 0;

/// Tells of its end, which exit() has to bring about.
struct Static {
  ~Static() { say("static destroyed"); }
};

/// Becomes a proc by join(), and is main() itself until it is to stop.
int go_on(ProcProgram program, const std::string& mode) {
  static const Static last;
  if (mode == "join-main") program.main([](Proc&) { return 0; });
  if (mode == "join-own-signals") {
    program.leave_signals();
  }
  if (mode != "join-silent")
    program.on_stop([](Proc&, const std::string& reason) { say("on_stop: " + reason); });
  const auto proc = join(program);
  if (!proc) return say(proc.error().to_string()), 78;
  say(join(ProcProgram()).error().to_string());
  say("joined: rank " + std::to_string((*proc)->rank()) +
      ((*proc)->stop_request() ? ", stopped?" : ""));
  say("self: " + (*proc)->call((*proc)->rank(), 1, "myself", 10s).value_or("?"));
  while (!(*proc)->wait_for_stop(60s)) {
  }
  const auto stop = (*proc)->stop_request();
  const auto left = stop->until - std::chrono::steady_clock::now();
  say("stop: " + std::to_string(stop->code) + " " + stop->reason +
      (left > 3s && left <= 30s ? "" : ", of which too much or too little is left"));
  return 5;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string mode = argv[1];
  // Whatever goes wrong, it ends.
  const char* const longest = std::getenv("TEST_PROC_SECONDS");
  ::alarm(longest == nullptr ? 120 : static_cast<unsigned>(std::stoul(longest)));
  ProcProgram program;
  add_handlers(program);
  if (mode.starts_with("join")) return go_on(std::move(program), mode);
  if (mode == "serve") {
    program.on_stop([](Proc&, const std::string& reason) { say("on_stop: " + reason); });
  } else if (mode == "settings") {
    program.setting("rate", 0.1, "learning rate")
        .setting("batch", 32, "samples in a step")
        .setting("verbose", false, "whether each step is told")
        .setting("pause", 250ms, "between two steps")
        .setting("name", "nobody", "of the run");
    program.on_setting([](Proc& proc, const std::string& name, const SettingValue& value) {
      say("on_setting " + name + "=" + to_text(value) + " " + to_text(*proc.setting_value(name)));
    });
    program.on(20, [](Proc& proc, const Incoming& call) -> Result<std::string> {
      if (call.body == "sum")
        return std::to_string(*proc.setting<double>("rate") +
                              static_cast<double>(*proc.setting<std::int64_t>("batch")));
      if (call.body == "wrong") return fail(proc.setting<bool>("rate").error());
      const auto value = proc.setting_value(call.body);
      if (!value) return fail(value.error());
      return to_text(*value);
    });
    program.on(21, [](Proc& proc, const Incoming&) -> Result<std::string> {
      std::string keys;
      for (const auto& [key, value] : proc.launcher_settings()) keys += key + "=" + value + " ";
      return keys;
    });
  } else if (mode == "main") {
    program.main([](Proc& proc) {
      say("main");
      while (!proc.wait_for_stop(60s)) {
      }
      say("cleaning up");
      return 5;
    });
  } else if (mode == "deaf") {
    program.main([](Proc&) {
      say("main");
      std::this_thread::sleep_for(60s);  // sleep-ok: a main that does nothing until it is ended
      return 0;
    });
  } else if (mode == "stubborn") {
    program.main([](Proc& proc) {
      say(proc.stop_requested() ? "stopped?" : "main");
      std::this_thread::sleep_for(60s);  // sleep-ok: a main that does nothing until it is ended
      return 0;
    });
  } else if (mode == "own-handler") {
    std::signal(SIGTERM, [](int) { own_handler_ran = 1; });
    program.main([](Proc& proc) {
      say("main");
      while (own_handler_ran == 0)
        std::this_thread::sleep_for(1ms);  // sleep-ok: waits for a signal, which wakes nothing else
      return proc.stop_requested() ? 1 : 33;
    });
  } else if (mode == "flood") {  // meshbus_test_proc flood PROC COUNT SIZE
    program.main([&](Proc& proc) {
      const auto to = *ProcId::parse(argv[2]);
      const std::string padding(std::stoul(argv[4]), 'x');
      for (int i = 0; i < std::stoi(argv[3]); ++i) {
        if (const auto sent = proc.send(to, 1, std::to_string(i) + " " + padding); !sent)
          return say(sent.error().to_string()), 1;
      }
      std::cout << "sent";  // no line end: leaves at exit
      return 0;
    });
  } else if (mode ==
             "fill") {  // meshbus_test_proc fill PROC: sends until that fails, once it got SIGUSR1
    std::signal(SIGUSR1, [](int) { own_handler_ran = 1; });
    program.main([&](Proc& proc) {
      const auto to = *ProcId::parse(argv[2]);
      say("main");
      while (own_handler_ran == 0)
        std::this_thread::sleep_for(1ms);  // sleep-ok: waits for a signal, which wakes nothing else
      for (;;) {
        if (const auto sent = proc.send(to, 1, std::string(1000, 'x'), 200ms); !sent)
          return say(sent.error().to_string()), 0;
      }
    });
  } else if (mode == "pour") {  // sends to the next rank as fast as it can, until it is to stop
    program.main([](Proc& proc) {
      say("main");
      const auto next = (proc.rank() + 1) % proc.world_size();
      while (!proc.stop_requested()) {
        if (const auto sent = proc.send(next, 1, "x"); !sent)
          return say(sent.error().to_string()), 1;
      }
      return 5;
    });
  } else if (mode == "callers") {  // several threads call rank 1 at once, then main() for long
    program.main([](Proc& proc) {
      std::atomic<int> wrong = 0;
      std::vector<std::thread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&proc, &wrong, i] {
          for (int n = 0; n < 500; ++n) {
            const auto text = std::to_string(i) + " " + std::to_string(n);
            if (proc.call(1, 1, text, 20s) != text) ++wrong;
          }
        });
      }
      for (auto& thread : threads) thread.join();
      say("main, wrong answers: " + std::to_string(wrong));
      return proc.call(1, 12, "2000", 20s) ? 0 : 1;
    });
  } else if (mode == "talk") {
    program.on_undelivered([](Proc&, const Undelivered&) { ++talk.returned; });
    const bool is_mixed = argc > 2 && argv[2] == std::string("mixed");
    program.main([is_mixed](Proc& proc) { return talk.run(proc, is_mixed); });
  } else if (mode == "undelivered") {
    program.on_undelivered([](Proc&, const Undelivered& back) {
      say("came back: rank " + std::to_string(back.rank.value_or(999)) + " port " +
          std::to_string(back.port) + " " + std::string(to_string(back.error.code())));
    });
    program.main([](Proc& proc) {
      const auto sent = proc.send(1, 77, "hello");
      while (!proc.wait_for_stop(60s)) {
      }
      return sent ? 0 : 1;
    });
  } else if (mode == "twice") {
    program.main([](Proc&) {
      const auto again = bootstrap(ProcProgram().on(0, {}));
      say(again.error().to_string());
      say(bootstrap(ProcProgram()).error().to_string());
      return 0;
    });
  } else if (mode == "ask") {  // every way to call that fails at once
    program.main([](Proc& proc) {
      say("rank: " + proc.call(99, 1, "", 5s).error().to_string());
      say("later: " + proc.call_async(99, 1, "", 5s).get().error().to_string());
      say("send: " + proc.send(99, 1, "").error().to_string());
      say("large: " + proc.call(0, 1, std::string(2'000'000, 'x'), 5s).error().to_string());
      say("message: " + proc.send(0, 1, std::string(2'000'000, 'x')).error().to_string());
      say("deadline: " + proc.call(0, 12, "1000", 1ms).error().to_string());
      say("self: " + proc.call(0, 1, "myself", 10s).value_or("?"));
      return 0;
    });
  } else {
    return 2;
  }
  bootstrap_or_die(program);
}
