#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "agent/host/streams/output_relay.h"
#include "client/src/gateway/host_monitor.h"
#include "client/src/monitors/mesh_monitor.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::test {

/// A launcher, the hosts of its mesh and the links between them under virtual time, with faults
/// that a seed chooses: a host dies, also the one through which the launcher hears everything; its
/// broker is started again; links are cut for a while; agents are replaced. The monitor of the
/// launcher and the relay of output are the real ones; the way between them is simulated.
///
/// run() returns what is wrong, in words; nothing when all promises were kept.
class LauncherWorld {
 public:
  explicit LauncherWorld(std::uint64_t seed);
  ~LauncherWorld();
  LauncherWorld(const LauncherWorld&) = delete;
  LauncherWorld& operator=(const LauncherWorld&) = delete;

  std::vector<std::string> run();
  std::uint64_t messages() const noexcept { return messages_; }
  std::uint64_t failures() const noexcept { return failures_; }

 private:
  using Time = Reactor::Time;
  using Duration = std::chrono::milliseconds;
  struct Rank {
    wire::RankState state;
    std::shared_ptr<wire::ExitReportT> exit_report = {};
    std::string written = {};
  };
  struct Host {
    HostAddr address;
    bool is_dead = false;
    std::uint64_t incarnation = 1;
    /// To the launcher at which gateway its agent sends.
    std::size_t owner = 0;
    std::map<std::uint64_t, Rank> ranks = {};
    host::OutputRelay relay = {};
    wire::StateChangedT pending = {};
    bool is_flush_planned = false;
    Time cut_until = {};
    /// By lane: nothing overtakes what was sent before it.
    Time last[3] = {};
  };
  enum Way { control, data, down };
  /// What the launcher was told of one rank.
  struct Heard {
    std::vector<RankReport> states = {};
    int failures = 0;
    std::string output = {};
  };

  void at(Time time, std::function<void()> task);
  void after(Duration delay, std::function<void()> task) { at(now_ + delay, std::move(task)); }
  Duration any(int from, int to) {
    return Duration(std::uniform_int_distribution<int>(from, to)(random_));
  }
  bool chance(double probability) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
  }
  /// What handlers and posted tasks are to do is done.
  void settle();

  // Hosts.
  void plan_rank(std::size_t host, std::uint64_t rank);
  void plan_fault();
  void change(std::size_t host, std::uint64_t rank, wire::ProcState state, int code = 0);
  void report_exit(std::size_t host, std::uint64_t rank);
  void write(std::size_t host, std::uint64_t rank);
  void flush(std::size_t host);
  void pump(std::size_t host);
  void kill_host(std::size_t host);
  void on_state_asked(std::size_t host, bool has_moved);
  void on_taken(std::size_t host, const wire::OutputTakenT& taken);
  /// To the launcher where this agent believes it to be.
  void send(std::size_t host, Way way, std::function<void()> deliver);

  // The launcher.
  /// To the agent, by way of the present gateway.
  void tell(std::size_t host, std::function<void()> deliver);
  void on_update(std::size_t host, const wire::StateChangedT& update);
  void restart_broker();
  void come_back(std::size_t gateway);
  void resync(std::size_t host);
  void ask_for_output();
  void upkeep();

  void check();
  void check_rank(std::size_t host, const Rank& rank, const Heard& heard);
  void complain(const std::string& what) { wrong_.push_back(what); }

  std::mt19937_64 random_;
  bool has_faults_;
  Time now_{std::chrono::hours(1)};
  Time end_ = now_ + std::chrono::seconds(45);
  std::multimap<std::pair<Time, std::uint64_t>, std::function<void()>> queue_;
  std::uint64_t next_ = 0;
  Reactor reactor_{[this] { return now_; }};
  HandlerThread handlers_;
  std::atomic<std::uint64_t> handled_ = 0;
  std::vector<Host> hosts_;
  std::shared_ptr<MeshMonitor> monitor_;
  HostMonitor known_hosts_;
  std::size_t gateway_ = 0;
  bool is_up_ = true;
  /// Counts the sessions of the launcher: what was sent in a former one is lost.
  std::uint64_t session_ = 0;
  std::map<std::size_t, std::uint64_t> synced_;
  std::map<std::uint64_t, Heard> heard_;
  int ends_ = 0;
  std::optional<Time> ended_;
  std::optional<Time> told_;
  std::uint64_t messages_ = 0;
  std::uint64_t failures_ = 0;
  std::vector<std::string> wrong_;
};

}  // namespace meshbus::test
