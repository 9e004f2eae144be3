#include "cli/hands/rank_input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "client/src/context/context_core.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::cli {
namespace {

/// A rank may read its stdin when it likes.
constexpr std::chrono::hours kRankInputLimit{24 * 365};
constexpr std::size_t kRankInputPiece = 64 * 1024;

}  // namespace

Result<std::unique_ptr<RankInput>> RankInput::start(const std::shared_ptr<ContextCore>& core,
                                                    std::string mesh, const RankReport& rank,
                                                    Options options) {
  auto way = core->find_connection(core, rank.host);
  if (!way) return fail(way.error());
  std::unique_ptr<RankInput> input(
      new RankInput(std::move(*way), std::move(mesh), rank, std::move(options)));
  input->thread_ = std::async(std::launch::async, [self = input.get()] { self->run(); });
  return input;
}

Result<void> RankInput::write(std::string_view bytes, bool end) {
  wire::WriteInputT input;
  input.mesh = mesh_;
  input.rank = rank_;
  input.data.assign(bytes.begin(), bytes.end());
  input.end = end;
  const auto answer =
      way_.get()->ask(Destination::to_agent(host_), std::move(input), kRankInputLimit).get();
  if (!answer) return fail(answer.error());
  return {};
}

void RankInput::run() {
  std::string buffer(kRankInputPiece, '\0');
  while (true) {
    const auto n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    // A terminal that we may not read in the background, say: the rank keeps its stdin.
    if (n < 0)
      return options_.on_stopped(std::string("our stdin cannot be read: ") + std::strerror(errno));
    const bool is_end = n == 0;
    if (is_end && !options_.closes) return;
    const auto written = write({buffer.data(), static_cast<std::size_t>(n)}, is_end);
    if (!written) return options_.on_stopped("it takes no input: " + written.error().detail());
    if (is_end) return;
  }
}

}  // namespace meshbus::cli
