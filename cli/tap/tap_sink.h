#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/tap/tap_batch.h"
#include "cli/tap/tap_file.h"
#include "cli/tap/tap_printer.h"
#include "common/wire/tap_filter.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// Where the copies of a tap go: to stdout, or into a file.
class TapSink {
 public:
  struct Options {
    bool json = false;
    /// Enough: so many messages; into a file, the batch that has so many.
    std::optional<std::uint64_t> count = {};
    std::optional<TapFileWriter> file = {};
  };
  explicit TapSink(Options options);

  /// False when it was the last one: enough, or it cannot be written.
  bool take(const TapBatch& batch);
  /// Looks at each message once more: those of a file were chosen by another filter. The filter
  /// outlives this.
  void filter_by(const TapFilter& filter) { filter_ = &filter; }
  /// Writes what there is for stdout. False when it cannot be written.
  bool write_out();
  /// 0; 1 when something could not be written; 141 when nobody reads it.
  int code() const;
  const std::optional<Error>& error() const { return error_; }
  const TapCount& counter() const { return counter_; }
  std::uint64_t shown() const;

 private:
  bool is_wanted(const TapMessage& message) const;

  Options options_;
  TapPrinter printer_;
  TapNames names_;
  TapCount counter_;
  const TapFilter* filter_ = nullptr;
  std::uint64_t taken_ = 0;
  std::string out_;
  std::optional<Error> error_;
  bool is_pipe_broken_ = false;
};

}  // namespace meshbus::cli
