#include "cli/bench/bench_table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace meshbus::cli {
namespace {

std::string aligned(const char* title, const std::string& text) {
  const std::size_t width = std::max<std::size_t>(std::strlen(title), 8);
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

}  // namespace

BenchTable::BenchTable(BenchVerb verb) : columns_(columns_of(verb)) {}

std::vector<BenchTable::Column> BenchTable::columns_of(BenchVerb verb) {
  if (verb == BenchVerb::peers)
    return {{"peers", "PEERS", 0},
            {"seconds", "SECONDS", 3},
            {"handshakes_per_s", "HANDSHAKES/S", 0},
            {"cpu_us_per_handshake", "BROKER CPU us", 1},
            {"bytes_per_peer", "BROKER BYTES/PEER", 0}};
  std::vector<Column> columns = {{"size", "SIZE", 0}};
  if (verb == BenchVerb::fanout || verb == BenchVerb::cast)
    columns.push_back({"peers", "PEERS", 0});
  if (verb != BenchVerb::throughput)
    columns.insert(columns.end(), {{"p50_us", "P50 us", 1}, {"p99_us", "P99 us", 1}});
  columns.insert(columns.end(), {{"msgs_per_s", "MESSAGES/S", 0},
                                 {"bytes_per_s", "BYTES/S", 0},
                                 {"cpu_us_per_msg", "BROKER CPU us/MESSAGE", 3}});
  return columns;
}

std::string BenchTable::cell(const nlohmann::ordered_json& value, const Column& column) {
  if (value.is_null()) return "-";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", column.digits, value.get<double>());
  return text.data();
}

void BenchTable::print_head() const {
  std::string line;
  for (const Column& column : columns_)
    line += (line.empty() ? "" : "  ") + aligned(column.title, column.title);
  std::cout << line << std::endl;
}

void BenchTable::print(const nlohmann::ordered_json& row) const {
  std::string line;
  for (const Column& column : columns_)
    line += (line.empty() ? "" : "  ") + aligned(column.title, cell(row.at(column.field), column));
  std::cout << line << std::endl;
}

}  // namespace meshbus::cli
