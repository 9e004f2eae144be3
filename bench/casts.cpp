#include "bench/casts.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/child.h"
#include "bench/end.h"
#include "bench/measured.h"

namespace meshbus::bench {

namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

/// `count` rounds of one message to each of so many ranks.
template <typename Once>
CastFigures timed(std::size_t ranks, std::size_t count, const Once& once) {
  constexpr std::size_t warm_up = 3;
  std::vector<double> times;
  Clock::time_point begin;
  for (std::size_t i = 0; i < warm_up + count; ++i) {
    throw_if_interrupted();
    const auto before = Clock::now();
    if (i == warm_up) begin = before;
    once();
    const Microseconds took = Clock::now() - before;
    if (i >= warm_up) times.push_back(took.count());
  }
  const Microseconds all = Clock::now() - begin;
  return {.p50_us = percentile(times, 50),
          .p99_us = percentile(times, 99),
          .per_s = static_cast<double>(count * ranks) / all.count() * 1e6};
}

}  // namespace

CastFigures cast_to(Context& context, const ProcMeshRef& view, std::size_t size,
                    std::size_t count) {
  const std::string body(size, 'x');
  return timed(view.num_ranks(), count, [&] {
    const auto answers = must(context.call(view, kCastPort, body, kAnswerLimit));
    for (std::size_t rank = 0; rank < answers.size(); ++rank) {
      const auto& answer = answers[rank];
      if (!answer)
        throw std::runtime_error("rank " + std::to_string(rank) + ": " +
                                 answer.error().to_string());
      if (answer->size() != size)
        throw std::runtime_error("rank " + std::to_string(rank) + " answers something else");
    }
  });
}

CastFigures cast_and_reduce(const ActorView& view, std::size_t size, std::size_t count) {
  const std::string body(size, 'x');
  return timed(view.size(), count, [&] {
    const auto sum = must(view.accumulate("one", body, "sum", {.deadline = kAnswerLimit}));
    if (!sum.errors.empty())
      throw std::runtime_error("rank " + std::to_string(sum.errors.begin()->first) + ": " +
                               sum.errors.begin()->second.to_string());
    if (!sum.value || to_text(*sum.value) != std::to_string(view.size()))
      throw std::runtime_error("not every rank has answered once");
  });
}

}  // namespace meshbus::bench
