#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "meshbus/context.h"
#include "meshbus/proc_mesh.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/rank_report.h"
#include "meshbus/result.h"

namespace [[gnu::visibility("default")]] meshbus {

/// What to read of what ranks wrote.
struct LogOptions {
  /// Empty = all.
  RankSet ranks = {};
  bool out = true;  ///< Standard output.
  bool err = true;  ///< Standard error.
  /// Last lines of each stream to begin with, as far as the hosts keep them: in memory (keys
  /// tail.lines, 64 KiB), and in log files where a host writes them (key logs.directory).
  std::uint64_t tail = 100;
  /// All that is kept.
  static constexpr std::uint64_t everything = UINT64_MAX;
  /// Then go on with what is written from now on, until all these ranks have ended.
  bool follow = false;
};

/// Bytes that a rank wrote, exact, broken anywhere.
struct LogPiece {
  std::uint64_t rank = 0;       ///< The rank that wrote it.
  Stream stream = Stream::out;  ///< Where to.
  /// Where the first byte is, counted from the birth of the proc.
  std::uint64_t offset = 0;
  /// Bytes right in front of these that this reader will not get: it was too slow, or they are not
  /// kept any more.
  std::uint64_t missed = 0;
  std::string_view bytes;  ///< Valid during the call.
  /// Nothing more comes from this stream.
  bool is_last = false;
};

/// What a reader of logs hears. All run on the Context's handler thread, one at a time. One that is
/// slow loses bytes (LogPiece::missed) and slows nobody.
struct LogHandlers {
  std::function<void(const LogPiece&)> on_piece;  ///< Each piece, in order per rank and stream.
  /// Once: all that was asked for has come, or could not: not_exist, host_unreachable, ..., naming
  /// the host.
  std::function<void(const Result<void>&)> on_end;
};

/// Reads on until it goes. Move-only; made by HostMesh::logs(), open(), or ProcRef::logs(). When
/// its destructor has returned no handler runs any more, unless it is called by one.
class LogStream {
 public:
  /// Reads what ranks of a mesh of any launcher wrote, or of a slice of it, as HostMesh::logs()
  /// does; but the Context needs no host mesh: without one that knows these hosts it connects to
  /// the first of them that answers, for as long as it reads. LogOptions::ranks are ranks of the
  /// mesh; none: those of the view. Errors: host_unreachable naming a host that cannot be reached,
  /// not_exist (a rank), configuration_error, would_block, refused (after fork).
  [[nodiscard]] static Result<LogStream> open(
      Context& context, const ProcMeshRef& mesh, LogOptions options, LogHandlers handlers,
      std::chrono::milliseconds deadline = std::chrono::seconds(3));

  LogStream(LogStream&&) noexcept;
  LogStream& operator=(LogStream&&) noexcept;
  ~LogStream();

  class Impl;
  explicit LogStream(std::unique_ptr<Impl> impl);  ///< For the library.

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace meshbus
