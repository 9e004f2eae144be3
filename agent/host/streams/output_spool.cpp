#include "agent/host/streams/output_spool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/log.h"
#include "common/base/os_error.h"
#include "wire/logs_generated.h"

namespace meshbus::host {

/// One stream. `at` is what the kernel writes: where in the file the next byte goes.
struct OutputSpool::Entry {
  loff_t at;
  std::uint64_t released;
  std::uint64_t file;
};

namespace {

constexpr unsigned kRangeBits =
    42;  // 4 TiB for each stream; 2^21 of them fit into what a file can have
constexpr std::uint32_t kMostSlots = (1u << 20) - 1;
constexpr std::size_t kEntryBytes = 24;
constexpr std::size_t kEntryTableBytes = 2 * (kMostSlots + std::size_t{1}) * kEntryBytes;
constexpr std::uint64_t kPage = 4096;
/// Given back in pieces, not byte by byte.
constexpr std::uint64_t kPiece = 64 * 1024;

std::size_t index_of(std::uint32_t slot, wire::Stream stream) {
  return 2 * (std::size_t{slot} - 1) + (stream == wire::Stream::err ? 1 : 0);
}

/// Where that stream begins in the file; the table lies in the first range.
loff_t start_of(std::uint32_t slot, wire::Stream stream) {
  return static_cast<loff_t>((index_of(slot, stream) + 1) << kRangeBits);
}

ssize_t plain_read(int pipe, char* buffer, std::size_t most) {
  ssize_t got = -1;
  do {
    got = ::read(pipe, buffer, most);
  } while (got < 0 && errno == EINTR);
  return got;
}

Error spool_failure(const char* call) {
  return {ErrorCode::io_error, "the output spool: " + os_error(call)};
}

}  // namespace

void OutputSpool::Unmap::operator()(Entry* table) const noexcept {
  ::munmap(table, kEntryTableBytes);
}

Result<OutputSpool> OutputSpool::open(UniqueFd memory) {
  static_assert(sizeof(Entry) == kEntryBytes);
  struct stat status{};
  if (::fstat(memory.get(), &status) != 0) return fail(spool_failure("fstat"));
  if (status.st_size < static_cast<off_t>(kEntryTableBytes) &&
      ::ftruncate(memory.get(), kEntryTableBytes) != 0)
    return fail(spool_failure("ftruncate"));
  void* mapped = ::mmap(nullptr, kEntryTableBytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE, memory.get(), 0);
  if (mapped == MAP_FAILED) return fail(spool_failure("mmap"));
  OutputSpool spool;
  spool.memory_ = std::move(memory);
  spool.table_.reset(static_cast<Entry*>(mapped));
  return spool;
}

OutputSpool::Entry& OutputSpool::entry(std::uint32_t slot, wire::Stream stream) const {
  return table_.get()[index_of(slot, stream)];
}

std::uint32_t OutputSpool::take_slot() {
  if (!table_) return 0;
  std::uint32_t slot = 0;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else if (next_ <= kMostSlots) {
    slot = next_++;
  } else {
    return 0;
  }
  for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
    // The agent that had it before may have been killed before it could note that.
    if (entry(slot, stream).at > start_of(slot, stream))
      give_back(static_cast<std::uint64_t>(start_of(slot, stream)),
                static_cast<std::uint64_t>(entry(slot, stream).at) + kPage);
    entry(slot, stream) = {start_of(slot, stream), 0, 0};
  }
  return slot;
}

void OutputSpool::keep_slot(std::uint32_t slot) {
  if (!table_ || slot == 0 || slot > kMostSlots) return;
  for (; next_ <= slot; ++next_) free_.push_back(next_);
  std::erase(free_, slot);
  for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
    Entry& at = entry(slot, stream);
    const bool is_sound = at.at >= start_of(slot, stream) &&
                          at.at <= start_of(slot, stream) + (loff_t{1} << kRangeBits) &&
                          at.released <= written(slot, stream) && at.file <= written(slot, stream);
    if (!is_sound)
      at = {start_of(slot, stream), 0, 0};  // not ours, then: nothing is known to be in it
  }
}

