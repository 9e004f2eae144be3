#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/tap/tap_batch.h"
#include "common/base/unique_fd.h"

/// What `meshbus tap --write` writes: batches one after the other, each behind its length in 4
/// bytes, little-endian (schemas/monitor.fbs).
namespace meshbus::cli {

/// Appends. Each batch is one write(): whatever ends this process leaves whole ones, and at most
/// one that is not, at the end.
class TapFileWriter {
 public:
  /// Makes the file (0600), or goes on behind the last whole batch of one that is there. Nobody
  /// else may write it at the same time. Errors: io_error, parse_error (it is there, and is
  /// something else).
  static Result<TapFileWriter> open(const std::string& path);
  /// Errors: io_error. The file then ends with the last whole batch.
  Result<void> append(const TapBatch& batch);
  /// Bytes at the end of the file that were the beginning of a batch, and were cut off.
  std::uint64_t cut() const noexcept { return cut_; }

 private:
  TapFileWriter(std::string path, UniqueFd fd, std::uint64_t size, std::uint64_t cut)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size), cut_(cut) {}
  std::string path_;
  UniqueFd fd_;
  std::uint64_t size_;
  std::uint64_t cut_;
};

/// Reads such a file from its beginning.
class TapFileReader {
 public:
  /// Errors: io_error.
  static Result<TapFileReader> open(const std::string& path);
  /// The next batch; nothing at the end. Errors: io_error, parse_error with the position (it is
  /// something else, or damaged there).
  Result<std::optional<TapBatch>> next();
  /// At the end: bytes behind the last whole batch, as a crash leaves them.
  std::uint64_t torn() const noexcept { return torn_; }
  /// Where the next batch begins.
  std::uint64_t position() const noexcept { return position_; }

 private:
  TapFileReader(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  /// As many as there are, up to that.
  Result<std::size_t> read(void* into, std::size_t size);
  tl::unexpected<Error> damaged(const std::string& what) const;
  std::string path_;
  UniqueFd fd_;
  std::uint64_t position_ = 0;
  std::uint64_t torn_ = 0;
};

}  // namespace meshbus::cli
