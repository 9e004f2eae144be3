#include "common/base/log.h"

#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <memory>
#include <utility>

namespace meshbus::log {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"trace", "debug", "info", "warn", "error"};
constexpr Level kDefaultLevel = Level::warn;

struct Front {
  std::atomic<Level> least{kDefaultLevel};
  std::mutex mutex;
  std::shared_ptr<const Sink> sink;
};

// Never destroyed: destructors of other static objects may still log.
Front& front() {
  static Front& only = *new Front;
  return only;
}

void write_to_stderr(Level level, std::string_view text) {
  write_line(STDERR_FILENO, "meshbus " + std::string(to_string(level)) + ": " + std::string(text));
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string without_controls(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string line;
  line.reserve(text.size() + 16);
  for (const char c : text) {
    if (!is_control(c)) {
      line += c;
    } else if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else {
      const auto byte = static_cast<unsigned char>(c);
      line += {'\\', 'x', digits[byte >> 4], digits[byte & 0xf]};
    }
  }
  return line;
}

}  // namespace

std::string_view to_string(Level level) noexcept {
  const auto index = static_cast<std::size_t>(level);
  return index < kLevelNames.size() ? kLevelNames[index] : "unknown";
}

std::optional<Level> find_level(std::string_view name) noexcept {
  const auto* found = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  if (found == kLevelNames.end()) return std::nullopt;
  return static_cast<Level>(found - kLevelNames.begin());
}

void set_sink(Sink sink, Level least) {
  Front& to = front();
  auto next = sink ? std::make_shared<const Sink>(std::move(sink)) : nullptr;
  const std::lock_guard lock(to.mutex);
  to.sink.swap(next);
  to.least.store(to.sink ? least : kDefaultLevel, std::memory_order_relaxed);
}

void set_least(Level least) {
  front().least.store(least, std::memory_order_relaxed);
}

bool is_enabled(Level level) noexcept {
  return level >= front().least.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view text) {
  if (!is_enabled(level)) return;
  std::string clean;
  if (std::any_of(text.begin(), text.end(), is_control)) {
    clean = without_controls(text);
    text = clean;
  }
  std::shared_ptr<const Sink> sink;
  {
    Front& from = front();
    const std::lock_guard lock(from.mutex);
    sink = from.sink;
  }
  // Called outside of the lock, so that a slow sink in one thread does not hold up the others.
  sink ? (*sink)(level, text) : write_to_stderr(level, text);
}

bool write_line(int fd, std::string_view text) noexcept {
  // A pipe that polls writable takes PIPE_BUF bytes without blocking, and takes them in one piece.
  constexpr std::string_view end = "\n", cut_end = " [cut]\n";
  const bool cut = text.size() + end.size() > PIPE_BUF;
  const std::string_view tail = cut ? cut_end : end;
  if (cut) text = text.substr(0, PIPE_BUF - tail.size());
  pollfd writable{fd, POLLOUT, 0};
  if (::poll(&writable, 1, 0) != 1 || (writable.revents & POLLOUT) == 0) return false;
  // A pipe without a reader polls as POLLERR, and writing to it would raise SIGPIPE.
  if ((writable.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return false;
  const std::array<iovec, 2> parts = {iovec{const_cast<char*>(text.data()), text.size()},
                                      iovec{const_cast<char*>(tail.data()), tail.size()}};
  return ::writev(fd, parts.data(), static_cast<int>(parts.size())) > 0;
}

std::optional<std::uint64_t> LineLimit::on_line(Time now) {
  if (!second_ || now - *second_ >= std::chrono::seconds(1)) {
    second_ = now;
    written_ = 0;
  }
  if (written_ >= lines_per_second_) {
    ++left_out_;
    return std::nullopt;
  }
  ++written_;
  return std::exchange(left_out_, 0);
}

void Limited::write(Level level, std::string_view text) {
  if (!is_enabled(level)) return;
  std::optional<std::uint64_t> left_out;
  {
    const std::lock_guard lock(mutex_);
    left_out = limit_.on_line(std::chrono::steady_clock::now());
  }
  if (!left_out) return;
  if (*left_out == 0) return log::write(level, text);
  log::write(level, std::string(text) + " (" + std::to_string(*left_out) +
                        " more lines like this were left out)");
}

}  // namespace meshbus::log
