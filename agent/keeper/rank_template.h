#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "agent/keeper/spawn_queue.h"
#include "common/base/unique_fd.h"

namespace meshbus::keeper {

/// The template of one mesh (agent/os/template_link.h): its process, and the procs that are to be
/// copies of it, which it makes one at a time. One thread.
class RankTemplate {
 public:
  using Clock = std::chrono::steady_clock;

  /// A copy that the template was asked for.
  struct Flight {
    QueuedProcess queued;  ///< Whole: another template may have to make the copy.
    Birth birth;           ///< With our ends of the pipes.
    UniqueFd go;           ///< Where a byte lets the copy run.
  };
  /// What the template says.
  struct Said {
    enum class Kind { nothing, ready, born, failed, closed };
    Kind kind = Kind::nothing;
    UniqueFd pidfd;      ///< The copy that is born.
    std::string reason;  ///< Why no copies can be made.
  };

  /// `link`: our end of the socket.
  RankTemplate(std::string mesh, pid_t pid, UniqueFd link)
      : mesh_(std::move(mesh)), pid_(pid), link_(std::move(link)) {}

  const std::string& mesh() const noexcept { return mesh_; }
  pid_t pid() const noexcept { return pid_; }
  int fd() const noexcept { return link_.get(); }
  bool is_ready() const noexcept { return is_ready_; }
  /// Why it was ended; empty: it ended by itself.
  const std::string& reason() const noexcept { return reason_; }
  void set_reason(std::string reason) { reason_ = std::move(reason); }

  void add(QueuedProcess queued) { waiting_.push_back(std::move(queued)); }
  /// The next one to be copied; nothing when the template is not free for it.
  std::optional<QueuedProcess> next();
  /// The template was asked for this copy.
  void begin(Flight flight) { flight_ = std::move(flight); }
  /// The copy was born. Nothing: none was asked for.
  std::optional<Flight> land();
  /// The next thing that the template has said. `failed`, too, when that is none of the protocol.
  Said hear();

  /// Whether this proc waits, or is under way.
  bool knows(std::uint64_t id) const;
  bool is_asked_for(std::uint64_t id) const;
  /// Takes a proc out. False: it is not here.
  bool cancel(std::uint64_t id);
  /// Takes out all that wait or are under way.
  std::vector<QueuedProcess> take_all();
  /// Whether a child of ours is a copy that was not told to us yet.
  bool is_unborn(pid_t pid) const;

  /// One copy more, or less, lives.
  void count(int change);
  /// When a template without copies and without work is ended; nothing: it has some.
  std::optional<Clock::time_point> expiry() const;

 private:
  std::string mesh_;
  pid_t pid_;
  UniqueFd link_;
  std::string reason_;
  bool is_ready_ = false;
  std::deque<QueuedProcess> waiting_;
  std::optional<Flight> flight_;
  int copies_ = 0;
  Clock::time_point idle_since_ = Clock::now();
};

}  // namespace meshbus::keeper
