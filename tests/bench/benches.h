#pragma once

#include <cstddef>
#include <vector>

#include "tests/bench/comparison.h"

/// The benchmarks of meshbus-bench. Each returns an exit code; the numbers of bars are those that
/// the design asks for.
namespace meshbus::bench {

struct Amounts {
  /// Bytes of a message, or procs: three sizes at least to fit a cost over.
  std::vector<std::size_t> sizes;
  /// Round trips or kills in a round.
  std::size_t count = 0;
  /// Milliseconds that messages flow in a round, or that a host is watched; what presses does so
  /// for as long at least.
  std::size_t duration_ms = 1000;
  /// Milliseconds between two kills.
  std::size_t pause_ms = 0;
  /// Ranks on one host at most; 0: that is not asked.
  std::size_t per_host = 0;
  /// The ends are on tcp instead of unix sockets.
  bool is_tcp = false;
  /// What keys cost on a link, instead of all of the bus.
  bool is_curve = false;
};

/// Round trip of a message between two processes through one broker, or through two.
int run_rtt(const Settings& settings, const Amounts& amounts, bool is_two);
/// Messages in one direction through one broker.
int run_rate(const Settings& settings, const Amounts& amounts);
/// One measurement by meshbus-bench-public, in processes of its own.
Figures by_program(const std::string& what, std::size_t size, std::size_t amount);

/// Bodies that are larger than a message may be.
int run_large(const Settings& settings, const Amounts& amounts);

/// What programs get that are written with the public libraries.
int run_public(const Settings& settings, const Amounts& amounts);
/// The same, and round trips, over a link that resumes, beside one that keeps nothing.
int run_link(const Settings& settings, const Amounts& amounts);
/// All of these, and many peers of one broker; or a link with keys beside one without.
int run_bus(const Settings& settings, const Amounts& amounts);
int run_peers(const Settings& settings, const Amounts& amounts);
/// The case that run_bus and run_peers share.
Case peers_case(std::size_t peers, std::size_t count);
/// Control messages to a reader that is flooded.
int run_flood(const Settings& settings, const Amounts& amounts);
/// Two peers of a broker that have nothing to do with a slow reader there.
int run_bystander(const Settings& settings, const Amounts& amounts);
/// Many short-lived procs.
int run_launch(const Settings& settings, const Amounts& amounts);
/// Many procs that are there at once.
int run_crowd(const Settings& settings, const Amounts& amounts);
/// The same, looked at.
int run_usage(const Settings& settings, const Amounts& amounts);
/// The same, seen as a site.
int run_site(const Settings& settings, const Amounts& amounts);
/// Mesh procs, to the last one's Ready.
int run_ready(const Settings& settings, const Amounts& amounts);
/// One message to every rank of a mesh.
int run_cast(const Settings& settings, const Amounts& amounts);
/// Answers of many ranks, reduced at their hosts.
int run_reduce(const Settings& settings, const Amounts& amounts);
/// Sleeping procs, from the order to stop to the last one's end.
int run_stop(const Settings& settings, const Amounts& amounts);
/// Short-lived procs of a launcher that is large itself.
int run_ballast(const Settings& settings, const Amounts& amounts);
/// From the SIGKILL of a proc to the handler in the launcher.
int run_notice(const Settings& settings, const Amounts& amounts);
/// Hosts that are asked for the statuses of their ranks.
int run_poll(const Settings& settings, const Amounts& amounts);

}  // namespace meshbus::bench
