#include "client/bench/casts.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/bench/child.h"
#include "client/bench/end.h"
#include "client/bench/measured.h"

namespace meshbus::bench {

CastFigures cast_to(Context& context, const ProcMeshRef& view, std::size_t size, std::size_t count) {
  using Clock = std::chrono::steady_clock;
  using Microseconds = std::chrono::duration<double, std::micro>;
  constexpr std::size_t warm_up = 3;
  const std::string body(size, 'x');
  std::vector<double> times;
  Clock::time_point begin;
  for (std::size_t i = 0; i < warm_up + count; ++i) {
    throw_if_interrupted();
    const auto before = Clock::now();
    if (i == warm_up) begin = before;
    const auto answers = context.call(view, kCastPort, body, kPatience);
    const Microseconds took = Clock::now() - before;
    if (!answers) throw std::runtime_error(answers.error().to_string());
    for (std::size_t rank = 0; rank < answers->size(); ++rank) {
      const auto& answer = (*answers)[rank];
      if (!answer) throw std::runtime_error("rank " + std::to_string(rank) + ": " + answer.error().to_string());
      if (answer->size() != size) throw std::runtime_error("rank " + std::to_string(rank) + " answers something else");
    }
    if (i >= warm_up) times.push_back(took.count());
  }
  const Microseconds all = Clock::now() - begin;
  return {.p50_us = percentile(times, 50),
          .p99_us = percentile(times, 99),
          .per_s = static_cast<double>(count * view.num_ranks()) / all.count() * 1e6};
}

}  // namespace meshbus::bench
