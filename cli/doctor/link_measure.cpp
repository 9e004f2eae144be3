#include "cli/doctor/link_measure.h"

#include <algorithm>
#include <deque>
#include <future>
#include <sstream>
#include <vector>

#include "cli/doctor/probe.h"

namespace meshbus::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int kMostRoundTrips = 50;
/// A probe measures so many round trips even when the time is over, unless the link is very slow:
/// the first one also connects the hosts, and may have taken all of the time.
constexpr int kLeastRoundTrips = 3;
constexpr milliseconds kRoundTripTime{200};
/// Half of the largest body, and as many under way as fill a link of 1 GB/s with a round trip of
/// 2 ms.
constexpr std::size_t kBodySize = std::size_t{512} << 10;
constexpr std::size_t kBodiesUnderWay = 4;
/// Many more than are under way: those may all be there when a pause ends.
constexpr std::size_t kBodiesInARow = 4 * kBodiesUnderWay;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr milliseconds kBandwidthTime = kMeasureTime - kRoundTripTime;

Result<microseconds> fastest_round_trip(Proc& proc, const ProcId& to) {
  const auto start = Clock::now();
  const auto end = start + kRoundTripTime;
  auto fastest = microseconds::max();
  for (int i = 0; i < kMostRoundTrips; ++i) {
    const auto now = Clock::now();
    const bool is_few = i <= kLeastRoundTrips && now < start + kMeasureTime;
    if (i > 1 && now >= end && !is_few) break;
    const auto begin = Clock::now();
    if (const auto answer = proc.call(to, kEchoPort, {}, kMeasureLimit); !answer)
      return fail(answer.error());
    // The first call also introduces the other host.
    if (i > 0)
      fastest = std::min(fastest, std::chrono::duration_cast<microseconds>(Clock::now() - begin));
  }
  return fastest;
}

/// The rate over all bodies, or the best one over some in a row: while a machine is busy with
/// something else its links look slow, but not all the time.
double best_rate(Clock::time_point begin, const std::vector<Clock::time_point>& arrivals) {
  const auto rate = [](std::size_t bodies, Clock::duration time) {
    return static_cast<double>(bodies * kBodySize) / std::chrono::duration<double>(time).count();
  };
  if (arrivals.empty()) return 0;
  double best = rate(arrivals.size(), arrivals.back() - begin);
  for (std::size_t i = kBodiesInARow; i < arrivals.size(); ++i)
    best = std::max(best, rate(kBodiesInARow, arrivals[i] - arrivals[i - kBodiesInARow]));
  return best;
}

Result<double> bandwidth(Proc& proc, const ProcId& to) {
  const std::string body(kBodySize, 'x');
  std::deque<std::future<Result<std::string>>> under_way;
  const auto begin = Clock::now();
  std::vector<Clock::time_point> arrivals;
  std::size_t sent = 0;
  const auto is_time_left = [&] {
    return sent < kMostBytes && Clock::now() < begin + kBandwidthTime;
  };
  while (is_time_left() || !under_way.empty()) {
    if (is_time_left() && under_way.size() < kBodiesUnderWay) {
      under_way.push_back(proc.call_async(to, kEchoPort, body, kMeasureLimit));
      sent += body.size();
      continue;
    }
    const auto answer = under_way.front().get();
    under_way.pop_front();
    if (!answer) return fail(answer.error());
    arrivals.push_back(Clock::now());
  }
  return best_rate(begin, arrivals);
}

}  // namespace

std::string answer_text(const Result<Pace>& answer) {
  std::ostringstream text;
  if (answer) {
    text << "0 " << answer->round_trip.count() << ' ' << answer->bytes_per_s;
  } else {
    text << static_cast<int>(answer.error().code()) << ' ' << answer.error().detail();
  }
  return text.str();
}

Result<Pace> parse_answer(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::uint16_t code = 0;
  std::int64_t round_trip = 0;
  Pace answer;
  if (words >> code && code != 0) {
    std::string detail;
    std::getline(words >> std::ws, detail, '\0');
    return fail(static_cast<ErrorCode>(code), detail);
  }
  if (!(words >> round_trip >> answer.bytes_per_s))
    return fail(ErrorCode::malformed_message, "a probe's answer about a link");
  answer.round_trip = microseconds(round_trip);
  return answer;
}

Result<Pace> measure_link(Proc& proc, const ProcId& to) {
  const auto round_trip = fastest_round_trip(proc, to);
  if (!round_trip) return fail(round_trip.error());
  const auto bytes_per_s = bandwidth(proc, to);
  // A slow link may lose a large body to the limit: what fits into it is known then.
  if (!bytes_per_s && bytes_per_s.error().code() != ErrorCode::timeout)
    return fail(bytes_per_s.error());
  return Pace{*round_trip,
              bytes_per_s.value_or(static_cast<double>(kBodySize) /
                                   std::chrono::duration<double>(kMeasureLimit).count())};
}

}  // namespace meshbus::cli::doctor
