#include "client/cli/input_pump.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace meshbus::cli {
namespace {

/// How long one write may take before we look whether we should stop.
constexpr std::chrono::milliseconds kSlice{500};

}  // namespace

InputPump::InputPump(ProcMesh& mesh, std::vector<std::uint64_t> ranks)
    : mesh_(mesh), ranks_(std::move(ranks)), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { run(); }) {}

InputPump::~InputPump() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
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
    // An error (a terminal that we may not read in the background, say) is the end of input like any other.
    if (n <= 0) break;
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(n));
    std::erase_if(ranks_, [&](std::uint64_t rank) { return !mesh_.write_input(rank, bytes); });
  }
  for (const auto rank : ranks_) (void)mesh_.close_input(rank, kSlice);
}

}  // namespace meshbus::cli
