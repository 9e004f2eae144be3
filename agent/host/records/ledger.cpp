#include "agent/host/records/ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/os_error.h"
#include "wire/ledger_generated.h"

namespace meshbus::host {

/// The first page. Each change is one store of 8 bytes: a process that is killed leaves the old
/// number or the new one.
struct Ledger::Header {
  std::uint64_t magic;
  std::atomic<std::uint64_t> active;   // which half counts
  std::atomic<std::uint64_t> size[2];  // bytes of each
};

namespace {

constexpr std::uint64_t kMagic = 0x31'5244'474c'424d;  // "MBLGDR1": version 1
constexpr std::size_t kHeaderSize = 4096;
constexpr std::uint64_t kHalfBytes = std::uint64_t{1}
                                     << 40;  // of address space: only what is written takes memory
constexpr std::uint64_t kSlack = 1u << 20;

std::uint64_t start_of(std::uint64_t half) {
  return (1 + half) * kHalfBytes;
}

std::size_t padded(std::size_t size) {
  return (size + 7) / 8 * 8;
}

Error ledger_failure(const char* call) {
  return {ErrorCode::io_error, "the ledger: " + os_error(call)};
}

}  // namespace

Result<Ledger> Ledger::open(UniqueFd memory) {
  struct stat status{};
  if (::fstat(memory.get(), &status) != 0) return fail(ledger_failure("fstat"));
  if (status.st_size < static_cast<off_t>(kHeaderSize) &&
      ::ftruncate(memory.get(), kHeaderSize) != 0)
    return fail(ledger_failure("ftruncate"));
  void* mapped = ::mmap(nullptr, kHeaderSize, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return fail(ledger_failure("mmap"));
  Ledger ledger;
  ledger.memory_ = std::move(memory);
  ledger.header_ = static_cast<Header*>(mapped);
  if (ledger.header_->magic != kMagic) {
    // It is empty, or of a release that this one does not understand: then its procs are not taken
    // over.
    ledger.header_->active = 0;
    ledger.header_->size[0] = 0;
    ledger.header_->size[1] = 0;
    ledger.header_->magic = kMagic;
  }
  return ledger;
}

Ledger::Ledger(Ledger&& other) noexcept
    : memory_(std::move(other.memory_)),
      header_(std::exchange(other.header_, nullptr)),
      pending_(std::move(other.pending_)),
      is_snapshot_(other.is_snapshot_),
      snapshot_bytes_(other.snapshot_bytes_) {}

Ledger& Ledger::operator=(Ledger&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(header_, other.header_);
  std::swap(pending_, other.pending_);
  std::swap(is_snapshot_, other.is_snapshot_);
  std::swap(snapshot_bytes_, other.snapshot_bytes_);
  return *this;
}

Ledger::~Ledger() {
  if (header_ != nullptr) ::munmap(header_, kHeaderSize);
}

std::uint64_t Ledger::half() const noexcept {
  return header_->active & 1;
}

std::vector<std::string> Ledger::entries() const {
  std::vector<std::string> found;
  if (header_ == nullptr) return found;
  struct stat status{};
  if (::fstat(memory_.get(), &status) != 0) return found;
  std::uint64_t at = start_of(half());
  // Whatever the header says, there is no more than the file has.
  const std::uint64_t file_end = std::max(at, static_cast<std::uint64_t>(status.st_size));
  const std::uint64_t end = at + std::min<std::uint64_t>(header_->size[half()], file_end - at);
  while (at + sizeof(std::uint64_t) <= end) {
    std::uint64_t size = 0;
    if (::pread(memory_.get(), &size, sizeof size, static_cast<off_t>(at)) != sizeof size) break;
    at += sizeof size;
    if (size > end - at) break;
    std::string bytes(size, '\0');
    for (std::size_t done = 0; done < size;) {
      const auto got =
          ::pread(memory_.get(), bytes.data() + done, size - done, static_cast<off_t>(at + done));
      if (got <= 0) return found;
      done += static_cast<std::size_t>(got);
    }
    flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                   bytes.size());
    if (!verifier.VerifyBuffer<wire::LedgerEntry>(nullptr)) break;
    found.push_back(std::move(bytes));
    at += padded(size);
  }
  return found;
}

std::string Ledger::encode(const wire::LedgerEntryT& entry) {
  flatbuffers::FlatBufferBuilder builder(1024);
  builder.Finish(wire::LedgerEntry::Pack(builder, &entry));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

void Ledger::add(std::string_view encoded) {
  const std::uint64_t size = encoded.size();
  pending_.append(reinterpret_cast<const char*>(&size), sizeof size);
  pending_.append(encoded);
  pending_.append(padded(size) - size, '\0');
}

Result<void> Ledger::write_at(std::uint64_t offset) {
  for (std::size_t done = 0; done < pending_.size();) {
    const auto written = ::pwrite(memory_.get(), pending_.data() + done, pending_.size() - done,
                                  static_cast<off_t>(offset + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail(ledger_failure("pwrite"));
    done += static_cast<std::size_t>(written);
  }
  return {};
}

Result<void> Ledger::commit() {
  if (header_ == nullptr) pending_.clear();
  if (pending_.empty() && !is_snapshot_) return {};
  const auto now = half();
  if (!is_snapshot_) {
    const std::uint64_t size = header_->size[now];
    if (auto written = write_at(start_of(now) + size); !written) return written;
    header_->size[now].store(size + pending_.size());
  } else {
    const auto next = 1 - now;
    if (auto written = write_at(start_of(next)); !written) return written;
    header_->size[next].store(pending_.size());
    header_->active.store(next);
    ::fallocate(memory_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(start_of(now)),
                static_cast<off_t>(std::min<std::uint64_t>(header_->size[now], kHalfBytes)));
    snapshot_bytes_ = pending_.size();
    is_snapshot_ = false;
  }
  pending_.clear();
  return {};
}

bool Ledger::is_long() const noexcept {
  return header_ != nullptr && header_->size[half()] > 2 * snapshot_bytes_ + kSlack;
}

void Ledger::begin_snapshot() {
  pending_.clear();
  is_snapshot_ = true;
}

}  // namespace meshbus::host
