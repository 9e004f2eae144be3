#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshbus::cli {

/// What `meshbus bench VERB` is told. Large because: it has a member for each option.
struct BenchArguments {
  /// The last two are the processes that the others start.
  enum class Verb { rtt, throughput, fanout, cast, link, peers, end, crowd, member };
  Verb verb = Verb::rtt;
  /// Running ones; empty: brokers of its own.
  std::vector<std::string> hosts;
  std::vector<std::size_t> sizes;
  /// Round trips, or messages to all.
  std::size_t count = 0;
  std::chrono::milliseconds duration{1000};
  std::size_t peers = 0;
  bool flush = false;
  /// Own brokers are linked by unix sockets, not by tcp.
  bool is_unix = false;
  /// Own brokers are linked by tcp with keys.
  bool is_curve = false;
  std::optional<int> cpu;
  bool json = false;
  std::string endpoint;
  std::size_t quarter = 0;
  std::uint64_t seed = 0;
  std::size_t begin = 0;
};

using BenchVerb = BenchArguments::Verb;

}  // namespace meshbus::cli
