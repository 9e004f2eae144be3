// The floor under a poll: each of H children answers a request by one FlatBuffers vector with a
// struct for each of its ranks, over a DEALER. The parent asks over one ROUTER and stores the
// status of each rank. Usage: meshbus-floor-poll RANKS H POLLS. Prints the median and the 99th
// percentile of a poll of all children, in microseconds.
#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "wire/values_generated.h"

extern char** environ;

namespace {

namespace wire = meshbus::wire;
using Clock = std::chrono::steady_clock;

constexpr int kWaitMs = 60000;
constexpr std::uint8_t kRunning = static_cast<std::uint8_t>(wire::StatusKind::running);

/// Ranks begin to end-1, whose statuses are known to nobody else. Stays until it is killed, or its
/// parent is gone.
int child(const char* endpoint, std::uint64_t begin, std::uint64_t end) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::vector<std::uint8_t> statuses(end - begin, kRunning);
  zmq::context_t context;
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.connect(endpoint);
  dealer.send(zmq::str_buffer("hello"));
  flatbuffers::FlatBufferBuilder builder;
  for (zmq::message_t request; dealer.recv(request);) {
    builder.Clear();
    wire::RankRun* runs = nullptr;
    const auto vector =
        builder.CreateUninitializedVectorOfStructs<wire::RankRun>(statuses.size(), &runs);
    for (std::size_t i = 0; i < statuses.size(); ++i)
      runs[i] = wire::RankRun(begin + i, begin + i + 1, statuses[i], 0);
    const auto values = builder.CreateVector(std::vector<flatbuffers::Offset<wire::Status>>());
    builder.Finish(wire::CreateStatusOverlay(builder, values, vector));
    dealer.send(zmq::buffer(builder.GetBufferPointer(), builder.GetSize()), zmq::send_flags::none);
  }
  return 0;
}

pid_t start(char* program, std::string& endpoint, std::uint64_t begin, std::uint64_t end) {
  char verb[] = "child";
  std::string from = std::to_string(begin), to = std::to_string(end);
  char* argv[] = {program, verb, endpoint.data(), from.data(), to.data(), nullptr};
  pid_t pid = -1;
  if (::posix_spawn(&pid, program, nullptr, nullptr, argv, environ) != 0) std::exit(70);
  return pid;
}

/// What one child said, into the statuses of all. False when it is no such message.
bool merge(const zmq::message_t& answer, std::vector<std::uint8_t>& statuses) {
  flatbuffers::Verifier verifier(answer.data<std::uint8_t>(), answer.size());
  if (!verifier.VerifyBuffer<wire::StatusOverlay>(nullptr)) return false;
  const auto* const overlay = flatbuffers::GetRoot<wire::StatusOverlay>(answer.data());
  if (overlay->runs() == nullptr) return false;
  for (const auto* run : *overlay->runs()) {
    if (run->begin() >= statuses.size()) return false;
    statuses[run->begin()] = static_cast<std::uint8_t>(run->value());
  }
  return true;
}

double poll(zmq::socket_t& router, const std::vector<std::string>& ids,
            std::vector<std::uint8_t>& statuses) {
  std::fill(statuses.begin(), statuses.end(), std::uint8_t{0});
  const auto begin = Clock::now();
  for (const auto& id : ids) {
    router.send(zmq::buffer(id), zmq::send_flags::sndmore);
    router.send(zmq::str_buffer("poll"), zmq::send_flags::none);
  }
  for (std::size_t heard = 0; heard < ids.size(); ++heard) {
    zmq::message_t id, answer;
    if (!router.recv(id) || !router.recv(answer) || !merge(answer, statuses)) std::exit(70);
  }
  const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
  if (std::count(statuses.begin(), statuses.end(), kRunning) !=
      static_cast<std::ptrdiff_t>(statuses.size()))
    std::exit(70);
  return took.count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "child")
    return child(argv[2], std::strtoull(argv[3], nullptr, 10), std::strtoull(argv[4], nullptr, 10));
  const std::uint64_t ranks = argc == 4 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const std::uint64_t hosts = argc == 4 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const int polls = argc == 4 ? std::atoi(argv[3]) : 0;
  if (ranks < 1 || hosts < 1 || hosts > ranks || polls < 1) {
    std::fprintf(stderr, "usage: meshbus-floor-poll RANKS H POLLS\n");
    return 64;
  }
  char program[] = "/proc/self/exe";
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::linger, 0);
  router.set(zmq::sockopt::rcvtimeo, kWaitMs);
  std::string endpoint = "ipc://@meshbus-floor-poll-" + std::to_string(::getpid());
  router.bind(endpoint);
  std::vector<pid_t> children;
  for (std::uint64_t i = 0; i < hosts; ++i)
    children.push_back(start(program, endpoint, i * ranks / hosts, (i + 1) * ranks / hosts));
  std::vector<std::string> ids;
  for (std::uint64_t i = 0; i < hosts; ++i) {
    zmq::message_t id, hello;
    if (!router.recv(id) || !router.recv(hello)) return 70;
    ids.push_back(id.to_string());
  }
  std::vector<std::uint8_t> statuses(ranks);
  std::vector<double> times;
  for (int i = 0; i < polls; ++i) times.push_back(poll(router, ids, statuses));
  std::sort(times.begin(), times.end());
  std::printf("%.1f %.1f\n", times[times.size() / 2], times[times.size() * 99 / 100]);
  std::fflush(stdout);
  for (const pid_t pid : children) ::kill(pid, SIGKILL);
  for (const pid_t pid : children) ::waitpid(pid, nullptr, 0);
}
