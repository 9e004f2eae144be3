// The floor under many peers of one broker: N DEALERs in processes of 4000 at most, of one bare
// ROUTER. Usage: meshbus-floor-crowd N ROUNDS. Prints the milliseconds from the word to begin to
// the last hello that was answered, the KiB of memory that the ROUTER's process took for each, and
// the microseconds (median of ROUNDS) from the first of 64 bytes to each of them to the last one's
// arrival, of which each process tells.
#include <fcntl.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <zmq.hpp>

extern char** environ;

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWaitMs = 60000;
constexpr std::size_t kMostPerProcess = 4000;

void raise_descriptor_limit() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

/// Waits for a byte from the parent, opens its sockets, hears an answer on each, says "u"; then,
/// whenever all of them have got another message, says so by the last one. Its end is that of its
/// parent.
int child(const char* endpoint, std::size_t count) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  raise_descriptor_limit();
  char byte = 0;
  if (::read(0, &byte, 1) != 1) return 70;
  zmq::context_t context;
  context.set(zmq::ctxopt::max_sockets, static_cast<int>(count + 16));
  std::vector<std::unique_ptr<zmq::socket_t>> dealers;
  for (std::size_t i = 0; i < count; ++i) {
    auto& dealer =
        *dealers.emplace_back(std::make_unique<zmq::socket_t>(context, zmq::socket_type::dealer));
    dealer.set(zmq::sockopt::linger, 0);
    dealer.set(zmq::sockopt::rcvtimeo, kWaitMs);
    dealer.connect(endpoint);
    dealer.send(zmq::str_buffer("hello"), zmq::send_flags::none);
  }
  zmq::message_t message;
  for (const auto& dealer : dealers) {
    if (!dealer->recv(message)) return 70;
  }
  if (::write(1, "u", 1) != 1) return 70;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  for (std::size_t i = 0; i < count; ++i) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = i;
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, dealers[i]->get(zmq::sockopt::fd), &event) != 0)
      return 70;
  }
  std::size_t received = 0;
  const auto drain = [&](zmq::socket_t& dealer) {
    while (dealer.recv(message, zmq::recv_flags::dontwait)) {
      if (++received % count == 0) dealer.send(zmq::str_buffer("all"), zmq::send_flags::none);
    }
  };
  for (const auto& dealer : dealers) drain(*dealer);
  for (;;) {
    epoll_event events[256];
    const int ready = ::epoll_wait(epoll, events, 256, -1);
    for (int i = 0; i < ready; ++i) drain(*dealers[events[i].data.u64]);
  }
}

struct Process {
  pid_t pid;
  int in, out;
};

Process start(std::string endpoint, std::size_t count) {
  char program[] = "/proc/self/exe", verb[] = "child";
  std::string number = std::to_string(count);
  char* argv[] = {program, verb, endpoint.data(), number.data(), nullptr};
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) std::exit(70);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, to[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, from[1], 1);
  pid_t pid = -1;
  if (::posix_spawn(&pid, program, &actions, nullptr, argv, environ) != 0) std::exit(70);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(to[0]);
  ::close(from[1]);
  return {pid, to[1], from[0]};
}

double resident_kib() {
  std::size_t total = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%zu %zu", &total, &resident) != 2) std::exit(70);
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1024;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "child")
    return child(argv[2], std::strtoul(argv[3], nullptr, 10));
  const std::size_t count = argc == 3 ? std::strtoul(argv[1], nullptr, 10) : 0,
                    rounds = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 0;
  if (count < 1 || rounds < 1) {
    std::fprintf(stderr, "usage: meshbus-floor-crowd N ROUNDS\n");
    return 64;
  }
  raise_descriptor_limit();
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::linger, 0);
  router.set(zmq::sockopt::backlog, 4096);
  router.set(zmq::sockopt::rcvtimeo, kWaitMs);
  const std::string endpoint = "ipc://@meshbus-floor-crowd-" + std::to_string(::getpid());
  router.bind(endpoint);
  std::vector<Process> processes;
  for (std::size_t begin = 0; begin < count; begin += kMostPerProcess)
    processes.push_back(start(endpoint, std::min(kMostPerProcess, count - begin)));

  const double before = resident_kib();
  auto begin = Clock::now();
  for (const Process& process : processes) {
    if (::write(process.in, "g", 1) != 1) return 70;
  }
  std::vector<std::string> ids;
  ids.reserve(count);
  while (ids.size() < count) {
    zmq::message_t id, hello;
    if (!router.recv(id) || !router.recv(hello)) return 70;
    ids.push_back(id.to_string());
    router.send(id, zmq::send_flags::sndmore);
    router.send(hello, zmq::send_flags::none);
  }
  for (const Process& process : processes) {
    char byte = 0;
    if (::read(process.out, &byte, 1) != 1) return 70;
  }
  const double took = milliseconds_since(begin);
  const double kib = (resident_kib() - before) / static_cast<double>(count);
  std::vector<double> times;
  for (std::size_t round = 0; round < rounds + 3; ++round) {
    begin = Clock::now();
    for (const auto& id : ids) {
      router.send(zmq::buffer(id), zmq::send_flags::sndmore);
      router.send(zmq::message_t(64), zmq::send_flags::none);
    }
    for (std::size_t heard = 0; heard < processes.size(); ++heard) {
      zmq::message_t id, all;
      if (!router.recv(id) || !router.recv(all)) return 70;
    }
    if (round >= 3) times.push_back(1000 * milliseconds_since(begin));
  }
  std::sort(times.begin(), times.end());
  std::printf("%.3f %.3f %.3f\n", took, kib, times[times.size() / 2]);
  std::fflush(stdout);
  for (const Process& process : processes) ::kill(process.pid, SIGKILL);
  for (const Process& process : processes) ::waitpid(process.pid, nullptr, 0);
}
