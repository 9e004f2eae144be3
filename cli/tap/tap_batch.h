#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/bytes.h"
#include "meshbus/result.h"
#include "wire/forward.h"
#include "wire/monitor_generated.h"

namespace meshbus::cli {

/// One copied message.
struct TapMessage {
  std::uint64_t number = 0;
  wire::Envelope envelope;
  std::int64_t time_ns = 0;
  /// As much as was copied; `envelope.length()` is how much there was.
  Bytes body;

  bool has_whole_body() const noexcept { return body.size() == envelope.length(); }
};

/// A well-formed TapBatch (schemas/monitor.fbs) that owns its bytes, from a broker or from a file.
class TapBatch {
 public:
  /// Copies. Errors: malformed_message.
  static Result<TapBatch> decode(Bytes received);

  const wire::TapBatch* operator->() const noexcept {
    return flatbuffers::GetRoot<wire::TapBatch>(bytes_.get());
  }
  std::size_t size() const noexcept { return size_; }
  Bytes bytes() const noexcept { return bytes_of(bytes_.get(), size_); }
  /// Valid as long as this batch.
  std::vector<TapMessage> messages() const;

 private:
  TapBatch(std::unique_ptr<std::uint64_t[]> bytes, std::size_t size)
      : bytes_(std::move(bytes)), size_(size) {}
  std::unique_ptr<std::uint64_t[]> bytes_;
  std::size_t size_;
};

/// The texts of keys, as batches told them. Pure.
class TapNames {
 public:
  void learn(const TapBatch& batch);
  /// Empty: not known.
  std::string_view find(std::uint64_t key) const;

 private:
  std::unordered_map<std::uint64_t, std::string> names_;
};

/// Follows the numbers of batches, and so knows what did not come. Pure.
class TapCount {
 public:
  /// The messages that were missed between the last batch and this one.
  std::uint64_t missed_before(const TapBatch& batch);
  /// Whether the batch began another stream than the one before: what lies between is not known.
  bool is_interrupted() const noexcept { return is_interrupted_; }
  std::uint64_t seen() const noexcept { return seen_; }
  std::uint64_t missed() const noexcept { return missed_; }

 private:
  std::optional<std::pair<std::uint64_t, std::uint64_t>> stream_;
  std::uint64_t next_ = 0;
  std::uint64_t seen_ = 0;
  std::uint64_t missed_ = 0;
  bool is_interrupted_ = false;
};

}  // namespace meshbus::cli
