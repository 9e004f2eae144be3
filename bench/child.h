#pragma once

#include <sys/types.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

/// What `meshbus bench` and the benchmarks of the project (tests/bench) share. What fails here ends
/// a benchmark as it ends a program at its start: it throws std::runtime_error, which is caught
/// once, where the verb was called.
namespace meshbus::bench {

/// A process of a benchmark: started with pipes at stdin and stdout, told to end by the end of
/// stdin or SIGTERM, killed and reaped at the end of the scope, or when this process ends in any
/// other way. Throws std::runtime_error when it cannot be started or ends too early.
class Child {
 public:
  explicit Child(std::vector<std::string> argv);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const noexcept { return pid_; }
  /// The next line it prints; waits 60 s at most.
  std::string read_line();
  /// For its stdin; short.
  void write_line(const std::string& text);
  bool has_ended() const;
  /// CPU time that all its threads have used so far.
  std::chrono::nanoseconds cpu() const;

 private:
  std::string name_;
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
};

/// CPU time of a process of ours, children not counted.
std::chrono::nanoseconds cpu_of(pid_t pid);
/// From now on SIGINT and SIGTERM interrupt what waits, so that everything is cleaned up on the way
/// out; throw_if_interrupted() then throws.
void catch_signals();
void throw_if_interrupted();
struct Interrupted : std::runtime_error {
  explicit Interrupted(int which) : std::runtime_error("interrupted"), signal(which) {}
  int signal;
};

/// A folder for sockets, removed at the end.
class SocketFolder {
 public:
  SocketFolder();
  ~SocketFolder();
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// The folder of this program, with a slash at its end: the other programs of the build are there.
std::string own_folder();
/// Keeps this process and all that it starts on one CPU: figures of programs that move between CPUs
/// vary by a factor of 2.
void pin_to_cpu(int cpu);

}  // namespace meshbus::bench
