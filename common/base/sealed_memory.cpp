#include "common/base/sealed_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "common/base/os_error.h"

namespace meshbus {
namespace {

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
/// The kernel copies so much at a time, and may be interrupted in between.
constexpr std::size_t kStep = 4 * 1024 * 1024;
/// Each piece is a system call; more of them are put together first.
constexpr std::size_t kMostPieces = 256;
/// Blocks of stat(), whatever the file system's are.
constexpr std::size_t kBlock = 512;

Error failed(const char* call) {
  return {ErrorCode::io_error, os_error(call)};
}

/// Above the limit for files the kernel ends this process with SIGXFSZ.
Result<void> check_file_limit(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      bytes <= limit.rlim_cur)
    return {};
  return fail(ErrorCode::io_error,
              std::to_string(bytes) +
                  " bytes of memory to share; this process may write files of " +
                  std::to_string(limit.rlim_cur) + " (ulimit -f)");
}

/// So that no later write lacks memory, and no read finds a hole.
Result<void> allocate(int memory, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t step = std::min(bytes - at, kStep);
    if (::fallocate(memory, 0, static_cast<off_t>(at), static_cast<off_t>(step)) == 0) {
      at += step;
    } else if (errno != EINTR) {
      return fail(failed("size of memory"));
    }
  }
  return {};
}

Result<UniqueFd> make(std::size_t bytes) {
  if (auto may = check_file_limit(bytes); !may) return fail(may.error());
  UniqueFd memory(::memfd_create("meshbus-body", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return fail(failed("memfd_create"));
  return memory;
}

Result<UniqueFd> seal(UniqueFd memory) {
  if (::fcntl(memory.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0)
    return fail(failed("seal memory"));
  return memory;
}

}  // namespace

Result<UniqueFd> SealedMemory::copy(std::span<const Bytes> pieces) {
  std::size_t size = 0;
  for (const auto piece : pieces) size += piece.size();
  if (pieces.size() > kMostPieces) {
    std::string all;
    all.reserve(size);
    for (const auto piece : pieces) all.append(piece);
    const Bytes whole = all;
    return copy({&whole, 1});
  }
  auto memory = make(size);
  if (!memory) return memory;
  for (auto bytes : pieces) {
    while (!bytes.empty()) {
      const auto written =
          ::write(memory->get(), bytes.data(), std::min<std::size_t>(bytes.size(), kStep));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return fail(failed("write memory"));
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  return seal(std::move(*memory));
}

Result<UniqueFd> SealedMemory::fill(std::size_t bytes, const std::function<void(char*)>& write) {
  auto memory = make(bytes);
  if (!memory) return memory;
  if (auto there = allocate(memory->get(), bytes); !there) return fail(there.error());
  if (bytes > 0) {
    // All pages at once: a fault for each takes several times as long.
    void* const at =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory->get(), 0);
    if (at == MAP_FAILED) return fail(failed("map memory"));
    // Memory that somebody can still write into cannot be sealed.
    auto unmap = [bytes](void* mapped) { ::munmap(mapped, bytes); };
    const std::unique_ptr<void, decltype(unmap)> mapped(at, unmap);
    // A child that is forked meanwhile could, too.
    ::madvise(at, bytes, MADV_DONTFORK);
    write(static_cast<char*>(at));
  }
  return seal(std::move(*memory));
}

Result<std::shared_ptr<const void>> SealedMemory::map(int descriptor, std::size_t bytes) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return fail(ErrorCode::io_error, "a descriptor that is no sealed memory");
  struct stat state{};
  struct statfs system{};
  // Huge pages can be sealed too, and may be missing when they are read.
  if (::fstat(descriptor, &state) != 0 || ::fstatfs(descriptor, &system) != 0 ||
      system.f_type != TMPFS_MAGIC)
    return fail(ErrorCode::io_error, "a descriptor of another kind of memory");
  if (bytes == 0 || state.st_size < 0 || static_cast<std::size_t>(state.st_size) != bytes)
    return fail(ErrorCode::io_error, "memory of " + std::to_string(state.st_size) +
                                         " bytes for a body of " + std::to_string(bytes));
  // A hole would be filled at the reader's cost, if at all.
  if (static_cast<std::size_t>(state.st_blocks) * kBlock < bytes)
    return fail(ErrorCode::io_error, "memory with holes");
  // Private, because older kernels do not map sealed memory that is shared; the pages are the same.
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (at == MAP_FAILED) return fail(failed("map memory"));
  return std::shared_ptr<const void>(
      at, [bytes](const void* mapped) { ::munmap(const_cast<void*>(mapped), bytes); });
}

}  // namespace meshbus
