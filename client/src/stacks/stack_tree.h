#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "wire/stacks_generated.h"

namespace meshbus {

/// Ranks whose threads are elsewhere than those of most ranks.
struct OddRanks {
  std::set<std::uint64_t> ranks;
  /// "load (loader.py:12), read(pipe)"
  std::string where;
};

/// The stacks of many ranks as one tree for each kind of thread: what ranks have in common is there
/// once, and a branch that few ranks took comes before one that many took. Pure.
class StackTree {
 public:
  /// What one host answered. Indexes that point nowhere are left out.
  void add(const wire::StacksT& stacks);

  /// Ranks of which something is known.
  const std::set<std::uint64_t>& ranks() const noexcept { return ranks_; }
  /// CPU time that all threads have used, those of processes included that ranks have started.
  std::uint64_t cpu_ms() const noexcept { return cpu_ms_; }
  /// Whether some thread runs or waits for a CPU.
  bool has_running() const noexcept { return has_running_; }
  /// Where most ranks took one way and some another: these, the fewest first. Empty: all ranks are
  /// in the same functions, or there are no most.
  std::vector<OddRanks> odd_ranks() const;
  /// Lines to read. `main_only`: only the first thread of each process.
  std::string text(bool main_only) const;
  /// {odd: [{ranks, where}], stacks: [{ranks, process, thread, threads, state, system_call,
  /// kernel_function, note, frames: [{function, file, line, source, language}]}], problems:
  /// [{ranks, text}]}. Frames: the innermost first.
  nlohmann::ordered_json json() const;

 private:
  /// A function and those that were called from there.
  struct Node {
    std::string label;
    bool is_function = true;  ///< False: what the kernel says of a thread, at the end of a branch.
    std::set<std::uint64_t> ranks;
    std::size_t threads = 0;
    std::map<std::string, std::unique_ptr<Node>> next;

    Node& child(const std::string& text);
    /// Few ranks first.
    std::vector<const Node*> sorted() const;
  };
  /// A kind of thread: its process, and its name; "" for the first one.
  using Kind = std::pair<std::string, std::string>;
  struct Place {
    wire::StackThreadT thread;
    std::vector<wire::StackFrameT> frames;
  };
  struct Found {
    std::set<std::uint64_t> ranks;
    std::size_t threads = 0;
    Place place;
  };

  static void find_odd(const Node& node, std::vector<OddRanks>& odd);
  static void write(const Node& node, const std::string& indent, std::string& text);
  /// Main threads first, outer processes before inner ones.
  std::vector<const std::pair<const Kind, Node>*> sorted_kinds() const;

  std::map<Kind, Node> kinds_;
  std::map<std::string, Found> stacks_;
  std::map<std::string, std::set<std::uint64_t>> problems_;
  std::set<std::uint64_t> ranks_;
  std::uint64_t cpu_ms_ = 0;
  bool has_running_ = false;
};

/// "load (loader.py:12)", "read (libc.so.6)", "solve (solver.cpp:83)", "libfoo.so+0x1200".
std::string frame_text(const wire::StackFrameT& frame);
/// What the kernel says: "in read(pipe), kernel pipe_read". Empty: nothing to say.
std::string site_text(const wire::StackThreadT& thread);

}  // namespace meshbus
