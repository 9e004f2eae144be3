#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/bench/bench_arguments.h"

namespace meshbus::cli {

/// Prints the rows of a benchmark for people, in columns.
class BenchTable {
 public:
  explicit BenchTable(BenchVerb verb);
  void print_head() const;
  void print(const nlohmann::ordered_json& row) const;

 private:
  struct Column {
    const char* field;
    const char* title;
    int digits;
  };
  static std::vector<Column> columns_of(BenchVerb verb);
  static std::string cell(const nlohmann::ordered_json& value, const Column& column);

  std::vector<Column> columns_;
};

}  // namespace meshbus::cli
