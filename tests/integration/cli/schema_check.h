#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace meshbus::test {

/// What programs printed, to be held against share/schemas: a field that its schema does not name
/// is an error, too.
class SchemaCheck {
 public:
  /// `what`: where it came from, for people. `text`: JSON, or lines of it.
  void add(const std::string& what, const std::string& schema, const std::string& text);
  /// Fails the test case, and says what does not fit, when something does not.
  void finish() const;

 private:
  std::vector<nlohmann::json> cases_;
};

/// One text.
void check_fits(const std::string& text, const std::string& schema);

}  // namespace meshbus::test
