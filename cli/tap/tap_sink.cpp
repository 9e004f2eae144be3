#include "cli/tap/tap_sink.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "cli/support/exit_codes.h"

namespace meshbus::cli {

TapSink::TapSink(Options options) : options_(std::move(options)), printer_(options_.json) {
  if (!options_.file) out_ = printer_.header();
}

bool TapSink::take(const TapBatch& batch) {
  names_.learn(batch);
  const std::uint64_t missed = counter_.missed_before(batch);
  if (options_.file) {
    if (const auto written = options_.file->append(batch); !written) {
      error_ = written.error();
      return false;
    }
    taken_ = counter_.seen();
    return !options_.count || taken_ < *options_.count;
  }
  if (counter_.is_interrupted()) out_ += printer_.interrupted_line();
  if (missed > 0) out_ += printer_.missed_line(missed);
  for (const TapMessage& message : batch.messages()) {
    if (!is_wanted(message)) continue;
    out_ += printer_.line(message, names_, batch->host()->string_view());
    if (options_.count && ++taken_ >= *options_.count) {
      write_out();
      return false;
    }
  }
  return write_out();
}

int TapSink::code() const {
  return is_pipe_broken_ ? kBrokenPipe : error_ ? 1 : 0;
}

std::uint64_t TapSink::shown() const {
  return options_.file || !options_.count ? counter_.seen() : taken_;
}

bool TapSink::write_out() {
  std::string_view left = out_;
  while (!left.empty()) {
    const auto n = ::write(STDOUT_FILENO, left.data(), left.size());
    if (n >= 0) {
      left.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      is_pipe_broken_ = errno == EPIPE;
      error_ = Error(ErrorCode::io_error,
                     std::string("the output cannot be written: ") + std::strerror(errno));
      return false;
    }
  }
  out_.clear();
  return true;
}

bool TapSink::is_wanted(const TapMessage& message) const {
  return filter_ == nullptr ||
         filter_->matches(message.envelope, [this](std::uint64_t key) { return names_.find(key); });
}

}  // namespace meshbus::cli
