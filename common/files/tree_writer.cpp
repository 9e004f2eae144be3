#include "common/files/tree_writer.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace meshbus {
namespace {

constexpr std::size_t kMostNotes = 100;

Error io_failure(const std::string& what) {
  return {ErrorCode::io_error, what + ": " + std::strerror(errno)};
}

std::array<timespec, 2> times_of(const FileRecordHead& head) {
  timespec time{};
  time.tv_sec = head.time_ns / 1'000'000'000;
  time.tv_nsec = head.time_ns % 1'000'000'000;
  if (time.tv_nsec < 0) {
    time.tv_nsec += 1'000'000'000;
    --time.tv_sec;
  }
  return {time, time};
}

bool is_component(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos && name.size() < 256;
}

/// Whether a link in a folder that is `depth` below the place of a copy leads nowhere outside of
/// it. Steps up come first: behind a name they may start from where another link leads.
bool stays_inside(std::string_view target, std::size_t depth) {
  if (target.empty() || target.starts_with('/')) return false;
  bool has_name = false;
  while (!target.empty()) {
    const auto part = target.substr(0, target.find('/'));
    target.remove_prefix(std::min(part.size() + 1, target.size()));
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      has_name = true;
    } else if (has_name || depth-- == 0) {
      return false;
    }
  }
  return true;
}

/// ".NAME.meshbus-1234abcd", as far as a name may be long.
std::string temporary_name(const std::string& name) {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) < 0) number = static_cast<std::uint32_t>(::getpid());
  std::array<char, 32> suffix{};
  std::snprintf(suffix.data(), suffix.size(), ".meshbus-%08x", number);
  return "." + name.substr(0, 200) + suffix.data();
}

/// By which a file without a name gets one.
std::string link_of(const UniqueFd& file) {
  return "/proc/self/fd/" + std::to_string(file.get());
}

}  // namespace

Result<TreeWriter> TreeWriter::open(const std::string& place,
                                    std::optional<ExpectedNames> expected) {
  TreeWriter writer;
  writer.expected_ = std::move(expected);
  Folder top{UniqueFd(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), place};
  if (!top.fd) {
    if (errno != ENOENT && errno != ENOTDIR) return fail(io_failure(place));
    const auto slash = place.find_last_of('/');
    writer.own_name_ = place.substr(slash + 1);
    if (!is_component(writer.own_name_))
      return fail(ErrorCode::not_exist, place + ": there is no such folder");
    const std::string above = slash == std::string::npos ? "."
                              : slash == 0               ? "/"
                                                         : place.substr(0, slash);
    top = {UniqueFd(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), above};
    if (!top.fd) return fail(ErrorCode::not_exist, above + ": " + std::strerror(errno));
  }
  writer.folders_.push_back(std::move(top));
  return writer;
}

std::string TreeWriter::path_of(const std::string& name) const {
  return folders_.back().path + "/" + name;
}

Result<void> TreeWriter::add(std::string_view bytes) {
  records_.add(bytes);
  while (const auto record = records_.next()) {
    if (is_done_) return fail(ErrorCode::malformed_message, "something follows the end");
    if (auto taken = take(*record); !taken) return taken;
  }
  if (records_.is_broken())
    return fail(ErrorCode::malformed_message, "what comes is no stream of files");
  return {};
}

Result<void> TreeWriter::take(const FileRecords::Record& record) {
  const FileRecordHead& head = record.head;
  const auto malformed = [](const char* what) { return fail(ErrorCode::malformed_message, what); };
  if (!has_begun_ && head.type != FileRecord::begin) return malformed("it has no beginning");
  const bool is_content = head.type == FileRecord::data || head.type == FileRecord::end_file ||
                          head.type == FileRecord::failure || head.type == FileRecord::note;
  if (file_ && !is_content) return malformed("a file is not complete");
  if (!file_ && (head.type == FileRecord::data || head.type == FileRecord::end_file))
    return malformed("bytes of no file");
  switch (head.type) {
    case FileRecord::begin:
      if (head.mode != kFileFormat)
        return fail(ErrorCode::version_mismatch,
                    "the other side writes format " + std::to_string(head.mode) +
                        " of files; this release reads " + std::to_string(kFileFormat));
      has_begun_ = true;
      return {};
    case FileRecord::directory:
    case FileRecord::file:
    case FileRecord::link: {
      const auto name = name_for(record.name);
      if (!name) return fail(name.error());
      if (head.type == FileRecord::directory) return begin_folder(*name);
      if (head.type == FileRecord::file) return begin_file(*name);
      return make_link(*name, std::string(record.bytes));
    }
    case FileRecord::end_directory: return end_folder(head);
    case FileRecord::data: return write(record.bytes);
    case FileRecord::end_file: return end_file(head);
    case FileRecord::note: note(std::string(record.bytes)); return {};
    case FileRecord::failure: return fail(ErrorCode::io_error, std::string(record.bytes));
    case FileRecord::end:
      if (folders_.size() > 1) return malformed("a folder is not complete");
      is_done_ = true;
      return {};
  }
  return {};
}

