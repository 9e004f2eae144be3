#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// The frame of all benchmarks: every side of a comparison is measured once a round, in turns, so
/// that what else the machine does meets all of them; what counts is the ratio of their medians in
/// the same run.
namespace meshbus::bench {

/// What one measurement gave, by name; a name ends with the unit: "p50_us", "per_s".
using Figures = std::map<std::string, double>;

/// Ours, what nobody on these primitives can beat, or somebody else's product.
enum class Part { ours, floor, peer };
const char* to_string(Part part) noexcept;

/// One way to do it.
struct Side {
  std::string name;
  Part part = Part::ours;
  /// For people: what exactly is measured.
  std::string what;
  /// Measures once. Throws TimedOut when that is an outcome to report, anything else to end the
  /// run.
  std::function<Figures()> measure;
};

/// A peer that did not come to an end: told, and left out of that round.
struct TimedOut {
  std::string why;
};

/// What a figure is to reach, divided by that of another side in the same run.
struct Bar {
  std::string figure;
  std::string side;
  /// The side to divide by; empty: the figure itself is to reach it.
  std::string base = {};
  enum class Direction { at_most, at_least } direction = Direction::at_most;
  /// Needed, and what we are really after; without both the ratio is only told.
  std::optional<double> first = {};
  std::optional<double> aim = {};
};

/// All sides at one size.
struct Case {
  /// Bytes or procs: what costs are fitted over.
  double size = 0;
  std::string unit;
  std::vector<Side> sides;
  std::vector<Bar> bars = {};
};

struct Settings {
  int rounds = 5;
  /// The CPU that everything runs on; none: any.
  std::optional<int> cpu = {};
  /// Where the results go as JSON too; empty: nowhere.
  std::string json = {};
  /// What repeats this run.
  std::string command = {};
  /// Only these sides are measured, to look closely at one; empty: all.
  std::vector<std::string> sides = {};
};

/// The rounds of one side at one size; a round that timed out has no figures.
struct Series {
  std::vector<std::optional<Figures>> rounds = {};
  std::vector<std::string> timed_out = {};

  std::vector<double> values(const std::string& figure) const;
  std::vector<std::string> figure_names() const;
};

/// Median and spread.
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread_of(std::vector<double> values);

struct Ratio {
  /// The ratio of the medians.
  double value = 0;
  /// Smallest and largest of the ratios round by round.
  double least = 0, most = 0;
};
/// Nothing when a side has no figures.
std::optional<Ratio> ratio_of(const Series& ours, const Series& base, const std::string& figure);
bool is_reached(const Bar& bar, double limit, double value) noexcept;

/// cost = fixed + per_unit * size, by least squares over the medians.
struct Fit {
  std::string side, figure, unit;
  double fixed = 0, per_unit = 0;
};

class Comparison {
 public:
  Comparison(std::string name, std::string title, Settings settings)
      : name_(std::move(name)), title_(std::move(title)), settings_(std::move(settings)) {}
  void add(Case one);
  /// Something that belongs here and is not measured.
  void leave_out(std::string side, std::string why) {
    left_out_.emplace_back(std::move(side), std::move(why));
  }
  /// Fits this figure of every side over the sizes.
  void fit(std::string figure) { fitted_.push_back(std::move(figure)); }
  /// Something about the run that readers need, for the JSON and the screen.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  /// Measures everything, prints it, writes the JSON; an exit code. Bars that are missed are told,
  /// and no failure.
  int run();

 private:
  void measure();
  std::vector<Fit> fits() const;
  void print() const;
  void print_case(std::size_t index) const;
  void write_json() const;
  const Series& series_of(std::size_t index, const std::string& side) const;

  std::string name_, title_;
  Settings settings_;
  std::vector<Case> cases_;
  std::vector<std::pair<std::string, std::string>> left_out_;
  std::vector<std::string> fitted_, notes_;
  /// By case and side.
  std::vector<std::map<std::string, Series>> results_;
  double load_before_ = 0;
};

}  // namespace meshbus::bench
