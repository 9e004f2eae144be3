#include "agent/stacks/process_memory.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace meshbus::stacks {
namespace {

constexpr std::uint64_t kPage = 4096;

}  // namespace

std::size_t ProcessMemory::read_some(std::uint64_t address, void* into, std::size_t size) const {
  const iovec local{into, size};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in another process.
  const iovec remote{reinterpret_cast<void*>(address), size};
  if (!file_) {
    const auto n = ::process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (n >= 0) return static_cast<std::size_t>(n);
    // Docker's filter of system calls refuses it, and lets the file be read.
    if (errno != EPERM && errno != ENOSYS) return 0;
    error_ = errno;
    const auto path = "/proc/" + std::to_string(pid_) + "/mem";
    file_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file_) return 0;
  }
  const auto n = ::pread(file_.get(), into, size, static_cast<off_t>(address));
  if (n >= 0) error_ = 0;
  return n < 0 ? 0 : static_cast<std::size_t>(n);
}

bool ProcessMemory::read(std::uint64_t address, void* into, std::size_t size) const {
  if (address >= kept_at_ && address - kept_at_ <= kept_.size() &&
      size <= kept_.size() - (address - kept_at_)) {
    std::memcpy(into, kept_.data() + (address - kept_at_), size);
    return true;
  }
  // The first page is never mapped: most pointers that are none are small.
  return address >= kPage && read_some(address, into, size) == size;
}

void ProcessMemory::keep(std::uint64_t begin, std::size_t size) {
  kept_.resize(size);
  kept_.resize(read_some(begin, kept_.data(), size));
  kept_at_ = begin;
}

}  // namespace meshbus::stacks
