// A rank of a job that hangs:
//
//     test_hang ODD HOW
//
// All ranks say "up" and wait in reduce_all(). Rank ODD instead hangs as HOW says:
//
//     read   in wait_for_data(), for a pipe to which nobody writes
//     lock   in update_table(), for a mutex that its thread "saver" holds
//     spin   in solve(), in a loop that does not end
//     vfork  in start_tool(): the kernel does not let it go, and no signal stops it
//
// With HOW "none" all of them do the same, and with "beat" ODD says for 8 s that it makes progress,
// and ends. They end after ten minutes.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>

namespace {

std::mutex table;
std::atomic<bool> is_held = false;
std::atomic<unsigned long> work = 0;

void sleep_on() {
  for (;;) ::pause();
}

}  // namespace

extern "C" {

[[gnu::noinline]] void wait_for_data() {
  int ends[2];
  char byte = 0;
  if (::pipe2(ends, O_CLOEXEC) == 0 && ::read(ends[0], &byte, 1) == 1) work += 1;
  work += 1;
}

[[gnu::noinline]] void update_table() {
  std::thread([] {
    pthread_setname_np(pthread_self(), "saver");
    const std::lock_guard lock(table);
    is_held = true;
    sleep_on();
  }).detach();
  while (!is_held) std::this_thread::yield();
  const std::lock_guard lock(table);
  work += 1;
}

[[gnu::noinline]] void solve() {
  for (;;) work += 1;
}

[[gnu::noinline]] void start_tool() {
  // The parent waits until its child ends or becomes another program, and this one does neither.
  if (::vfork() == 0) {
    ::alarm(600);
    for (;;) ::pause();
  }
  work += 1;
}

[[gnu::noinline]] void beat() {
  for (int i = 0; i < 20; ++i) {
    ::close(
        ::open(std::getenv("MESHBUS_PROGRESS"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // sleep-ok: this is the pace
  }
  std::exit(0);
}

[[gnu::noinline]] void reduce_all() {
  for (;;) ::pause();
}

}  // extern "C"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const char* const rank = std::getenv("RANK");
  const std::string_view how = argv[2];
  ::alarm(600);
  std::puts("up");
  std::fflush(stdout);
  if (rank == nullptr || std::string_view(rank) != argv[1]) reduce_all();
  if (how == "read") wait_for_data();
  if (how == "lock") update_table();
  if (how == "spin") solve();
  if (how == "vfork") start_tool();
  if (how == "beat") beat();
  reduce_all();
}
