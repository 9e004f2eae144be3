// The smallest mesh program that serves others: it answers calls until it is told to stop.
//
//     meshbus run --mesh -n 4 -- ./echo_proc
//
// Port 1 answers with the text that it was sent, port 2 with the proc's own id, port 3 passes
// "RANK TEXT" on to port 1 of another rank.
#include <meshbus/proc.h>

#include <charconv>
#include <iostream>
#include <string>

using namespace std::chrono_literals;
using meshbus::Incoming;
using meshbus::Proc;
using meshbus::Result;

int main() {
  meshbus::ProcProgram program;
  program.on(1, [](Proc&, const Incoming& call) { return std::string(call.body); })
      .on(2,
          [](Proc& proc, const Incoming&) {
            return "rank " + std::to_string(proc.rank()) + " of " +
                   std::to_string(proc.world_size());
          })
      .on(3,
          [](Proc& proc, const Incoming& call) -> Result<std::string> {
            std::uint64_t rank = 0;
            const char* end = call.body.data() + call.body.size();
            const auto [text, error] = std::from_chars(call.body.data(), end, rank);
            if (error != std::errc() || text == end)
              return meshbus::fail(meshbus::ErrorCode::parse_error, "expected RANK TEXT");
            return proc.call(rank, 1, std::string(text + 1, end), 5s);
          })
      .on_stop([](Proc& proc, const std::string& reason) {
        std::cerr << "rank " << proc.rank() << " stops: " << reason << std::endl;
      });
  meshbus::bootstrap_or_die(program);
}
