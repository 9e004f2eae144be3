// How a comparison is told: a table for people, JSON to keep.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "tests/bench/comparison.h"
#include "tests/bench/machine.h"

namespace meshbus::bench {

namespace {

using Json = nlohmann::ordered_json;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : "%.2f", value);
  return text;
}

/// Finer than figures: bars are about the second decimal.
std::string ratio_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 100 ? "%.0f" : "%.3f", value);
  return text;
}

/// Four significant digits: more than any spread leaves certain.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

std::string verdict(const Bar& bar, const char* what, std::optional<double> limit, double value) {
  if (!limit) return "";
  const char* sign = bar.direction == Bar::Direction::at_most ? "<=" : ">=";
  return std::string("; ") + what + " " + sign + " " + number(*limit) + ": " +
         (is_reached(bar, *limit, value) ? "reached" : "MISSED");
}

Json to_json(const Series& series) {
  Json figures = Json::object();
  for (const std::string& name : series.figure_names()) {
    auto values = series.values(name);
    for (double& value : values) value = rounded(value);
    const Spread spread = spread_of(values);
    figures[name] = {{"median", spread.median},
                     {"least", spread.least},
                     {"most", spread.most},
                     {"by_round", values}};
  }
  return figures;
}

/// The ratio, or the figure itself when the bar has no base.
std::optional<Ratio> measured(const Bar& bar, const Series& ours, const Series& base) {
  if (!bar.base.empty()) return ratio_of(ours, base, bar.figure);
  const auto values = ours.values(bar.figure);
  if (values.empty()) return std::nullopt;
  const Spread spread = spread_of(values);
  return Ratio{spread.median, spread.least, spread.most};
}

Json to_json(const Bar& bar, const Ratio& ratio) {
  Json json = {{"figure", bar.figure}, {"side", bar.side}};
  json["base"] = bar.base.empty() ? Json() : Json(bar.base);
  json["value"] = rounded(ratio.value);
  json["least"] = rounded(ratio.least);
  json["most"] = rounded(ratio.most);
  const char* direction = bar.direction == Bar::Direction::at_most ? "at_most" : "at_least";
  for (const auto& [name, limit] : {std::pair{"first", bar.first}, std::pair{"aim", bar.aim}})
    if (limit)
      json[name] = {{direction, *limit}, {"reached", is_reached(bar, *limit, ratio.value)}};
  return json;
}

}  // namespace

void Comparison::print_case(std::size_t index) const {
  const Case& one = cases_[index];
  std::printf("%.0f %s: medians (smallest to largest round)\n", one.size, one.unit.c_str());
  for (const Side& side : one.sides) {
    const Series& series = series_of(index, side.name);
    std::printf("  %-22s %-5s", side.name.c_str(), to_string(side.part));
    for (const std::string& name : series.figure_names()) {
      const Spread spread = spread_of(series.values(name));
      std::printf("  %s %s (%s to %s)", name.c_str(), number(spread.median).c_str(),
                  number(spread.least).c_str(), number(spread.most).c_str());
    }
    if (!series.timed_out.empty())
      std::printf("  %s in %zu of %zu rounds", series.timed_out[0].c_str(), series.timed_out.size(),
                  series.rounds.size());
    std::printf("\n");
  }
  for (const Bar& bar : one.bars) {
    const auto ratio = measured(bar, series_of(index, bar.side), series_of(index, bar.base));
    if (!ratio) continue;
    std::printf("  %s: %s = %s%s (%s to %s by round)%s%s\n", bar.figure.c_str(), bar.side.c_str(),
                ratio_text(ratio->value).c_str(),
                bar.base.empty() ? "" : (" x " + bar.base).c_str(),
                ratio_text(ratio->least).c_str(), ratio_text(ratio->most).c_str(),
                verdict(bar, "bar", bar.first, ratio->value).c_str(),
                verdict(bar, "aim", bar.aim, ratio->value).c_str());
  }
}

void Comparison::print() const {
  for (std::size_t i = 0; i < cases_.size(); ++i) print_case(i);
  for (const Fit& fit : fits())
    std::printf("fit: %s of %s = %s + %.4g per %s\n", fit.figure.c_str(), fit.side.c_str(),
                number(fit.fixed).c_str(), fit.per_unit, fit.unit.c_str());
}

void Comparison::write_json() const {
  Json json = {
      {"bench", name_}, {"title", title_}, {"command", settings_.command}, {"date", date_now()}};
  json["machine"] = {{"cpu", cpu_model()},
                     {"cores", core_count()},
                     {"kernel", kernel_version()},
                     {"libzmq", zmq_version()},
                     {"optimised", is_optimised()},
                     {"nice", nice_value()},
                     {"load_before", rounded(load_before_)},
                     {"load_after", rounded(load_average())}};
  json["pinned_to_cpu"] = settings_.cpu ? Json(*settings_.cpu) : Json();
  json["rounds"] = settings_.rounds;
  json["notes"] = notes_;
  json["cases"] = Json::array();
  for (std::size_t i = 0; i < cases_.size(); ++i) {
    Json one = {{"size", cases_[i].size},
                {"unit", cases_[i].unit},
                {"sides", Json::array()},
                {"ratios", Json::array()}};
    for (const Side& side : cases_[i].sides) {
      const Series& series = series_of(i, side.name);
      Json told = {{"name", side.name},
                   {"part", to_string(side.part)},
                   {"what", side.what},
                   {"figures", to_json(series)}};
      if (!series.timed_out.empty()) told["timed_out"] = series.timed_out;
      one["sides"].push_back(std::move(told));
    }
    for (const Bar& bar : cases_[i].bars)
      if (const auto ratio = measured(bar, series_of(i, bar.side), series_of(i, bar.base)))
        one["ratios"].push_back(to_json(bar, *ratio));
    json["cases"].push_back(std::move(one));
  }
  json["fits"] = Json::array();
  for (const Fit& fit : fits())
    json["fits"].push_back({{"side", fit.side},
                            {"figure", fit.figure},
                            {"fixed", rounded(fit.fixed)},
                            {"per", fit.unit},
                            {"per_unit", rounded(fit.per_unit)}});
  json["left_out"] = Json::array();
  for (const auto& [side, why] : left_out_)
    json["left_out"].push_back({{"side", side}, {"why", why}});
  std::ofstream out(settings_.json);
  out << json.dump(1) << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write " + settings_.json);
}

}  // namespace meshbus::bench
