#include "meshbus/program_setting.h"

#include <doctest/doctest.h>

#include <limits>

using namespace meshbus;
using namespace std::chrono_literals;

TEST_CASE("program_setting: what is printed reads back as the same value") {
  for (const SettingValue& value : std::initializer_list<SettingValue>{
           true, false, std::int64_t{-7}, std::numeric_limits<std::int64_t>::min(), 0.1, -1e300,
           1.0, 250ms, 0ms, 90s, std::string("two words"), std::string()}) {
    CAPTURE(to_text(value));
    CHECK(parse_setting(value, to_text(value)).value() == value);
  }
  CHECK(to_text(SettingValue(250ms)) == "250ms");
  CHECK(to_text(SettingValue(0.1)) == "0.1");
}

TEST_CASE("program_setting: a text of another type is refused in words") {
  const auto refusal = [](const SettingValue& like, std::string_view text) {
    const auto value = parse_setting(like, text);
    REQUIRE_FALSE(value.has_value());
    CHECK(value.error().code() == ErrorCode::configuration_error);
    return value.error().detail();
  };
  CHECK(refusal(true, "1x") == "expected true or false, found '1x'");
  CHECK(refusal(std::int64_t{1}, "1.5") == "expected a whole number, found '1.5'");
  CHECK(refusal(std::int64_t{1}, "99999999999999999999").starts_with("expected a whole number"));
  CHECK(refusal(0.5, "1,5") == "expected a number, found '1,5'");
  CHECK(refusal(0.5, "nan").starts_with("expected a number"));
  CHECK(refusal(0.5, "").starts_with("expected a number"));
  CHECK(refusal(1s, "-1s").starts_with("expected a duration"));
  CHECK(refusal(std::string(), std::string(5000, 'x')).size() < 200);
}
