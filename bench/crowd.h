#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/child.h"
#include "bench/traffic.h"
#include "meshbus/address.h"

/// Many peers of one broker, in as many processes as their descriptors need.
namespace meshbus::bench {

/// Names of peers follow from a number that is drawn once, so that nobody has to tell them.
ProcName crowd_name(std::uint64_t seed, std::size_t index);

/// A process of a crowd (`meshbus bench crowd ENDPOINT SEED BEGIN COUNT`): says "ready"; when told
/// to go on, registers its peers and says "up HOST"; whenever all of them have got another message
/// it says so to the sender of the last one; ends with stdin. Peers are bare sockets: what is
/// measured is the broker.
int run_crowd_process(const std::string& endpoint, std::uint64_t seed, std::size_t begin,
                      std::size_t count);

/// One descriptor for each peer, of ours, and one of the broker's. Throws std::runtime_error,
/// saying which limit is too low, when that many cannot be had. `broker`: its process; 0 = not
/// known.
void check_descriptors(std::size_t peers, pid_t broker);

class Crowd {
 public:
  /// Starts the processes; nobody is registered yet. Each is `own_folder() + program` with the
  /// words above.
  Crowd(std::vector<std::string> program, const std::string& endpoint, std::size_t peers);
  /// Registers all of them; how long that took.
  std::chrono::nanoseconds join();
  std::size_t processes() const noexcept { return processes_.size(); }
  std::vector<pid_t> pids() const;
  /// After join().
  std::vector<ProcId> peers() const;

 private:
  std::uint64_t seed_;
  std::size_t count_;
  std::optional<HostAddr> host_;
  std::vector<std::unique_ptr<Child>> processes_;
};

struct FanOutFigures {
  double p50_us = 0;
  double p99_us = 0;
  double per_s = 0;
  std::optional<double> cpu_us = {};
};
/// One message to each peer of the crowd, `count` times, each time until all have it.
FanOutFigures fan_out(const Crowd& crowd, const std::string& endpoint, const CpuMeter& cpu,
                      std::size_t size, std::size_t count);

/// Resident memory of a process, in bytes.
std::size_t memory_of(pid_t pid);

}  // namespace meshbus::bench
