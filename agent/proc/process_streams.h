#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "common/base/unique_fd.h"

namespace meshbus::mesh_proc {

/// Whose stdout and stderr those of a process of several procs are: one proc's at a time. When that
/// one leaves, they become another's.
class ProcessStreams {
 public:
  ProcessStreams();

  /// The proc has no streams of its own: it was started with those of the process.
  void set_holder(std::uint64_t place) { holder_ = place; }
  void release(std::uint64_t place) {
    if (holder_ == place) holder_.reset();
  }
  std::optional<std::uint64_t> holder() const noexcept { return holder_; }
  /// They become those of `place`, unless the program has put something else there.
  void pass_to(std::uint64_t place, UniqueFd& out, UniqueFd& err);

 private:
  /// A file, whatever descriptor it has.
  struct File {
    dev_t device = 0;
    ino_t inode = 0;
    friend bool operator==(const File&, const File&) = default;
  };
  static std::optional<File> file_of(int descriptor);
  static void replace(int stream, UniqueFd& by, File& known);

  std::optional<std::uint64_t> holder_;
  /// What they were opened as.
  File out_;
  File err_;
};

}  // namespace meshbus::mesh_proc