void OutputSpool::free_slot(std::uint32_t slot) {
  if (!table_ || slot == 0) return;
  for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
    const auto start = static_cast<std::uint64_t>(start_of(slot, stream));
    const auto size = written(slot, stream);
    if (size > 0) give_back(start, start + (size + kPage - 1) / kPage * kPage);
    entry(slot, stream) = {start_of(slot, stream), 0, 0};
  }
  free_.push_back(slot);
}

ssize_t OutputSpool::read(std::uint32_t slot, wire::Stream stream, int pipe, char* buffer,
                          std::size_t most) {
  if (slot == 0) return plain_read(pipe, buffer, most);
  Entry& at = entry(slot, stream);
  const loff_t before = at.at;
  ssize_t got = -1;
  errno = EFBIG;
  const bool has_room =
      before + static_cast<loff_t>(most) <= start_of(slot, stream) + (loff_t{1} << kRangeBits);
  do {
    if (has_room) got = ::splice(pipe, nullptr, memory_.get(), &at.at, most, SPLICE_F_NONBLOCK);
  } while (got < 0 && errno == EINTR);
  if (got == 0 || (got < 0 && errno == EAGAIN)) return got;
  if (got > 0) {
    ssize_t done = 0;
    while (done < got) {
      const auto read = ::pread(memory_.get(), buffer + done, static_cast<std::size_t>(got - done),
                                before + done);
      if (read <= 0) break;
      done += read;
    }
    return done;
  }
  // No memory, a limit of file sizes, or the end of the range: what is read now goes on without a
  // net.
  static log::Limited limited(10);
  limited.warn(std::string("output is not kept for the next agent: splice: ") +
               std::strerror(errno));
  got = plain_read(pipe, buffer, most);
  if (got > 0) {
    at.at += got;
    at.released = static_cast<std::uint64_t>(at.at - start_of(slot, stream));
  }
  return got;
}

std::uint64_t OutputSpool::written(std::uint32_t slot, wire::Stream stream) const {
  return slot == 0 ? 0
                   : static_cast<std::uint64_t>(entry(slot, stream).at - start_of(slot, stream));
}

std::uint64_t OutputSpool::released(std::uint32_t slot, wire::Stream stream) const {
  return slot == 0 ? 0 : entry(slot, stream).released;
}

std::uint64_t OutputSpool::file(std::uint32_t slot, wire::Stream stream) const {
  return slot == 0 ? 0 : entry(slot, stream).file;
}

void OutputSpool::set_file(std::uint32_t slot, wire::Stream stream, std::uint64_t file) {
  if (slot != 0) entry(slot, stream).file = file;
}

void OutputSpool::release(std::uint32_t slot, wire::Stream stream, std::uint64_t end) {
  if (slot == 0) return;
  Entry& at = entry(slot, stream);
  const auto before = at.released;
  at.released = std::clamp(end, before, written(slot, stream));
  const auto given = [](std::uint64_t released) {
    return (released - std::min(released, kKeptBytes)) / kPiece * kPiece;
  };
  if (given(at.released) <= given(before)) return;
  const auto start = static_cast<std::uint64_t>(start_of(slot, stream));
  give_back(start + given(before), start + given(at.released));
}

std::string OutputSpool::text(std::uint32_t slot, wire::Stream stream, std::uint64_t begin) const {
  std::string text;
  const auto end = written(slot, stream);
  if (slot == 0 || begin >= end) return text;
  const auto kept = released(slot, stream) - std::min(released(slot, stream), kKeptBytes);
  begin = std::max(begin, kept);
  text.resize(end - begin);
  for (std::size_t done = 0; done < text.size();) {
    const auto got = ::pread(memory_.get(), text.data() + done, text.size() - done,
                             start_of(slot, stream) + static_cast<loff_t>(begin + done));
    if (got <= 0) {
      text.resize(done);
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return text;
}

void OutputSpool::give_back(std::uint64_t begin, std::uint64_t end) const {
  ::fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
              static_cast<off_t>(end - begin));
}

}  // namespace meshbus::host
