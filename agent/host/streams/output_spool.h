#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus::host {

/// Output that was taken from pipes and may still be needed, in memory that outlives this process.
/// The kernel moves it there and counts it in one system call, which a signal cannot cut in two:
/// whenever the process is killed, each byte is in its pipe or here. One thread only.
///
/// Each proc has a slot, and each of its two streams a range of the file that it cannot fill: what
/// is released is given back to the system. Slots count from 1; slot 0 means a plain read.
class OutputSpool {
 public:
  /// The layout of the memory: raise it with every change of that.
  static constexpr unsigned kFormat = 1;
  /// How much of a stream is kept after it was released: for its last lines.
  static constexpr std::uint64_t kKeptBytes = 32 * 1024;

  /// Has no slots.
  OutputSpool() = default;
  /// `memory`: a memfd, empty or as another agent left it. Errors: io_error.
  static Result<OutputSpool> open(UniqueFd memory);

  /// A free slot, empty; 0 when there is none.
  std::uint32_t take_slot();
  /// Marks a slot as taken by another agent.
  void keep_slot(std::uint32_t slot);
  /// The content of the slot is not needed any more.
  void free_slot(std::uint32_t slot);

  /// Reads like read(2) from a pipe.
  ssize_t read(std::uint32_t slot, wire::Stream stream, int pipe, char* buffer, std::size_t most);
  /// How many bytes of the stream have come so far, and how many of them were released.
  std::uint64_t written(std::uint32_t slot, wire::Stream stream) const;
  std::uint64_t released(std::uint32_t slot, wire::Stream stream) const;
  /// Its reader has everything before `end`.
  void release(std::uint32_t slot, wire::Stream stream, std::uint64_t end);
  void release_all(std::uint32_t slot, wire::Stream stream) {
    release(slot, stream, written(slot, stream));
  }
  /// StreamOffsets::file of that stream, noted for the next agent.
  std::uint64_t file(std::uint32_t slot, wire::Stream stream) const;
  void set_file(std::uint32_t slot, wire::Stream stream, std::uint64_t file);
  /// The bytes from `begin` on, as far as they are kept: everything that is not released, and the
  /// last ones that are.
  std::string text(std::uint32_t slot, wire::Stream stream, std::uint64_t begin) const;

 private:
  struct Entry;
  struct Unmap {
    void operator()(Entry* table) const noexcept;
  };
  Entry& entry(std::uint32_t slot, wire::Stream stream) const;
  void give_back(std::uint64_t begin, std::uint64_t end) const;

  UniqueFd memory_;
  std::unique_ptr<Entry, Unmap> table_;
  std::vector<std::uint32_t> free_;  // below next_
  std::uint32_t next_ = 1;
};

}  // namespace meshbus::host
