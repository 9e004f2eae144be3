// The floor under the start of mesh procs: N children with a DEALER each that says hello to one
// ROUTER and hears an answer. Usage: meshbus-floor-hello N [CASTS]. Prints the milliseconds from
// the first birth to the last hello; with CASTS then those of so many rounds, the median, in which
// each child is sent 64 bytes and answers with them: the floor under casts.
#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <zmq.hpp>

extern char** environ;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWaitMs = 60000;

/// Says hello, hears the answer, and stays until it is killed, or its parent is gone: nobody writes
/// to stdin. With `is_echo` it sends back what comes meanwhile.
int child(const char* endpoint, bool is_echo) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  zmq::context_t context;
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::rcvtimeo, kWaitMs);
  dealer.connect(endpoint);
  dealer.send(zmq::str_buffer("hello"));
  zmq::message_t answer;
  if (!dealer.recv(answer)) return 70;
  while (is_echo && dealer.recv(answer)) dealer.send(answer, zmq::send_flags::none);
  char none = 0;
  return ::read(0, &none, 1) == 0 ? 0 : 70;
}

pid_t start(char* program, std::string& endpoint, int in, bool is_echo) {
  char verb[] = "child";
  char echo[] = "echo";
  char* argv[] = {program, verb, endpoint.data(), is_echo ? echo : nullptr, nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in, 0);
  pid_t pid = -1;
  if (::posix_spawn(&pid, program, &actions, nullptr, argv, environ) != 0) std::exit(70);
  ::posix_spawn_file_actions_destroy(&actions);
  return pid;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 3 && std::string(argv[1]) == "child") return child(argv[2], argc == 4);
  const int count = argc >= 2 ? std::atoi(argv[1]) : 0;
  const int casts = argc == 3 ? std::atoi(argv[2]) : 0;
  if (count < 1) {
    std::fprintf(stderr, "usage: meshbus-floor-hello N [CASTS]\n");
    return 64;
  }
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  char program[] = "/proc/self/exe";
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::linger, 0);
  router.set(zmq::sockopt::backlog, 4096);
  router.set(zmq::sockopt::rcvtimeo, kWaitMs);
  std::string endpoint = "ipc://@meshbus-floor-hello-" + std::to_string(::getpid());
  router.bind(endpoint);
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return 70;
  std::vector<pid_t> children;
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) children.push_back(start(program, endpoint, ends[0], casts > 0));
  std::vector<std::string> ids;
  for (int heard = 0; heard < count; ++heard) {
    zmq::message_t id, hello;
    if (!router.recv(id) || !router.recv(hello)) return 70;
    ids.push_back(id.to_string());
    router.send(id, zmq::send_flags::sndmore);
    router.send(hello, zmq::send_flags::none);
  }
  const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
  std::printf("%.3f\n", took.count());
  std::vector<double> rounds;
  for (int i = 0; i < casts; ++i) {
    const auto sent = Clock::now();
    for (const auto& id : ids) {
      router.send(zmq::buffer(id), zmq::send_flags::sndmore);
      router.send(zmq::message_t(64), zmq::send_flags::none);
    }
    for (int heard = 0; heard < count; ++heard) {
      zmq::message_t id, answer;
      if (!router.recv(id) || !router.recv(answer)) return 70;
    }
    rounds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - sent).count());
  }
  std::sort(rounds.begin(), rounds.end());
  if (casts > 0) std::printf("%.3f\n", rounds[rounds.size() / 2]);
  std::fflush(stdout);
  for (const pid_t pid : children) ::kill(pid, SIGKILL);
  for (const pid_t pid : children) ::waitpid(pid, nullptr, 0);
}
