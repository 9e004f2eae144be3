#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/chaos/chaos_plan.h"

namespace meshbus::cli {

/// Something that supervision said. A plain value.
struct ChaosNotice {
  using Time = std::chrono::system_clock::time_point;

  HostAddr host = HostAddr::local(0);  ///< Which host said it, or is meant.
  std::string mesh = {};               ///< With `rank`; else empty.
  std::optional<std::uint64_t> rank = {};
  std::string role = {};              ///< "agent", "broker", "keeper"; else empty.
  std::optional<HostAddr> peer = {};  ///< The other end of a link of `host`.
  std::string what;                   ///< "killed by SIGKILL"
  Time seen;                          ///< When we heard of it, by our clock.
  std::optional<Time> time = {};      ///< When it happened, by the clock of `host`.
};

/// What was done, and beside it what supervision said of it. Pure.
class ChaosBook {
 public:
  using Time = ChaosNotice::Time;

  struct Heard {
    std::chrono::milliseconds after{0};  ///< Since the deed.
    ChaosNotice notice;
  };
  struct Entry {
    ChaosDeed deed;
    Time asked;  ///< By our clock.
    bool is_confirmed = false;
    std::optional<Time> began = {};  ///< By the clock of the target's host, when that is confirmed.
    std::string detail = {};         ///< What the host says that it did.
    std::string error = {};          ///< Why it was not done, or is not known to be.
    std::vector<Heard> heard = {};
  };

  /// It is being asked for. Returns its number.
  std::size_t add(ChaosDeed deed, Time now);
  /// The host has done it: the one of the target, or the other end of a link.
  void confirm(std::size_t number, const HostAddr& host, Time began, const std::string& detail);
  void fail(std::size_t number, std::string error);
  /// What supervision said since the start, in any order: each to the last deed that it may be
  /// about.
  void add(ChaosNotice notice);

  /// By time. Notices are with their deeds.
  std::vector<Entry> entries() const;
  /// What belongs to no deed.
  std::vector<ChaosNotice> others() const;

 private:
  /// The number of the deed; nothing: none fits.
  std::optional<std::size_t> find(const ChaosNotice& notice) const;
  /// From the deed to the notice; it is negative when the notice is about something before it.
  static std::chrono::milliseconds between(const Entry& entry, const ChaosNotice& notice);

  std::vector<Entry> entries_;
  std::vector<ChaosNotice> notices_;
};

}  // namespace meshbus::cli
