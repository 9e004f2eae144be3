#include "common/files/tree_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/files/file_records.h"

namespace meshbus {
namespace {

FileRecordHead head_of(FileRecord type, const struct stat& status) {
  return {.type = type,
          .mode = static_cast<std::uint32_t>(status.st_mode) & kFilePermissions,
          .time_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec,
          .size = static_cast<std::uint64_t>(status.st_size)};
}

/// What a path is called at the other end.
std::string last_component(const std::string& path) {
  std::string whole = path;
  // "." and ".." and "a/.." have names, too.
  if (char* const real = ::realpath(path.c_str(), nullptr); real != nullptr) {
    const auto last = path.substr(path.find_last_not_of('/') == std::string::npos
                                      ? 0
                                      : path.find_last_of('/', path.find_last_not_of('/')) + 1);
    if (last.starts_with('.') && last.find_first_not_of("./") == std::string::npos) whole = real;
    std::free(real);  // NOLINT(cppcoreguidelines-no-malloc): realpath's
  }
  while (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
  const auto name = whole.substr(whole.find_last_of('/') + 1);
  return name.empty() ? "root" : name;
}

const char* kind_of(const struct stat& status) {
  if (S_ISSOCK(status.st_mode)) return "a socket";
  if (S_ISFIFO(status.st_mode)) return "a pipe";
  return "a device";
}

}  // namespace

void TreeReader::fail_with(const std::string& text, std::string& out) {
  problem_ = text;
  is_over_ = true;
  add_file_record(out, {.type = FileRecord::failure}, {}, text.substr(0, kMostFileData));
}

bool TreeReader::next(std::string& out) {
  if (is_over_) return false;
  if (!has_begun_) {
    has_begun_ = true;
    add_file_record(out, {.type = FileRecord::begin, .mode = kFileFormat});
  }
  if (file_) {
    read_file(out);
  } else if (!folders_.empty()) {
    read_folder(out);
  } else if (at_ < paths_.size()) {
    const std::string& path = paths_[at_++];
    begin(AT_FDCWD, path, path, last_component(path), /*follow=*/true, out);
  } else {
    is_over_ = true;
    add_file_record(out, {.type = FileRecord::end});
  }
  return !is_over_;
}

void TreeReader::begin(int folder, const std::string& name, const std::string& path,
                       const std::string& called, bool follow, std::string& out) {
  const auto failed = [&] { fail_with(path + ": " + std::strerror(errno), out); };
  struct stat status{};
  if (::fstatat(folder, name.c_str(), &status, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0)
    return failed();
  if (S_ISLNK(status.st_mode)) {
    std::array<char, 4096> target{};
    const auto n = ::readlinkat(folder, name.c_str(), target.data(), target.size());
    if (n < 0) return failed();
    return add_file_record(out, head_of(FileRecord::link, status), called,
                           {target.data(), static_cast<std::size_t>(n)});
  }
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return add_file_record(out, {.type = FileRecord::note}, {},
                           path + " is left out: it is " + kind_of(status));
  UniqueFd fd(::openat(folder, name.c_str(),
                       O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW)));
  if (!fd || ::fstat(fd.get(), &status) != 0) return failed();
  // It was replaced meanwhile.
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return fail_with(path + " is " + kind_of(status) + " now", out);
  if (S_ISDIR(status.st_mode)) return begin_folder(std::move(fd), status, path, called, out);
  file_ = std::move(fd);
  file_path_ = path;
  file_status_ = status;
  add_file_record(out, head_of(FileRecord::file, status), called);
}

void TreeReader::begin_folder(UniqueFd fd, const struct stat& status, const std::string& path,
                              const std::string& called, std::string& out) {
  if (folders_.size() >= kDeepestFolder) return fail_with(path + ": it is too deep", out);
  Folder folder{.status = status, .path = path};
  folder.entries.reset(::fdopendir(fd.get()));
  if (folder.entries == nullptr) return fail_with(path + ": " + std::strerror(errno), out);
  (void)fd.release();
  add_file_record(out, head_of(FileRecord::directory, status), called);
  folders_.push_back(std::move(folder));
}

void TreeReader::read_file(std::string& out) {
  std::array<char, kMostFileData> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const auto n = ::read(file_.get(), piece.data(), piece.size());
  if (n < 0 && errno == EINTR) return;
  if (n < 0) return fail_with(file_path_ + ": " + std::strerror(errno), out);
  if (n > 0) {
    bytes_ += static_cast<std::uint64_t>(n);
    return add_file_record(out, {.type = FileRecord::data}, {},
                           {piece.data(), static_cast<std::size_t>(n)});
  }
  ++files_;
  file_.reset();
  add_file_record(out, head_of(FileRecord::end_file, file_status_));
}

void TreeReader::read_folder(std::string& out) {
  Folder& folder = folders_.back();
  errno = 0;
  const dirent* const entry = ::readdir(folder.entries.get());
  if (entry == nullptr) {
    if (errno != 0) return fail_with(folder.path + ": " + std::strerror(errno), out);
    add_file_record(out, head_of(FileRecord::end_directory, folder.status));
    folders_.pop_back();
    return;
  }
  const std::string name = entry->d_name;
  if (name == "." || name == "..") return;
  begin(::dirfd(folder.entries.get()), name, folder.path + "/" + name, name, /*follow=*/false, out);
}

}  // namespace meshbus
