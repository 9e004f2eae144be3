#include "cli/run/input_pump.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <string>

namespace meshbus::cli {
namespace {

/// How long one write may take before we look whether we should stop.
constexpr std::chrono::milliseconds kSlice{500};

}  // namespace

InputPump::InputPump(ProcMesh& mesh, std::vector<std::uint64_t> ranks,
                     std::function<void(std::string)> on_lost)
    : mesh_(mesh),
      ranks_(std::move(ranks)),
      on_lost_(std::move(on_lost)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_(std::async(std::launch::async, [this] { run(); })) {}

bool InputPump::stop_within(std::chrono::milliseconds limit) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(stop_.get(), &one, sizeof one);
  return thread_.wait_for(limit) == std::future_status::ready;
}

InputPump::~InputPump() {
  stop_within(std::chrono::milliseconds(0));
  thread_.wait();
}

bool InputPump::is_gone(std::uint64_t rank) const {
  const auto ranks = mesh_.known().ranks;
  return rank >= ranks.size() || ranks[rank].is_terminal() || ranks[rank].restarts > 0;
}

void InputPump::run() {
  std::string buffer(64 * 1024, '\0');
  while (!ranks_.empty()) {
    pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) break;
    if (fds[1].revents != 0) return;
    if (fds[0].revents == 0) continue;
    const auto n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    // An error (a terminal that we may not read in the background, say) is the end of input like
    // any other.
    if (n <= 0) break;
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(n));
    for (auto rank = ranks_.begin(); rank != ranks_.end();) {
      const auto written = mesh_.write_input(*rank, bytes);
      if (!written && written.error().code() != ErrorCode::not_exist && !is_gone(*rank)) {
        on_lost_("stdin of rank " + std::to_string(*rank) + ": " + written.error().to_string());
        return;
      }
      rank = written ? std::next(rank) : ranks_.erase(rank);
    }
  }
  for (const auto rank : ranks_) (void)mesh_.close_input(rank, kSlice);
}

}  // namespace meshbus::cli
