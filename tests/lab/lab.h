#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/wait.h"

namespace meshbus::test {

/// What a host's cable does to each packet, in both directions.
struct CableDelay {
  std::chrono::microseconds delay{0};
  /// Standard deviation of the delay. Packets stay in order.
  std::chrono::microseconds jitter{0};
};

/// Many hosts on one machine: each is a set of Linux namespaces (network, pid, mount, host name,
/// IPC) with one cable to a common switch, a cgroup v2 where one may be made, and a directory of
/// its own, the room, that is under the same path on every host. Nothing of it can be seen in the
/// network of the machine. Hosts share all files outside of their rooms.
///
/// The end of the scope removes everything, and aborts the program when something cannot be
/// removed; when the test program is killed, a process of the lab's own does it. Belongs to the
/// thread that runs the test case. What cannot be done throws, saying what and why.
class Lab {
 public:
  class Host;

  /// Makes the switch and boots that many hosts.
  explicit Lab(std::size_t hosts);
  Lab(Lab&&) noexcept;
  Lab& operator=(Lab&&) = delete;
  ~Lab();

  /// Why no lab can be made on this machine, in plain words; empty when it can. Tried once.
  static const std::string& why_not();

  std::size_t size() const;
  Host host(std::size_t index) const;

  /// From now on nothing passes between the two, in neither direction, and nobody is told: packets
  /// vanish.
  void cut(std::size_t a, std::size_t b);
  /// From now on that share (0 to 1) of the packets from one to the other vanishes; the other
  /// direction is left alone. 0 ends it.
  void lose(std::size_t from, std::size_t to, double share);
  /// Ends every cut and loss between the two, or all.
  void heal(std::size_t a, std::size_t b);
  void heal();
  /// Pulls the cable out of the host, which sees its link go down, and puts it in again.
  void unplug(std::size_t host);
  void plug(std::size_t host);
  /// Delays what passes the host's cable, until its power goes. May be called again to change it.
  void delay(std::size_t host, CableDelay delay);

  /// Stops every process of the host at once, as when a machine hangs, and lets them go on. The
  /// kernel still answers the network.
  void freeze(std::size_t host);
  void thaw(std::size_t host);
  /// The plug is pulled: every process ends, what was in the room is lost, and the others hear
  /// nothing of it: not a packet leaves.
  void power_off(std::size_t host);
  /// After power_off(): it comes back under the same name and address, with an empty room.
  void boot(std::size_t host);

  /// Removes everything now; what could not be removed, a line for each. Nothing may be called
  /// afterwards.
  std::vector<std::string> take_down();
  /// The identities of all namespaces of the hosts and of the switch ("net:[4026532567]"), for
  /// tests of the lab.
  std::vector<std::string> namespaces() const;
  /// The lab's cgroup; empty when none can be made here.
  const std::string& cgroup() const;
  /// Where every host has its room.
  const std::string& room() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One of them. Good as long as its lab.
class Lab::Host {
 public:
  /// "host0"
  std::string name() const;
  /// IPv4, for the others: "10.66.0.1"
  std::string address() const;
  bool is_up() const;
  /// The pid of its first process, as the test program sees it.
  pid_t init() const;
  /// A file of that host as the test program can open it, as long as the host is up:
  /// file(lab.room() + "/run/x").
  std::string file(std::string_view path) const;

  /// Runs a program on this host: in its namespaces and its cgroup, with the room's directories as
  /// HOME, TMPDIR and XDG_*_HOME and XDG_RUNTIME_DIR. Signals are passed on to it, and it is killed
  /// at the end of the Process's scope.
  Process start(std::vector<std::string> argv, ProcessOptions options = {}) const;
  /// The command line that does it, without the environment.
  std::vector<std::string> command(std::vector<std::string> argv) const;
  /// The same as start(), to its end.
  Finished run(std::vector<std::string> argv, std::chrono::milliseconds deadline,
               ProcessOptions options = {}) const;
  /// What runs on this host, its first process not counted.
  std::vector<std::string> processes() const;

 private:
  friend class Lab;
  Host(State& lab, std::size_t index) : lab_(&lab), index_(index) {}
  State* lab_;
  std::size_t index_;
};

}  // namespace meshbus::test
