#include "agent/host/streams/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "agent/host/streams/line_tail.h"
#include "common/base/log.h"

namespace meshbus::host {
namespace {

/// Files kept open between two writes, of all procs together; the others are opened for each.
constexpr int kMostOpen = 512;
int open_files = 0;

}  // namespace

Result<std::string> make_log_directory(const std::string& directory, const std::string& mesh) {
  const auto refuse = [](const std::string& path, const std::string& why) {
    return fail(ErrorCode::configuration_error,
                "logs.directory: " + path + ": " + why +
                    "; correct it, or leave it empty for no log files");
  };
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return refuse(directory, error.message());
  std::string path = directory + "/" + mesh;
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return refuse(path, std::strerror(errno));
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return refuse(path, std::strerror(errno));
  if (!S_ISDIR(status.st_mode)) return refuse(path, "is no directory");
  if (status.st_uid != ::geteuid()) return refuse(path, "belongs to somebody else");
  return path;
}

std::string LogFile::path_of(const Part& part) const {
  if (is_begun_ && &part == &parts_.back()) return path_;
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), ".%015llu",
                static_cast<unsigned long long>(part.begin));
  return path_ + digits.data();
}

LogFile::PartsByName LogFile::find_parts(const std::string& directory) {
  PartsByName found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const auto dot = name.rfind('.');
    if (dot == std::string::npos) continue;
    Part part;
    const auto* last = name.data() + name.size();
    if (std::from_chars(name.data() + dot + 1, last, part.begin).ptr != last ||
        dot + 1 == name.size())
      continue;
    std::error_code gone;
    part.end = part.begin + entry.file_size(gone);
    if (!gone) found[name.substr(0, dot)].push_back(part);
  }
  for (auto& [name, parts] : found)
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.begin < b.begin; });
  return found;
}

void LogFile::resume(std::uint64_t begin, std::deque<Part> aside) {
  parts_ = std::move(aside);
  struct stat status{};
  // An empty file was made in the last moment, perhaps before `begin` was noted: it is begun again.
  if (::lstat(path_.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0)
    return;
  parts_.push_back({begin, begin + static_cast<std::uint64_t>(status.st_size)});
  is_begun_ = true;
}

void LogFile::append(std::uint64_t offset, Bytes bytes) {
  if (retry_at_ != std::chrono::steady_clock::time_point()) {
    if (std::chrono::steady_clock::now() < retry_at_) {
      lost_ += bytes.size();
      return;
    }
    retry_at_ = {};
    log::warn(path_ + ": going on; " + std::to_string(lost_) + " bytes are in no file");
    lost_ = 0;
  }
  if (offset < end()) {
    const auto known = std::min<std::uint64_t>(end() - offset, bytes.size());
    bytes.remove_prefix(static_cast<std::size_t>(known));
    offset += known;
  }
  if (is_begun_ && offset > end()) set_aside();
  while (!bytes.empty()) {
    const auto size = is_begun_ ? end() - parts_.back().begin : 0;
    const auto room = limits_.size - std::min(limits_.size, size);
    auto now =
        bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(room, bytes.size())));
    if (now.size() < bytes.size()) {
      if (const auto line = now.rfind('\n'); line != Bytes::npos) {
        now = now.substr(0, line + 1);
      } else if (size > 0 && now.size() < limits_.size / 4) {
        now = {};  // a line that begins near the end of a file: it is for the next one
      }
    }
    if (!now.empty() && !write(offset, now)) {
      lost_ += bytes.size();
      return;
    }
    bytes.remove_prefix(now.size());
    offset += now.size();
    if (!bytes.empty()) set_aside();
  }
}

bool LogFile::open(std::uint64_t offset) {
  if (fd_) return true;
  fd_.reset(::open(
      path_.c_str(),
      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | (is_begun_ ? 0 : O_TRUNC),
      0600));
  if (!fd_) {
    give_up("open");
    return false;
  }
  ++open_files;
  if (!std::exchange(is_begun_, true)) {
    parts_.push_back({offset, offset});
    if (on_begun_) on_begun_(offset);
  }
  return true;
}

bool LogFile::write(std::uint64_t offset, Bytes bytes) {
  if (!open(offset)) return false;
  while (!bytes.empty()) {
    const auto written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written > 0) {
      parts_.back().end += static_cast<std::uint64_t>(written);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      give_up("write");
      return false;
    }
  }
  if (open_files > kMostOpen) close();
  return true;
}

void LogFile::give_up(const char* step) {
  static log::Limited limited(10);
  limited.warn(path_ + ": cannot " + step + " it: " + std::strerror(errno) +
               "; what comes in the next " + std::to_string(kRetryAfter.count()) +
               " s is in no file");
  close();
  retry_at_ = std::chrono::steady_clock::now() + kRetryAfter;
}

void LogFile::set_aside() {
  close();
  if (!is_begun_) return;
  const Part part = parts_.back();
  is_begun_ = false;
  const std::string aside = path_of(part);
  if (::rename(path_.c_str(), aside.c_str()) != 0) {
    // The file or its directory was removed: what it had is lost, what comes is not.
    log::warn(path_ + ": cannot be set aside as " + aside + ": " + std::strerror(errno));
    parts_.pop_back();
  }
  while (parts_.size() >= limits_.files && !parts_.empty()) {
    ::unlink(path_of(parts_.front()).c_str());
    parts_.pop_front();
  }
}

void LogFile::close() {
  if (!fd_) return;
  fd_.reset();
  --open_files;
}

LogFile::Piece LogFile::read(std::uint64_t offset, std::size_t most) const {
  Piece piece;
  for (const Part& part : parts_) {
    if (part.end <= offset) continue;
    piece.offset = std::max(offset, part.begin);
    const UniqueFd fd(::open(path_of(part).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) continue;
    piece.bytes.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(most, part.end - piece.offset)));
    ssize_t got = -1;
    do {
      got = ::pread(fd.get(), piece.bytes.data(), piece.bytes.size(),
                    static_cast<off_t>(piece.offset - part.begin));
    } while (got < 0 && errno == EINTR);
    piece.bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (!piece.bytes.empty()) return piece;
  }
  piece.bytes.clear();
  return piece;
}

std::uint64_t LogFile::offset_of_last(std::uint64_t lines, std::uint64_t end,
                                      std::size_t most) const {
  const auto least = std::max(begin(), end - std::min<std::uint64_t>(end, most));
  std::string text;
  for (auto at = least; at < end;) {
    auto piece = read(at, static_cast<std::size_t>(end - at));
    if (piece.bytes.empty() || piece.offset >= end) break;
    if (piece.offset != at) text.clear();  // a gap: only what is behind it
    piece.bytes.resize(
        static_cast<std::size_t>(std::min<std::uint64_t>(piece.bytes.size(), end - piece.offset)));
    text += piece.bytes;
    at = piece.offset + piece.bytes.size();
  }
  std::uint64_t missing = 0;
  return end - text.size() + find_last_lines(text, lines, missing);
}

}  // namespace meshbus::host
