#include "tests/integration/cli/schema_check.h"

#include <doctest/doctest.h>

#include "tests/support/golden.h"
#include "tests/world/command_line.h"

namespace meshbus::test {

void SchemaCheck::add(const std::string& what, const std::string& schema, const std::string& text) {
  INFO(what);
  CHECK(text != "");
  cases_.push_back({{"what", what}, {"schema", schema}, {"text", text}});
}

void SchemaCheck::finish() const {
  std::string lines;
  for (const auto& one : cases_) lines += one.dump() + "\n";
  const auto checked =
      run({"/usr/bin/python3", "-BW", "ignore", source_dir() + "/tests/support/fits_schema.py",
           source_dir() + "/share/schemas"},
          in_time, {.input = lines});
  INFO(checked.out << checked.err);
  CHECK(checked.status == ExitStatus::exited(0));
}

void check_fits(const std::string& text, const std::string& schema) {
  SchemaCheck check;
  check.add(schema, schema, text);
  check.finish();
}

}  // namespace meshbus::test
