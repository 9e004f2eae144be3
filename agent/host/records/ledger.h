#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus::host {

/// Memory that outlives this process, in which an agent writes down what the next one must know
/// (schemas/ledger.fbs). Entries are only added; when there are too many, a snapshot takes the
/// place of all of them. Whenever the process is killed, what was committed is there, whole, and
/// nothing else. One thread only.
class Ledger {
 public:
  /// Keeps nothing.
  Ledger() = default;
  /// `memory`: a memfd, empty or as another agent left it. Errors: io_error.
  static Result<Ledger> open(UniqueFd memory);
  Ledger(Ledger&& other) noexcept;
  Ledger& operator=(Ledger&& other) noexcept;
  ~Ledger();

  explicit operator bool() const noexcept { return header_ != nullptr; }
  /// What is there, in order; what cannot be read, and all behind it, is left out. The texts are
  /// FlatBuffers of LedgerEntry, aligned.
  std::vector<std::string> entries() const;

  /// An entry as it stands in the ledger.
  static std::string encode(const wire::LedgerEntryT& entry);
  /// Adds an encoded entry, in memory of this process.
  void add(std::string_view encoded);
  /// Writes down what was added. Errors: io_error; then it counts as not written, and is tried
  /// again the next time.
  Result<void> commit();
  /// Whether a snapshot would be much shorter than what is there.
  bool is_long() const noexcept;
  /// From now until commit() what is added is the whole of what is to be known.
  void begin_snapshot();

 private:
  struct Header;
  std::uint64_t half() const noexcept;
  Result<void> write_at(std::uint64_t offset);

  UniqueFd memory_;
  Header* header_ = nullptr;
  std::string pending_;
  bool is_snapshot_ = false;
  std::uint64_t snapshot_bytes_ = 0;
};

}  // namespace meshbus::host
