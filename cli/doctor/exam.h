#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/host_facts.h"
#include "meshbus/result.h"

/// What an examination of a set of hosts has found out: the input of judge(). Plain values.
namespace meshbus::cli::doctor {

/// How far a clock is ahead of the one of the machine that looks.
struct ClockReading {
  std::chrono::microseconds ahead{0};
  std::chrono::microseconds error{0};  ///< Half of the fastest round trip.
};

/// A drain of a host.
struct DrainFacts {
  std::string scope;
  std::string reason;
  bool is_held = false;
};

/// How fast messages go. Of several measurements, the best of each figure.
struct Pace {
  std::chrono::microseconds round_trip{0};  ///< The fastest one.
  double bytes_per_s = 0;
};

struct HostExam {
  std::string host;  ///< Its address; "this machine".
  /// Not `none`: it does not answer, for the reason in `problem`; nothing else is known then.
  ErrorCode code = ErrorCode::none;
  std::string problem = {};
  std::string node = {};
  std::string version = {};
  std::string containment = {};
  std::uint32_t broker_restarts = 0;
  std::vector<std::string> upgrades = {};  ///< Mixed releases, an upgrade that was not done.
  std::vector<DrainFacts> drains = {};
  std::optional<HostFacts> facts = {};
  /// Why there are no facts of a host that answers; empty: there are, or it takes no procs now.
  std::string facts_problem = {};
  ErrorCode facts_code = ErrorCode::none;
  std::optional<ClockReading> clock = {};
  /// Between two probes of it; measured only when a way of this host looked slow, and if it can be.
  std::optional<Pace> own_pace = {};
};

/// What was measured between two hosts.
struct LinkExam {
  /// Indices into SiteExam::hosts.
  std::size_t from = 0;
  std::size_t to = 0;
  ErrorCode code = ErrorCode::none;  ///< Not `none`: one does not reach the other.
  std::string problem = {};
  std::chrono::microseconds round_trip{0};  ///< The fastest one.
  std::optional<double> bytes_per_s = {};   ///< Nothing: not measured.
};

struct SiteExam {
  std::vector<HostExam> hosts;
  std::vector<LinkExam> links = {};
  std::int64_t time = 0;  ///< Unix seconds, by the clock here.
};

/// The name of the machine that looks, among the hosts.
inline constexpr const char* kThisMachine = "this machine";

}  // namespace meshbus::cli::doctor
