#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "agent/keeper/protocol.h"
#include "agent/os/process_link.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::keeper {

/// A process of several procs, as its keeper sees it: which of them live, and the socket on which
/// the process hears of signals for one of them and tells their ends. The last one that lives is
/// the process: its end is told by the kernel alone.
class SharedProcess {
 public:
  /// A proc that is to be in it, and its streams.
  struct Member {
    std::uint64_t id = 0;
    std::uint32_t place = 0;
    UniqueFd out;  ///< Write ends, for the process; empty: its own stdout and stderr.
    UniqueFd err;
    bool is_killed = false;
  };
  /// What is to be done for a signal to one proc.
  enum class Aim : std::uint8_t {
    none,     ///< Nothing: the process was told, or there is no such proc.
    process,  ///< The process itself gets it.
  };

  /// Its end of the socket for the process, and ours. Errors: io_error.
  static Result<std::pair<SharedProcess, UniqueFd>> make();

  int fd() const noexcept { return link_.get(); }
  const std::vector<Member>& living() const noexcept { return living_; }

  /// The process is there, or was: tells it which procs to run. False with errno: that is not
  /// possible.
  bool start(std::vector<Member> members);
  /// Whether it is there, has said that it takes procs later, and has room for so many.
  bool takes(std::size_t count) const;
  /// Tells it to run one more, whose place in `bootstrap` is Member::place. False with errno: that
  /// is not possible.
  bool join(Member member, int bootstrap);
  Aim aim(const Signal& signal);
  /// Tells `on_end` of each whose end the process has told; Exit::id, signaled and code are set. A
  /// bounded share of what is there: more than an honest process says in its life. False: it will
  /// not tell any more.
  bool hear(const std::function<void(Exit)>& on_end);
  /// Each of those that live was sent SIGKILL.
  bool are_all_killed() const;
  void close() { link_.reset(); }

 private:
  explicit SharedProcess(UniqueFd link) : link_(std::move(link)) {}

  UniqueFd link_;
  std::vector<Member> living_;
  std::uint32_t next_place_ = 0;
  bool has_said_takes_ = false;
};

}  // namespace meshbus::keeper