Result<std::string> TreeWriter::name_for(std::string_view name) {
  if (!is_component(name)) return fail(ErrorCode::malformed_message, "a name is no name of a file");
  if (folders_.size() > 1) return std::string(name);
  const auto wanted = expected_ ? expected_->take(name) : std::string(name);
  if (!wanted)
    return fail(ErrorCode::refused,
                "the other side sends '" + std::string(name) + "', which was not asked for");
  if (own_name_.empty()) return *wanted;
  if (has_named_)
    return fail(ErrorCode::refused, own_name_ + " is not a folder, and several things come");
  has_named_ = true;
  return own_name_;
}

Result<void> TreeWriter::begin_folder(const std::string& name) {
  if (folders_.size() > kDeepestFolder)
    return fail(ErrorCode::malformed_message, path_of(name) + ": it is too deep");
  const int above = folders_.back().fd.get();
  // Ours until it is complete: its mode may not let us write.
  const bool is_new = ::mkdirat(above, name.c_str(), 0700) == 0;
  if (!is_new && errno != EEXIST) return fail(io_failure(path_of(name)));
  UniqueFd fd(::openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return fail(io_failure(path_of(name)));
  std::string path = path_of(name);
  folders_.push_back({std::move(fd), std::move(path), is_new});
  return {};
}

Result<void> TreeWriter::end_folder(const FileRecordHead& head) {
  if (folders_.size() < 2) return fail(ErrorCode::malformed_message, "the end of no folder");
  const Folder folder = std::move(folders_.back());
  folders_.pop_back();
  // One that was there keeps its own.
  if (!folder.is_new) return {};
  if (::fchmod(folder.fd.get(), head.mode & kFilePermissions) != 0 ||
      ::futimens(folder.fd.get(), times_of(head).data()) != 0)
    return fail(io_failure(folder.path));
  return {};
}

Result<void> TreeWriter::check_replaceable(const std::string& name) const {
  struct stat status{};
  if (::fstatat(folders_.back().fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      S_ISREG(status.st_mode) || S_ISLNK(status.st_mode))
    return {};
  return fail(ErrorCode::refused, path_of(name) + " is there and is no file: it is not replaced");
}

Result<void> TreeWriter::begin_file(const std::string& name) {
  if (auto checked = check_replaceable(name); !checked) return checked;
  temporary_ = temporary_name(name);
  // Without a name it is gone with us, however we end. Not every file system can.
  file_ = UniqueFd(::openat(folders_.back().fd.get(), ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600));
  is_unnamed_ = file_ && ::access(link_of(file_).c_str(), F_OK) == 0;
  if (!is_unnamed_)
    file_ = UniqueFd(::openat(folders_.back().fd.get(), temporary_.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) return fail(io_failure(path_of(name)));
  file_name_ = name;
  return {};
}

Result<void> TreeWriter::write(std::string_view bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const auto n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(io_failure(path_of(file_name_)));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Result<void> TreeWriter::end_file(const FileRecordHead& head) {
  const int folder = folders_.back().fd.get();
  if (is_unnamed_) {
    if (::linkat(AT_FDCWD, link_of(file_).c_str(), folder, temporary_.c_str(), AT_SYMLINK_FOLLOW) !=
        0)
      return fail(io_failure(path_of(file_name_)));
    is_unnamed_ = false;
  }
  if (::fchmod(file_.get(), head.mode & kFilePermissions) != 0 ||
      ::futimens(file_.get(), times_of(head).data()) != 0)
    return fail(io_failure(path_of(file_name_)));
  // A network file system says here that it could not write.
  if (::close(file_.release()) != 0 ||
      ::renameat(folder, temporary_.c_str(), folder, file_name_.c_str()) != 0) {
    const auto error = io_failure(path_of(file_name_));
    ::unlinkat(folder, temporary_.c_str(), 0);
    return fail(error);
  }
  ++files_;
  return {};
}

Result<void> TreeWriter::make_link(const std::string& name, const std::string& target) {
  if (auto checked = check_replaceable(name); !checked) return checked;
  // The place is a folder that was there, or the only thing that comes.
  const std::size_t levels = folders_.size() - (own_name_.empty() ? 0 : 1);
  if (levels == 0 || !stays_inside(target, levels - 1)) {
    note(path_of(name) + " is left out: it is a link to " + target + ", outside of the copy");
    return {};
  }
  const int folder = folders_.back().fd.get();
  const std::string temporary = temporary_name(name);
  if (target.find('\0') != std::string::npos ||
      ::symlinkat(target.c_str(), folder, temporary.c_str()) != 0)
    return fail(io_failure(path_of(name)));
  if (::renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) {
    const auto error = io_failure(path_of(name));
    ::unlinkat(folder, temporary.c_str(), 0);
    return fail(error);
  }
  ++files_;
  return {};
}

void TreeWriter::note(std::string text) {
  if (notes_.size() < kMostNotes) notes_.push_back(std::move(text));
  if (++left_out_ == kMostNotes + 1) notes_.emplace_back("more is left out");
}

void TreeWriter::drop_file() {
  if (!file_ || folders_.empty()) return;
  if (!is_unnamed_) ::unlinkat(folders_.back().fd.get(), temporary_.c_str(), 0);
  file_.reset();
}

}  // namespace meshbus
