#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace meshbus::bench {

/// A process of a benchmark: started with pipes at stdin and stdout, told to end by the end of stdin or SIGTERM, killed and reaped at the
/// end of the scope. Throws std::runtime_error when it cannot be started or ends too early.
class Child {
 public:
  explicit Child(std::vector<std::string> argv);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The next line it prints; waits 10 s at most.
  std::string read_line();
  /// CPU time that all its threads have used so far.
  std::chrono::nanoseconds cpu() const;

 private:
  std::string name_;
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
};

/// The folder of this program, with a slash at its end: the other programs of the build are there.
std::string own_folder();
/// Keeps this process and all that it starts on one CPU: figures of programs that move between CPUs vary by a factor of 2.
void pin_to_cpu(int cpu);

}  // namespace meshbus::bench
