#include "common/base/event_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/base/log.h"
#include "common/base/os_error.h"

namespace meshbus {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".jsonl";
constexpr std::size_t kChunk = 64 * 1024;

std::uint64_t size_of(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && status.st_size > 0
             ? static_cast<std::uint64_t>(status.st_size)
             : 0;
}

ssize_t read_at(int fd, char* to, std::size_t bytes, std::uint64_t offset) {
  for (;;) {
    const auto got = ::pread(fd, to, bytes, static_cast<off_t>(offset));
    if (got >= 0 || errno != EINTR) return got;
  }
}

}  // namespace

std::string EventLog::aside_path(std::uint64_t begin) const {
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), ".%015llu", static_cast<unsigned long long>(begin));
  return path_ + digits.data() + std::string(kEnding);
}

EventLog::Part EventLog::find_aside() const {
  Part found;
  const fs::path base(path_);
  const std::string prefix = base.filename().string() + ".";
  std::error_code error;
  for (fs::directory_iterator entry(base.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(kEnding) ||
        name.size() <= prefix.size() + kEnding.size())
      continue;
    Part part{entry->path().string(), 0};
    const char* const last = name.data() + name.size() - kEnding.size();
    if (std::from_chars(name.data() + prefix.size(), last, part.begin).ptr != last) continue;
    if (found.path.empty() || part.begin > found.begin) std::swap(found, part);
    if (!part.path.empty()) ::unlink(part.path.c_str());
  }
  return found;
}

Result<EventLog> EventLog::open(std::string path, std::uint64_t size, bool is_synced) {
  EventLog log;
  log.path_ = std::move(path);
  log.size_ = size;
  log.is_synced_ = is_synced;
  std::error_code error;
  fs::create_directories(fs::path(log.path_).parent_path(), error);
  if (const Part aside = log.find_aside(); !aside.path.empty()) {
    const auto bytes = fs::file_size(aside.path, error);
    log.begin_ = aside.begin + (error ? 0 : bytes);
  }
  if (auto opened = log.open_current(); !opened) return fail(opened.error());
  return log;
}

Result<void> EventLog::open_current() {
  const auto path = current_path();
  fd_.reset(
      ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
  if (!fd_)
    return fail(ErrorCode::configuration_error, os_error("the event log " + path + ": open"));
  return {};
}

void EventLog::set_aside() {
  const auto size = size_of(fd_.get());
  const auto aside = find_aside();
  if (::rename(current_path().c_str(), aside_path(begin_).c_str()) != 0)
    log::warn(os_error("the event log " + current_path() + " cannot be set aside: rename"));
  if (!aside.path.empty()) ::unlink(aside.path.c_str());
  begin_ += size;
  if (auto opened = open_current(); !opened)
    log::error(opened.error().detail() + "; what happens is not written down any more");
}

void EventLog::append(std::string_view lines) {
  if (!fd_ || lines.empty()) return;
  auto size = size_of(fd_.get());
  if (size > 0 && size + lines.size() > size_ / 2) {
    set_aside();
    size = fd_ ? size_of(fd_.get()) : 0;
  }
  if (!fd_) {
    ++lost_;
    return;
  }
  // The last writer may have died in the middle of its line.
  std::string ended;
  char last = '\n';
  if (size > 0 && read_at(fd_.get(), &last, 1, size - 1) == 1 && last != '\n')
    lines = ended.append("\n").append(lines);
  ssize_t written = -1;
  do {
    written = ::write(fd_.get(), lines.data(), lines.size());
  } while (written < 0 && errno == EINTR);
  const bool is_written = written == static_cast<ssize_t>(lines.size());
  if (is_written && (!is_synced_ || ::fdatasync(fd_.get()) == 0)) return;
  ++lost_;
  if (is_written) written = -1;
  static log::Limited limited(1);
  limited.warn(written < 0 ? os_error("the event log " + current_path() + ": write or sync")
                           : "the event log " + current_path() +
                                 ": not all could be written: is the disk full?");
}

std::uint64_t EventLog::end() const {
  return fd_ ? begin_ + size_of(fd_.get()) : 0;
}

EventLog::Stop EventLog::read(std::uint64_t offset, std::uint64_t most,
                              const std::function<bool(std::string_view)>& each) const {
  Stop stop{offset, true};
  if (!fd_) return stop;
  const Part aside = find_aside();
  const Part current{current_path(), begin_};
  std::uint64_t looked = 0;
  for (const Part* part : {&aside, &current}) {
    if (part->path.empty()) continue;
    const UniqueFd file(::open(part->path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) continue;
    if (stop.next < part->begin) stop.next = part->begin;
    std::string pending;
    std::array<char, kChunk> chunk{};
    for (std::uint64_t at = stop.next;;) {
      const auto got = read_at(file.get(), chunk.data(), chunk.size(), at - part->begin);
      if (got <= 0) break;
      at += static_cast<std::uint64_t>(got);
      looked += static_cast<std::uint64_t>(got);
      pending.append(chunk.data(), static_cast<std::size_t>(got));
      std::size_t begin = 0;
      for (auto end = pending.find('\n'); end != std::string::npos;
           end = pending.find('\n', begin)) {
        const auto line = std::string_view(pending).substr(begin, end - begin);
        if (line.size() <= kLongestLine && !each(line)) return {stop.next, false};
        stop.next += end + 1 - begin;
        begin = end + 1;
      }
      pending.erase(0, begin);
      // What has no end is no line: it is skipped, whole.
      if (pending.size() > kLongestLine) {
        stop.next += pending.size();
        pending.clear();
      }
      if (looked >= most) return {stop.next, false};
    }
  }
  return stop;
}

}  // namespace meshbus
