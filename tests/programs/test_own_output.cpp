// A mesh program that reads its own output back (spec 6.3): exits 0 when it has read what it wrote.
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <string>

#include "meshbus/client.h"
#include "meshbus/proc.h"

using namespace std::chrono_literals;
using namespace meshbus;

namespace {

int read_own_output(Proc& proc) {
  std::mutex mutex;
  std::condition_variable changed;
  std::string read;
  std::cout << "before " << proc.rank() << std::endl;
  auto context = Context::create({.inherited = proc.launcher_settings()});
  if (!context) return std::cerr << context.error().to_string() << std::endl, 1;
  const auto stream = ProcRef(proc.id()).logs(
      *context, {.err = false, .tail = LogOptions::everything, .follow = true},
      {.on_piece =
           [&](const LogPiece& piece) {
             const std::lock_guard lock(mutex);
             read += piece.bytes;
             changed.notify_all();
           },
       .on_end =
           [](const Result<void>& end) {
             std::cerr << (end ? "ended" : end.error().to_string()) << std::endl;
           }});
  if (!stream) return std::cerr << stream.error().to_string() << std::endl, 1;
  const auto reads = [&](const std::string& text) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 30s, [&] { return read == text; });
  };
  const auto rank = std::to_string(proc.rank());
  if (!reads("before " + rank + "\n")) return 2;
  std::cout << "after " << rank << std::endl;
  return reads("before " + rank + "\nafter " + rank + "\n") ? 0 : 3;
}

}  // namespace

int main() {
  ProcProgram program;
  program.main(read_own_output);
  bootstrap_or_die(program);
}
