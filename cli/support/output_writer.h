#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/extent.h"
#include "meshbus/proc_mesh.h"

namespace meshbus::cli {

/// Writes what ranks print to our own stdout and stderr, each line with its rank's prefix, which
/// has a colour on a terminal. One thread at a time.
class OutputWriter {
 public:
  /// `prefixes`: by rank, like "[train/1 host=0,gpu=1] "; empty = output as it is, also on a
  /// terminal, which otherwise gets what for_terminal() makes of it. `on_blocked`:
  /// true when nobody has read our output for a while, false when it goes on.
  explicit OutputWriter(std::vector<std::string> prefixes,
                        std::function<void(bool)> on_blocked = {});
  /// The prefix of ranks that come later. When there are prefixes.
  void set_later_prefix(std::function<std::string(std::uint64_t rank)> prefix) {
    if (!prefixes_.empty()) later_prefix_ = std::move(prefix);
  }
  /// False when our output cannot be written (see error()): then nothing more is.
  bool write(std::uint64_t rank, Stream stream, std::string_view bytes);

  /// The errno that ended writing: EPIPE = nobody reads any more; 0 = none.
  int error() const noexcept { return error_; }

 private:
  bool write_all(int fd, std::string_view bytes);
  void wait_for_reader(int fd);
  std::vector<std::string> prefixes_;
  std::function<std::string(std::uint64_t)> later_prefix_;
  std::function<void(bool)> on_blocked_;
  // By descriptor.
  std::array<bool, 3> is_file_{}, is_terminal_{}, has_colours_{};
  int error_ = 0;
};

/// "[train/1 host=0,gpu=1] " for every rank of a mesh of that extent.
std::vector<std::string> make_prefixes(std::string_view name, const Extent& extent);
/// The prefix of a rank that the mesh has got since, at the end of its first axis.
std::string later_prefix(std::string_view name, const Extent& extent, std::uint64_t rank);

}  // namespace meshbus::cli
