#pragma once

#include <cstddef>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "cli/bench/bench_arguments.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// A mesh of this program, which answers with what it is sent: on a host of its own, or on running
/// ones.
class CastMesh {
 public:
  /// Throws std::runtime_error when it cannot be started.
  explicit CastMesh(const BenchArguments& arguments);
  CastMesh(const CastMesh&) = delete;
  CastMesh& operator=(const CastMesh&) = delete;
  ~CastMesh();
  nlohmann::ordered_json measure(const BenchArguments& arguments, std::size_t size);
  /// Makes this process a rank of such a mesh.
  [[noreturn]] static void be_member();

 private:
  static HostMesh hosts_of(Context& context, const BenchArguments& arguments);

  Context context_;
  HostMesh hosts_;
  bool is_own_;
  std::optional<ProcMesh> mesh_;
};

}  // namespace meshbus::cli
