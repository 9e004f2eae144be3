// Programs that run in the launcher's process (spec 5.1), for tests.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshbus/actor.h"
#include "meshbus/local.h"
#include "tests/conformance/procs.h"

namespace meshbus::test::local_world {

using namespace std::chrono_literals;

/// What a test opens for threads of programs that would else not return.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, in_time, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

struct Counter : Actor {
  Counter(ActorContext&, std::string_view start) : total(std::stoi(std::string(start))) {
    on("add", [this](ActorContext&, const ActorMessage& message) {
      return std::to_string(total += std::stoi(std::string(message.body)));
    });
    on("throw", [](ActorContext&, const ActorMessage&) -> std::string {
      throw std::runtime_error("no checkpoint");
    });
  }
  int total;
};

/// An actor that keeps a call, and never answers it.
struct Keeper : Actor {
  Keeper(ActorContext&, std::string_view) {
    on("keep",
       [this](ActorContext& context, const ActorMessage&) { kept.push_back(context.defer()); });
  }
  std::vector<ActorReply> kept;
};

/// An actor whose handler does not return before the gate is open.
struct Stuck : Actor {
  explicit Stuck(const std::shared_ptr<Gate>& gate) {
    on("stick", [gate](ActorContext&, const ActorMessage&) { gate->wait(); });
  }
};

/// Answers on its ports until it is told to stop.
inline ProcProgram serve() {
  ProcProgram program;
  program.actor<Counter>("counter").actor<Keeper>("keeper");
  program.on(Port::echo, [](Proc&, const Incoming& call) { return std::string(call.body); });
  program.on(Port::place, [](Proc& proc, const Incoming&) {
    return std::to_string(proc.rank()) + " at " + proc.point().to_string();
  });
  // All around the ring, and back with the ranks on the way.
  program.on(Port::right, [](Proc& proc, const Incoming& call) -> Result<std::string> {
    const auto way = std::string(call.body) + std::to_string(proc.rank());
    if (proc.rank() + 1 == proc.world_size()) return way;
    return proc.call(proc.rank() + 1, Port::right, way, in_time);
  });
  return program;
}

inline ProcProgram with_main(std::function<int(Proc&)> body) {
  return serve().main(std::move(body));
}

/// Waits until it is to stop, as a main() should.
inline int mind(Proc& proc) {
  return proc.wait_for_stop(in_time) ? 0 : 9;
}

inline ProcSpec named(const std::string& name) {
  return {.kind = ProcKind::mesh, .command = {name}, .ready_limit = in_time};
}

inline HostMesh hosts_of(Context& context, LocalPrograms programs,
                         std::string_view hosts = "host=1") {
  return must(local_procs(context, std::move(programs), extent(hosts)));
}

inline std::size_t count_threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

inline bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace meshbus::test::local_world
