// A program that has a main loop of its own becomes a rank by join(): it makes as many steps as it
// is told, or until it is to stop, and asks its right neighbour in between how far that is.
//   meshbus run --mesh --per-host ranks=4 -- ./main_loop 100
#include <meshbus/proc.h>

#include <atomic>
#include <iostream>
#include <string>

using namespace meshbus;
using namespace std::chrono_literals;

int main(int argc, char** argv) {
  const std::uint64_t most = argc > 1 ? std::stoull(argv[1]) : 10;
  static std::atomic<std::uint64_t> steps{0};  // handlers run until the process has ended
  ProcProgram program;
  program.on(1, [](Proc&, const Incoming&) { return std::to_string(steps.load()); });
  const auto joined = join(program);
  if (!joined) {
    std::cerr << "main_loop: " << joined.error().to_string() << std::endl;
    return 78;
  }
  Proc& proc = **joined;
  const auto right = (proc.rank() + 1) % proc.world_size();
  while (steps < most && !proc.stop_requested()) {
    ++steps;
    const auto answer = proc.call(right, 1, "", 10s);
    // One that is done already has left, and one that has not begun is not there yet.
    if (answer && std::stoull(*answer) > steps + 10)
      std::cout << "rank " + std::to_string(proc.rank()) + " is far behind its neighbour\n";
  }
  std::cout << "rank " + std::to_string(proc.rank()) + " has made " + std::to_string(steps) +
                   " steps\n"
            << std::flush;
  const auto stop = proc.stop_request();
  return stop ? stop->code : 0;
}
