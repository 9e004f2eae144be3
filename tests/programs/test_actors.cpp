// A mesh program with actors of every kind that the tests ask for.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "meshbus/actor_flatbuffers.h"

#include "wire/types_generated.h"

using namespace std::chrono_literals;
using namespace meshbus;

namespace {

void say(const std::string& line) {
  std::cerr << line + "\n" << std::flush;
}

/// Counts, remembers, fails and kills on request.
class Counter : public Actor {
 public:
  Counter(ActorContext& context, std::string_view start) : total_(std::stoll(std::string(start))) {
    on("add", &Counter::add);
    on(7, [this](ActorContext&, const ActorMessage&) { return std::to_string(total_); });
    on("where", [](ActorContext& self, const ActorMessage&) {
      return std::to_string(self.rank()) + " " + self.id().to_string();
    });
    on("note", [this](ActorContext&, const ActorMessage& message) {
      notes_ += std::string(message.body) + " ";
    });
    on("measure", [this](ActorContext&, const ActorMessage& message) {
      notes_ += std::to_string(message.body.size()) + " ";
    });
    // Sends its right neighbour a note, a large message, and notes behind it.
    on("send right", [](ActorContext& self, const ActorMessage& message) -> Result<std::string> {
      const auto peers = self.peers();
      const auto right = *peers.actor_at((self.proc().rank() + 1) % peers.num_ranks());
      const std::string large(std::stoull(std::string(message.body)), 'x');
      for (const char* const note : {"a", "", "b", "", "c"}) {
        const bool is_note = *note != '\0';
        const auto sent = self.send(right, is_note ? "note" : "measure", is_note ? note : large);
        if (!sent) return fail(sent.error());
      }
      return "sent";
    });
    on("notes", [this](ActorContext&, const ActorMessage&) { return notes_; });
    on("refuse", [](ActorContext&, const ActorMessage&) -> Result<std::string> {
      return fail(ErrorCode::out_of_range, "not that much");
    });
    on("throw", [](ActorContext&, const ActorMessage& message) -> Result<std::string> {
      try {
        try {
          throw std::runtime_error("disk full");
        } catch (...) {
          std::throw_with_nested(std::runtime_error("cannot write"));
        }
      } catch (...) {
        std::throw_with_nested(std::runtime_error(std::string(message.body)));
      }
    });
    on("table",
       flat<wire::KeyValue>([](ActorContext&, const ActorMessage&, const wire::KeyValue& pair) {
         return pair.key()->str() + " is " + pair.value()->str();
       }));
    on("throw an int", [](ActorContext&, const ActorMessage&) { throw 4; });
    on("kill", [](ActorContext&, const ActorMessage&) { std::raise(SIGKILL); });
    on("exit", [](ActorContext&, const ActorMessage& message) {
      std::exit(std::stoi(std::string(message.body)));
    });
    on("sleep", [](ActorContext&, const ActorMessage& message) {
      say("sleeps");
      const std::chrono::milliseconds time(std::stoi(std::string(message.body)));
      std::this_thread::sleep_for(time);  // sleep-ok: a slow handler is what the test is about
      return std::string("slept");
    });
    on("answer", &Counter::answer);
    on("stop", [](ActorContext& self, const ActorMessage& message) {
      self.stop(std::string(message.body));
    });
    say("made " + context.id().to_string());
  }
  ~Counter() override { say("destroyed"); }
  void on_stop(ActorContext& context, const std::string& reason) override {
    say("on_stop of " + std::to_string(context.rank()) + " at " + std::to_string(total_) + ": " +
        reason);
  }

 private:
  std::string add(ActorContext&, const ActorMessage& message) {
    return std::to_string(total_ += std::stoll(std::string(message.body)));
  }

  /// Each rank does as its part of the body says: "5|abc|sleep|fail|throw|die|later".
  Result<std::string> answer(ActorContext& self, const ActorMessage& message) {
    std::string_view rest = message.body;
    for (std::uint64_t rank = 0; rank < self.rank(); ++rank)
      rest.remove_prefix(std::min(rest.find('|') + 1, rest.size()));
    const std::string word(rest.substr(0, rest.find('|')));
    if (word == "sleep") {
      say("sleeps");
      std::this_thread::sleep_for(40s);  // sleep-ok: nobody waits for it so long
    } else if (word == "fail") {
      return fail(ErrorCode::out_of_range, "not that much");
    } else if (word == "throw") {
      throw std::runtime_error("boom");
    } else if (word == "die") {
      std::raise(SIGKILL);
    } else if (word == "large") {
      return std::string(300 * 1024, '7');
    } else if (word == "later") {
      later_.push_back(self.defer());
      return "";
    } else if (word == "now") {
      for (const auto& reply : later_) reply.answer(std::to_string(later_.size()));
    }
    return word + (message.is_call ? "" : " nobody asked");
  }

