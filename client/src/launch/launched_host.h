#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/src/launch/host_announcement.h"
#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "meshbus/allocator.h"
#include "meshbus/result.h"

namespace meshbus {

/// One `meshbus host` that this process has started, in a session of its own. It ends when its
/// lifeline does, which the kernel closes with this process at the latest.
///
/// Large because: one process is started, watched and ended through the same descriptors.
class LaunchedHost : public std::enable_shared_from_this<LaunchedHost> {
 public:
  /// How one has ended.
  struct Exit {
    /// "its process (pid 12) ended: exit 70; its last words: ..."
    std::string how;
    /// With 0, or after it was told to end.
    bool is_in_order = false;
  };
  /// Hears what happens to them while they start.
  using Teller = std::function<void(const AllocationEvent&)>;

  /// Starts `count` of them in parallel and waits until all are ready. All or none: on error what
  /// did start is ended, and the error names each host that failed by its rank, with its last
  /// words. Any thread but the reactor's.
  static Result<std::vector<std::shared_ptr<LaunchedHost>>> start(
      const std::string& program, const std::vector<std::string>& arguments, std::uint64_t count,
      std::chrono::milliseconds deadline, const Teller& tell);
  /// Starts one that is elsewhere, by a command that ends when its stdin does. `command[0]` is
  /// looked up in PATH. What is said on stdout is for start_remote() to understand. Errors:
  /// configuration_error (cannot be executed), io_error.
  static Result<std::shared_ptr<LaunchedHost>> start_command(
      const std::vector<std::string>& command);
  /// What a host that is told to end may take for it (spec 4.7), and a bit.
  static constexpr std::chrono::milliseconds kEndLimit{2500};
  /// Best effort: the lifeline ends, and the process is reaped when it has gone.
  ~LaunchedHost();
  LaunchedHost(const LaunchedHost&) = delete;
  LaunchedHost& operator=(const LaunchedHost&) = delete;

  const HostAnnouncement& announcement() const { return *announcement_; }
  /// Nothing before it is ready.
  std::optional<HostAddr> address() const {
    return announcement_ ? std::optional(announcement_->host) : std::nullopt;
  }
  pid_t pid() const noexcept { return pid_; }

  // While it starts, for start_remote().

  int lines_fd() const noexcept { return ready_.get(); }
  int words_fd() const noexcept { return stderr_.get(); }
  /// Says it, all of it. Errors: io_error.
  Result<void> send(const std::string& text);
  /// Reads what there is of stdout. False at its end.
  bool read_lines();
  /// The next line that was read.
  std::optional<std::string> next_line();
  /// Reads what there is of stderr.
  void read_words();
  /// The ready line. Errors: malformed_message.
  Result<void> take_announcement(const std::string& line);
  /// Waits until it has ended: "exit 255". Empty when it has not.
  std::string end_within(std::chrono::milliseconds limit);
  /// Waits until one that was told to end has, and ends it by force when that takes longer than a
  /// host may take.
  void end_by(std::chrono::steady_clock::time_point deadline);
  /// The last lines of its stderr.
  std::string last_words() const;

  /// Reactor thread: watches it from now on; `on_exit` is told, once.
  void watch(Reactor& reactor, std::function<void(const Exit&)> on_exit);
  /// Any thread: tells the host to end now.
  void close_lifeline();
  /// Any thread: the host has another owner, and does not end with this process any more. Only
  /// hosts on this machine. Errors: io_error (it has ended).
  Result<void> release();
  /// Any thread.
  void kill();

 private:
  LaunchedHost() = default;
  Result<void> spawn(const std::string& program, const std::vector<std::string>& arguments);
  Result<void> spawn_command(const std::vector<std::string>& command);
  struct SpawnActions;
  Result<void> spawn_with(SpawnActions& actions, std::vector<std::string> words);
  /// Reads what is there, and what it means.
  void read_ready();
  /// Reads what is there. False at the end.
  bool read_stderr();
  /// Reaps the process if it has ended.
  bool reap();
  bool has_ended_in_order();
  void on_exit(Reactor& reactor, const std::function<void(const Exit&)>& told);
  std::string quoted_last_words() const;

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd ready_;
  UniqueFd stderr_;
  std::string ready_text_;
  std::string stderr_tail_;
  std::optional<HostAnnouncement> announcement_;
  /// Why it will not become ready.
  std::string problem_;

  std::mutex mutex_;
  UniqueFd lifeline_;       // guarded by mutex_
  bool is_reaped_ = false;  // guarded by mutex_
  std::string how_;         // "exit 70"
  bool is_told_ = false;    // guarded by mutex_: that it is to end
};

/// Where the `meshbus` program is: `wanted`, else MESHBUS_BIN (the program or its folder), else
/// beside this executable, else in PATH. Errors: configuration_error naming the places that were
/// looked at.
Result<std::string> find_meshbus_program(const std::string& wanted);
/// The file that this process executes. Errors: io_error.
Result<std::string> own_executable();

}  // namespace meshbus
