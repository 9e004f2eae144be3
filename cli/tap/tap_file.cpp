#include "cli/tap/tap_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/os_error.h"
#include "common/wire/tap_filter.h"

namespace meshbus::cli {
namespace {

/// No broker makes one so long: a batch is closed at 64 KiB, and the largest body is 1 MiB.
constexpr std::uint32_t kBatchLimit = 4 * 1024 * 1024;
using Length = std::array<unsigned char, 4>;

Length to_bytes(std::uint32_t value) {
  return {static_cast<unsigned char>(value), static_cast<unsigned char>(value >> 8U),
          static_cast<unsigned char>(value >> 16U), static_cast<unsigned char>(value >> 24U)};
}

std::uint32_t from_bytes(const Length& bytes) {
  return bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8U |
         static_cast<std::uint32_t>(bytes[2]) << 16U | static_cast<std::uint32_t>(bytes[3]) << 24U;
}

}  // namespace

Result<TapFileReader> TapFileReader::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail(ErrorCode::io_error, os_error("cannot open " + path));
  return TapFileReader(path, std::move(fd));
}

Result<std::size_t> TapFileReader::read(void* into, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const auto n = ::read(fd_.get(), static_cast<char*>(into) + done, size - done);
    if (n == 0) break;
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      return fail(ErrorCode::io_error, os_error("cannot read " + path_));
    }
  }
  return done;
}

tl::unexpected<Error> TapFileReader::damaged(const std::string& what) const {
  const Error error(ErrorCode::parse_error,
                    position_ == 0
                        ? path_ + " is no recording of meshbus tap --write: " + what
                        : path_ + " is damaged at byte " + std::to_string(position_) + ": " + what);
  return fail(error.at(position_));
}

Result<std::optional<TapBatch>> TapFileReader::next() {
  Length prefix{};
  const auto begun = read(prefix.data(), prefix.size());
  if (!begun) return fail(begun.error());
  if (*begun == 0) return std::nullopt;
  const std::uint32_t length = from_bytes(prefix);
  if (*begun == prefix.size() && length > kBatchLimit)
    return damaged("no batch is " + std::to_string(length) + " bytes long");
  std::string bytes;
  std::size_t got = 0;
  if (*begun == prefix.size()) {
    bytes.resize(length);
    const auto body = read(bytes.data(), bytes.size());
    if (!body) return fail(body.error());
    got = *body;
  }
  if (*begun < prefix.size() || got < length) {
    // What a crash left is the beginning of a batch; something else is something else.
    if (position_ == 0 && got >= 8 &&
        !flatbuffers::BufferHasIdentifier(bytes.data(), kTapIdentifier))
      return damaged("it is something else");
    torn_ = *begun + got;
    return std::nullopt;
  }
  auto batch = TapBatch::decode(bytes);
  if (!batch) return damaged(batch.error().detail());
  position_ += prefix.size() + length;
  return std::optional(std::move(*batch));
}

Result<TapFileWriter> TapFileWriter::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
  if (!fd) return fail(ErrorCode::io_error, os_error("cannot open " + path));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0)
    return fail(ErrorCode::io_error, os_error("cannot look at " + path));
  if (!S_ISREG(status.st_mode))
    return fail(ErrorCode::io_error, path + " is no file: a recording needs one");
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(errno == EWOULDBLOCK
                    ? Error(ErrorCode::io_error,
                            "another meshbus tap writes to " + path + "; choose another file")
                    : Error(ErrorCode::io_error, os_error("cannot lock " + path)));
  std::uint64_t size = 0, cut = 0;
  if (status.st_size > 0) {
    auto reader = TapFileReader::open(path);
    if (!reader) return fail(reader.error());
    for (;;) {
      const auto batch = reader->next();
      if (!batch) return fail(batch.error());
      if (!*batch) break;
    }
    size = reader->position();
    cut = reader->torn();
    if (size == 0)
      return fail(ErrorCode::parse_error,
                  path + " is no recording of meshbus tap --write; it is left as it is");
    if (cut > 0 && ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
      return fail(ErrorCode::io_error, os_error("cannot cut " + path));
  }
  if (::lseek(fd.get(), static_cast<off_t>(size), SEEK_SET) < 0)
    return fail(ErrorCode::io_error, os_error("cannot append to " + path));
  return TapFileWriter(path, std::move(fd), size, cut);
}

Result<void> TapFileWriter::append(const TapBatch& batch) {
  std::string record;
  const Length length = to_bytes(static_cast<std::uint32_t>(batch.size()));
  record.append(reinterpret_cast<const char*>(length.data()), length.size());
  record += batch.bytes();
  std::string_view left = record;
  while (!left.empty()) {
    const auto n = ::write(fd_.get(), left.data(), left.size());
    if (n >= 0) {
      left.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      const Error error(ErrorCode::io_error, os_error("cannot write " + path_));
      // Back to whole ones, so that it can be gone on with. When that fails too, readers find the
      // end by themselves.
      [[maybe_unused]] const int restored = ::ftruncate(fd_.get(), static_cast<off_t>(size_));
      return fail(error);
    }
  }
  size_ += record.size();
  return {};
}

}  // namespace meshbus::cli