  long long total_;
  std::string notes_;
  std::vector<ActorReply> later_;
};

/// What needs other actors, time and children.
class Social : public Actor {
 public:
  Social(ActorContext&, std::string_view) {
    // Asks the actor of its own name on its right, and answers with what that says.
    on("ask right", [](ActorContext& self, const ActorMessage& message) {
      const auto peers = self.peers();
      const auto right = peers.actor_at((self.proc().rank() + 1) % peers.num_ranks());
      auto reply = self.defer();
      self.call_async(*right, "echo", message.body, 10s,
                      [reply](ActorContext& me, Result<std::string> answer) {
                        if (!answer) return reply.fail(answer.error());
                        reply.answer(std::to_string(me.rank()) + " heard " + *answer);
                      });
    });
    on("ask nobody", [](ActorContext& self, const ActorMessage&) {
      auto reply = self.defer();
      self.call_async(
          ActorId(self.id().proc(), *Name::plain("nobody")), 1, "", 10s,
          [reply](ActorContext&, Result<std::string> answer) { reply.fail(answer.error()); });
    });
    on("forget", [](ActorContext& self, const ActorMessage&) { self.defer(); });
    on("wait for myself", [](ActorContext& self, const ActorMessage&) {
      return self.proc().call(self.rank(), 1, "", 1s);
    });
    on("echo", [](ActorContext& self, const ActorMessage& message) {
      return std::to_string(self.rank()) + " " + std::string(message.body) +
             (message.source_actor == actor_port(self.id().name()) ? " from a peer" : "");
    });
    // To itself, later.
    on("tick", [this](ActorContext& self, const ActorMessage& message) {
      const auto late = self.send_after(20ms, "tock", message.body);
      const auto never = self.send_after(40ms, "tock", "never");
      if (late && never) self.cancel(*never);
      return std::to_string(tocks_.size());
    });
    on("tock",
       [this](ActorContext&, const ActorMessage& message) { tocks_ += std::string(message.body); });
    on("tocks", [this](ActorContext&, const ActorMessage&) { return tocks_; });
    // Children.
    on("spawn", [this](ActorContext& self, const ActorMessage& message) -> Result<std::string> {
      const std::string text(message.body);
      const auto space = text.find(' ');
      auto child = self.spawn(text.substr(0, space),
                              space == std::string::npos ? "" : text.substr(space + 1));
      if (!child) return fail(child.error());
      children_.push_back(*child);
      return child->to_string();
    });
    on("tell child", [this](ActorContext& self, const ActorMessage& message) {
      return self.send(children_.back(), "throw", message.body).has_value() ? "sent" : "not sent";
    });
    on("forgive", [this](ActorContext&, const ActorMessage&) { forgives_ = true; });
    on("despair", [this](ActorContext&, const ActorMessage&) { despairs_ = true; });
    on("failures", [this](ActorContext&, const ActorMessage&) { return failures_; });
    // "COUNT ACTOR"
    on("flood", [](ActorContext& self, const ActorMessage& message) -> Result<std::string> {
      const std::string text(message.body);
      const auto to = ActorId::parse(text.substr(text.find(' ') + 1));
      if (!to) return fail(to.error());
      for (int i = 0; i < std::stoi(text); ++i) {
        if (auto sent = self.send(*to, "note", std::to_string(i)); !sent) return fail(sent.error());
      }
      return "sent";
    });
    on("exhaust", [](ActorContext& self, const ActorMessage& message) {
      int sent = 0;
      while (self.send_after(60s, "tock", message.body)) ++sent;
      return std::to_string(sent);
    });
  }
  bool on_child_failed(ActorContext&, const ActorFailure& failure) override {
    failures_ += failure.actor.name().to_string() + "[" + std::to_string(failure.actor.pid()) +
                 "] " + failure.message + ": " + failure.error + " ";
    if (despairs_) throw std::runtime_error("that is too much");
    return forgives_;
  }
  void on_stop(ActorContext&, const std::string&) override { say("parent stops"); }

 private:
  std::string tocks_, failures_;
  std::vector<ActorId> children_;
  bool forgives_ = false;
  bool despairs_ = false;
};

/// Says when it goes.
struct Child : Actor {
  explicit Child(ActorContext& context, std::string_view) : number(context.id().pid()) {
    on("throw", [](ActorContext&, const ActorMessage& message) {
      throw std::runtime_error(std::string(message.body));
    });
  }
  void on_stop(ActorContext&, const std::string& reason) override {
    say("child " + std::to_string(number) + " stops: " + reason);
  }
  std::uint64_t number;
};

/// One rank cannot be made.
struct Fragile : Actor {
  Fragile(ActorContext& context, std::string_view params) {
    if (params == "all" || std::to_string(context.rank()) == params)
      throw std::invalid_argument("no such model");
    on(1, [](ActorContext&, const ActorMessage&) { return "fine"; });
  }
};

struct Dies : Actor {
  Dies(ActorContext& context, std::string_view) {
    if (context.rank() == 1) std::raise(SIGKILL);
  }
};

struct Twice : Actor {
  Twice() {
    on("same", [](ActorContext&, const ActorMessage&) {});
    on("same", [](ActorContext&, const ActorMessage&) {});
  }
};

struct BadEnd : Actor {
  void on_stop(ActorContext&, const std::string&) override {
    throw std::runtime_error("cannot let go");
  }
};

}  // namespace

int main(int argc, char** argv) {
  ::alarm(120);  // whatever goes wrong
  ProcProgram program;
  program.actor<Counter>("counter")
      .actor<Counter>("small", {.mailbox_count = 5, .mailbox_bytes = 2000})
      .actor<Social>("social", {.mailbox_count = 100, .mailbox_bytes = 1'000'000})
      .actor<Child>("child")
      .actor<Fragile>("fragile")
      .actor<Dies>("dies")
      .actor<Twice>("twice")
      .actor<BadEnd>("bad_end");
  if (argc > 1 && std::string(argv[1]) == "one-thread") program.actor_threads(1);
  if (argc > 1 && std::string(argv[1]) == "bad") program.actor<Child>("no spaces");
  if (argc > 1 && std::string(argv[1]) == "main") {
    program.main([](Proc& proc) {
      while (!proc.wait_for_stop(60s)) {
      }
      return 5;
    });
  }
  program.on(1, [](Proc&, const Incoming& call) { return std::string(call.body); });
  program.on_undelivered(
      [](Proc&, const Undelivered& back) { say("came back: " + back.error.to_string()); });
  bootstrap_or_die(program);
}
