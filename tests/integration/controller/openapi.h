#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "tests/integration/controller/page_world.h"
#include "tests/support/golden.h"

// share/openapi/controller.json, and whether answers are as it says.
namespace meshbus::test::page_world {

inline json read_openapi() {
  std::ifstream in(source_dir() + "/share/openapi/controller.json");
  return json::parse(in);
}

/// Whether a value is as a schema of that file says: types, required properties, enumerations.
inline void check_schema(const json& api, const json& schema, const json& value,
                         const std::string& at) {
  INFO(at, ": ", value.dump().substr(0, 200));
  if (schema.value("nullable", false) && value.is_null()) return;
  if (schema.contains("$ref")) {
    const auto path = schema.at("$ref").get<std::string>().substr(1);
    return check_schema(api, api.at(json::json_pointer(path)), value, at);
  }
  if (schema.contains("allOf")) return check_schema(api, schema.at("allOf").at(0), value, at);
  const auto type = schema.value("type", "");
  if (type == "object") {
    REQUIRE(value.is_object());
    for (const auto& name : schema.value("required", json::array())) {
      INFO(name.get<std::string>());
      CHECK(value.contains(name.get<std::string>()));
    }
    const auto properties = schema.value("properties", json::object());
    for (const auto& [name, one] : properties.items()) {
      if (value.contains(name)) check_schema(api, one, value.at(name), at + "." + name);
    }
  } else if (type == "array") {
    REQUIRE(value.is_array());
    for (const auto& one : value) check_schema(api, schema.at("items"), one, at + "[]");
  } else if (type == "integer") {
    CHECK(value.is_number_integer());
  } else if (type == "string") {
    CHECK(value.is_string());
    if (schema.contains("enum")) {
      const auto& words = schema.at("enum");
      CHECK(std::find(words.begin(), words.end(), value) != words.end());
    }
  }
}

}  // namespace meshbus::test::page_world
