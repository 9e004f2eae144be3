#include "common/config/logging.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace meshbus {
namespace {

/// Writes whole lines to a descriptor without ever waiting for its reader. spdlog's own stderr sink
/// blocks on a full pipe.
class NonBlockingSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit NonBlockingSink(int fd) : fd_(fd) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string text(line.data(), line.size());
    if (left_out_ != 0)
      text +=
          " (" + std::to_string(left_out_) + " lines before this were left out: nobody read them)";
    if (log::write_line(fd_, text)) {
      left_out_ = 0;
    } else {
      ++left_out_;
    }
  }
  void flush_() override {}

 private:
  int fd_;
  std::uint64_t left_out_ = 0;
};

spdlog::level::level_enum to_spdlog(log::Level level) {
  switch (level) {
    case log::Level::trace: return spdlog::level::trace;
    case log::Level::debug: return spdlog::level::debug;
    case log::Level::info: return spdlog::level::info;
    case log::Level::warn: return spdlog::level::warn;
    case log::Level::error: return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// In spdlog's patterns a percent sign starts a field.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '%' ? 2 : 1, c);
  return out;
}

}  // namespace

void set_up_logging(std::string_view role, log::Level level) {
  auto logger =
      std::make_shared<spdlog::logger>("meshbus", std::make_shared<NonBlockingSink>(STDERR_FILENO));
  // No %l: spdlog says "warning" and "critical" where we say "warn" and "error". No line end:
  // write_line() adds it.
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      "%Y-%m-%dT%H:%M:%S.%eZ " + escaped(role) + "[%P] %v", spdlog::pattern_time_type::utc, ""));
  logger->set_level(to_spdlog(level));
  log::set_sink(
      [logger](log::Level at, std::string_view text) {
        // The pattern's fields are ours, the text is data: it is passed as an argument and never
        // read as a format.
        logger->log(to_spdlog(at), "{}: {}", log::to_string(at), text);
      },
      level);
}

}  // namespace meshbus
