#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/proc_mesh.h"

namespace meshbus::cli {

/// Writes what ranks print to our own stdout and stderr, each line with its rank's prefix. One thread at a time.
class OutputWriter {
 public:
  /// `prefixes`: by rank, like "[train/host=0,gpu=1] "; empty = output as it is.
  explicit OutputWriter(std::vector<std::string> prefixes) : prefixes_(std::move(prefixes)) {}
  /// False when nobody reads any more (EPIPE): then nothing more is written.
  bool write(std::uint64_t rank, Stream stream, std::string_view bytes);

 private:
  bool write_all(int fd, std::string_view bytes);
  std::vector<std::string> prefixes_;
  bool is_broken_ = false;
};

/// "[train/host=0,gpu=1] " for every rank of a mesh.
std::vector<std::string> make_prefixes(std::string_view name, const ProcMeshRef& mesh);

}  // namespace meshbus::cli
