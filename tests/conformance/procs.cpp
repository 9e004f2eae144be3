#include "tests/conformance/procs.h"

#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "meshbus/actor.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

std::string name_of(const Proc& proc) {
  return std::string(proc.mesh().mesh().base()) + " " + std::to_string(proc.rank());
}

/// The ports `left` and `right`: the rank of that neighbour, or what it answers.
Result<std::string> relay(Proc& proc, const Incoming& call, const std::string& side) {
  const std::string text(call.body);
  if (text.empty()) return side + " of " + name_of(proc);
  const auto space = text.find(' ');
  const auto to = ProcId::parse(text.substr(0, space));
  if (!to) return fail(to.error());
  return proc.call(*to, static_cast<std::uint32_t>(std::stoul(text.substr(space + 1))), "", 20s);
}

template <typename T>
std::string code_of(const Result<T>& result) {
  return result ? "fine" : std::string(to_string(result.error().code()));
}

/// From a handler: whatever waits for this very proc.
std::string try_to_block(Proc& proc) {
  return "call " + code_of(proc.call(proc.rank(), Port::echo, "me", 5s)) + ", call by id " +
         code_of(proc.call(proc.id(), Port::echo, "me", 5s)) + ", cast " +
         code_of(proc.call(proc.mesh(), Port::echo, "us", 5s));
}

/// An actor that adds, and that tries to wait.
struct Adder : Actor {
  Adder(ActorContext&, std::string_view start) : total(std::stoi(std::string(start))) {
    on("add", [this](ActorContext&, const ActorMessage& message) {
      return std::to_string(total += std::stoi(std::string(message.body)));
    });
    on("block", [](ActorContext& self, const ActorMessage&) {
      auto& proc = self.proc();
      return "call " +
             code_of(proc.call((proc.rank() + 1) % proc.world_size(), Port::echo, "", 5s)) +
             ", cast " + code_of(proc.call(proc.mesh(), Port::echo, "", 5s));
    });
  }
  int total;
};

/// An actor whose constructor does not return in the ranks that its params name.
struct Sitter : Actor {
  Sitter(ActorContext& self, std::string_view ranks) {
    if (ranks.find(std::to_string(self.rank())) != std::string_view::npos) {
      for (;;) ::pause();
    }
  }
};

Result<std::string> setting_in(Proc& proc, std::string_view key) {
  const auto context = Context::create({.inherited = proc.launcher_settings()});
  if (!context) return fail(context.error());
  return context->setting(key);
}

/// Hosts that a proc has started, for as long as it lives.
class Grown {
 public:
  Result<std::string> grow(Proc& proc) {
    auto context = Context::create({.inherited = proc.launcher_settings()});
    if (!context) return fail(context.error());
    auto hosts = HostMesh::local(*context, of_this_build());
    if (!hosts) return fail(hosts.error());
    grown_.push_back(std::move(*hosts));
    return grown_.back().ref().to_string();
  }

  /// In order: a host that dies with its proc leaves its directory behind.
  void end() {
    for (auto& hosts : grown_) (void)hosts.shutdown(20s);
  }

 private:
  std::vector<HostMesh> grown_;
};

/// What the main() of each proc was told, by rank.
class Orders {
 public:
  /// Waits until it was taken.
  void give(std::uint64_t rank, std::string_view order) {
    std::unique_lock lock(mutex_);
    orders_[rank] = order;
    taken_.wait_for(lock, 20s, [&] { return orders_[rank].empty(); });
  }
  std::string take(std::uint64_t rank) {
    const std::lock_guard lock(mutex_);
    taken_.notify_all();
    return std::exchange(orders_[rank], "");
  }

 private:
  std::mutex mutex_;
  std::condition_variable taken_;
  std::map<std::uint64_t, std::string> orders_;
};

int follow(Proc& proc, Orders& orders) {
  while (!proc.wait_for_stop(10ms)) {
    const auto order = orders.take(proc.rank());
    if (order == "throw") throw std::runtime_error("told to");
    if (order == "exit") std::exit(9);
    while (order == "stick") ::pause();
    if (!order.empty()) return std::stoi(order);
  }
  return 0;
}

ProcProgram program(const std::shared_ptr<Grown>& grown) {
  return ProcProgram()
      .on(Port::echo, [](Proc&, const Incoming& call) { return std::string(call.body); })
      .on(Port::place,
          [](Proc& proc, const Incoming& call) {
            return name_of(proc) + " at " + proc.point().to_string() +
                   (call.point ? " as " + call.point->to_string() : "");
          })
      .on(Port::left, [](Proc& proc, const Incoming& call) { return relay(proc, call, "left"); })
      .on(Port::right, [](Proc& proc, const Incoming& call) { return relay(proc, call, "right"); })
      .on(Port::block, [](Proc& proc, const Incoming&) { return try_to_block(proc); })
      .on(Port::environ_of,
          [](Proc&, const Incoming& call) {
            const char* const value = std::getenv(std::string(call.body).c_str());
            return std::string(value == nullptr ? "-" : value);
          })
      .on(Port::die, [](Proc&, const Incoming&) { return std::to_string(std::raise(SIGKILL)); })
      .on(Port::grow, [grown](Proc& proc, const Incoming&) { return grown->grow(proc); })
      .on(Port::setting,
          [](Proc& proc, const Incoming& call) { return setting_in(proc, call.body); })
      .actor<Adder>("adder")
      .actor<Sitter>("sitter");
}

}  // namespace

int run_as_proc(int argc, char** argv) {
  ::alarm(150);  // whatever goes wrong
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string mode = arguments.empty() ? "serve" : arguments[0];
  const char* const variable = std::getenv("RANK");
  const std::string own = variable == nullptr ? "" : variable;
  const bool is_meant = std::find(arguments.begin(), arguments.end(), own) != arguments.end();
  if (mode == "hang" && is_meant) {
    for (;;) ::pause();
  }
  if (mode == "early" && is_meant) return 7;
  const auto grown = std::make_shared<Grown>();
  auto serving = program(grown);
  if (mode == "grow") serving.on_stop([grown](Proc&, const std::string&) { grown->end(); });
  if ((mode == "exit" || mode == "kill") && is_meant) {
    serving.main([mode](Proc&) { return mode == "kill" ? std::raise(SIGKILL) : 3; });
  }
  if (mode == "several") {
    const auto orders = std::make_shared<Orders>();
    serving.on(Port::leave, [orders](Proc& proc, const Incoming& call) {
      orders->give(proc.rank(), call.body);
      return std::string();
    });
    serving.on(Port::say, [](Proc&, const Incoming& call) {
      std::cout << call.body << std::flush;
      return std::string();
    });
    const bool is_deaf = arguments.size() > 1 && arguments[1] == "deaf";
    serving.main([orders, is_deaf](Proc& proc) {
      if (is_deaf) {
        for (;;) ::pause();
      }
      return follow(proc, *orders);
    });
  }
  if (mode == "main") {
    serving.main([](Proc& proc) {
      while (true) {
        (void)proc.wait_for_stop(60s);
        if (proc.stop_requested()) ::pause();  // and never ends
      }
      return 0;
    });
  }
  bootstrap_or_die(serving);
}

}  // namespace meshbus::test
