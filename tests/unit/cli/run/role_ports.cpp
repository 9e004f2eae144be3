// The ports that the roles of a job listen on (spec 17.6).
#include "cli/run/role_ports.h"

#include <doctest/doctest.h>

#include <vector>

using meshbus::ErrorCode;
using meshbus::cli::RolePorts;

TEST_CASE("role_ports: no two roles of a machine have the same port") {
  RolePorts ports;
  std::vector<std::uint16_t> found = {9, 8, 7, 7};
  const auto ask = [&]() -> meshbus::Result<std::uint16_t> {
    const auto port = found.back();
    found.pop_back();
    return port;
  };
  CHECK(ports.find("h1", ask) == std::uint16_t{7});
  CHECK(ports.find("h1", ask) == std::uint16_t{8});
  found.push_back(7);
  CHECK(ports.find("h2", ask) == std::uint16_t{7});
}

TEST_CASE("role_ports: a machine without another free port is an error, and so is no answer") {
  RolePorts ports;
  const auto always = []() -> meshbus::Result<std::uint16_t> { return std::uint16_t{7}; };
  CHECK(ports.find("h1", always).has_value());
  CHECK(ports.find("h1", always).error().code() == ErrorCode::io_error);
  const auto silent = []() -> meshbus::Result<std::uint16_t> {
    return meshbus::fail(ErrorCode::timeout, "no answer");
  };
  CHECK(ports.find("h1", silent).error().code() == ErrorCode::timeout);
}
