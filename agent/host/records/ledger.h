#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus::host {

/// Memory that outlives this process, in which an agent writes down what the next agent must know
/// (schemas/ledger.fbs). Entries are only added; when there are too many, a snapshot takes the
/// place of all of them. Whenever the process is killed, it holds exactly what was committed. One
/// thread only.
class Ledger {
 public:
  /// The layout of the memory: raise it with the magic.
  static constexpr unsigned kFormat = 1;

  /// Keeps nothing.
  Ledger() = default;
  /// `memory`: a memfd, empty or as another agent left it. Errors: io_error.
  static Result<Ledger> open(UniqueFd memory);
  Ledger(Ledger&& other) noexcept;
  Ledger& operator=(Ledger&& other) noexcept;
  ~Ledger();

  explicit operator bool() const noexcept { return header_ != nullptr; }
  /// The entries, in order, up to the first that cannot be read. The texts are
  /// FlatBuffers of LedgerEntry, aligned.
  std::vector<std::string> entries() const;

  /// An entry as it is in the ledger.
  static std::string encode(const wire::LedgerEntryT& entry);
  /// Adds an encoded entry, in memory of this process.
  void add(std::string_view encoded);
  /// Writes down what was added. Errors: io_error; then it counts as not written, and is tried
  /// again the next time.
  Result<void> commit();
  /// Whether a snapshot would be much shorter than what is there.
  bool is_long() const noexcept;
  /// What is added from now until commit() replaces everything before it.
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
