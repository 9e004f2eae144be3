#include "tests/bench/comparison.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "bench/child.h"
#include "tests/bench/machine.h"

namespace meshbus::bench {

const char* to_string(Part part) noexcept {
  switch (part) {
    case Part::ours: return "ours";
    case Part::floor: return "floor";
    case Part::peer: return "peer";
  }
  return "?";
}

std::vector<double> Series::values(const std::string& figure) const {
  std::vector<double> found;
  for (const auto& round : rounds) {
    if (!round) continue;
    if (const auto at = round->find(figure); at != round->end()) found.push_back(at->second);
  }
  return found;
}

std::vector<std::string> Series::figure_names() const {
  for (const auto& round : rounds) {
    if (!round) continue;
    std::vector<std::string> names;
    for (const auto& figure : *round) names.push_back(figure.first);
    return names;
  }
  return {};
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

std::optional<Ratio> ratio_of(const Series& ours, const Series& base, const std::string& figure) {
  std::vector<double> by_round;
  for (std::size_t i = 0; i < std::min(ours.rounds.size(), base.rounds.size()); ++i) {
    if (!ours.rounds[i] || !base.rounds[i]) continue;
    const auto above = ours.rounds[i]->find(figure), below = base.rounds[i]->find(figure);
    if (above == ours.rounds[i]->end() || below == base.rounds[i]->end() || below->second == 0)
      continue;
    by_round.push_back(above->second / below->second);
  }
  if (by_round.empty()) return std::nullopt;
  const Spread spread = spread_of(by_round);
  return Ratio{spread_of(ours.values(figure)).median / spread_of(base.values(figure)).median,
               spread.least, spread.most};
}

bool is_reached(const Bar& bar, double limit, double value) noexcept {
  return bar.direction == Bar::Direction::at_most ? value <= limit : value >= limit;
}

const Series& Comparison::series_of(std::size_t index, const std::string& side) const {
  static const Series none;
  const auto at = results_[index].find(side);
  return at == results_[index].end() ? none : at->second;
}

void Comparison::add(Case one) {
  if (!settings_.sides.empty()) {
    std::erase_if(one.sides, [this](const Side& side) {
      return std::ranges::find(settings_.sides, side.name) == settings_.sides.end();
    });
  }
  cases_.push_back(std::move(one));
}

int Comparison::run() {
  catch_signals();
  if (settings_.cpu) pin_to_cpu(*settings_.cpu);
  load_before_ = load_average();
  const std::string where = settings_.cpu ? "everything on CPU " + std::to_string(*settings_.cpu)
                                          : std::string("not pinned");
  std::printf("%s: %s; %d rounds, %s, load average %.1f\n", name_.c_str(), title_.c_str(),
              settings_.rounds, where.c_str(), load_before_);
  if (!is_optimised())
    std::printf(
        "  this is a build with assertions: compare nothing with these figures (use the release "
        "preset)\n");
  for (const std::string& text : notes_) std::printf("  %s\n", text.c_str());
  for (const auto& [side, why] : left_out_)
    std::printf("  left out: %s: %s\n", side.c_str(), why.c_str());
  measure();
  print();
  if (!settings_.json.empty()) write_json();
  return 0;
}

void Comparison::measure() {
  results_.resize(cases_.size());
  for (int round = 1; round <= settings_.rounds; ++round) {
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      for (const Side& side : cases_[i].sides) {
        Series& series = results_[i][side.name];
        std::printf("  round %d  %6.0f %-5s %-22s", round, cases_[i].size, cases_[i].unit.c_str(),
                    side.name.c_str());
        std::fflush(stdout);
        throw_if_interrupted();
        try {
          series.rounds.emplace_back(side.measure());
          for (const auto& [name, value] : *series.rounds.back())
            std::printf("  %s %.*f", name.c_str(), value < 100 ? 2 : 0, value);
        } catch (const TimedOut& late) {
          series.rounds.emplace_back(std::nullopt);
          series.timed_out.push_back(late.why);
          std::printf("  %s", late.why.c_str());
        } catch (const std::exception& error) {
          throw std::runtime_error(side.name + ": " + error.what());
        }
        std::printf("\n");
      }
    }
  }
}

std::vector<Fit> Comparison::fits() const {
  std::vector<Fit> found;
  for (const std::string& figure : fitted_) {
    std::map<std::string, std::vector<std::pair<double, double>>> points;
    std::string unit;
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      for (const auto& [side, series] : results_[i]) {
        const auto values = series.values(figure);
        if (!values.empty()) points[side].emplace_back(cases_[i].size, spread_of(values).median);
      }
      unit = cases_[i].unit;
    }
    for (const auto& [side, all] : points) {
      if (all.size() < 3) continue;
      const double n = static_cast<double>(all.size());
      double x = 0, y = 0, xx = 0, xy = 0;
      for (const auto& [size, cost] : all)
        x += size, y += cost, xx += size * size, xy += size * cost;
      const double per_unit = (n * xy - x * y) / (n * xx - x * x);
      found.push_back({side, figure, unit, (y - per_unit * x) / n, per_unit});
    }
  }
  return found;
}

}  // namespace meshbus::bench
