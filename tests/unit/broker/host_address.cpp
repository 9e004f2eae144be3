#include "broker/access/host_address.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace meshbus;

namespace {

std::vector<HostAddr> addresses(const std::vector<std::string>& texts) {
  std::vector<HostAddr> result;
  for (const auto& text : texts) result.push_back(*HostAddr::parse(text));
  return result;
}

std::optional<HostAddr> address(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(*HostAddr::parse(text));
}

bool is_fine(const std::vector<std::string>& binds, const std::string& advertise, bool insecure) {
  const auto checked = check_addresses(addresses(binds), address(advertise), insecure);
  if (!checked) {
    CHECK(checked.error().code() == ErrorCode::configuration_error);
    CHECK_FALSE(checked.error().detail().empty());
  }
  return checked.has_value();
}

std::string advertised(const std::vector<std::string>& bound, const std::string& advertise) {
  return advertised_address(addresses(bound), address(advertise)).to_string();
}

}  // namespace

TEST_CASE("host_address: what a broker may start with") {
  CHECK(is_fine({"unix:/run/b"}, "", false));
  CHECK(is_fine({"unix:"}, "unix:", false));
  CHECK(is_fine({"unix:/run/b", "tcp:*:0"}, "tcp:h1:0", true));
  CHECK(is_fine({"tcp:127.0.0.1:7420"}, "", true));
  CHECK(is_fine({"unix:/run/b", "tcp:*:7420"}, "", true));
  CHECK(is_fine({"unix:@b"}, "unix:@b", false));
}

TEST_CASE("host_address: tcp takes --insecure, loopback included") {
  CHECK_FALSE(is_fine({"unix:/run/b", "tcp:h1:7420"}, "tcp:h1:7420", false));
  CHECK_FALSE(is_fine({"tcp:127.0.0.1:0"}, "", false));
}

TEST_CASE("host_address: never an address that others cannot use") {
  CHECK_FALSE(is_fine({}, "", false));
  CHECK_FALSE(is_fine({"tcp:*:7420"}, "", true));
  CHECK_FALSE(is_fine({"unix:/run/b", "tcp:*:7420"}, "tcp:*:7420", true));
  CHECK_FALSE(is_fine({"unix:/run/b"}, "tcp:h1:7420", true));
  CHECK_FALSE(is_fine({"unix:/run/b"}, "unix:/run/c", false));
  for (const auto& told :
       {std::optional(*HostAddr::parse("tcp:*:7420")), std::optional<HostAddr>()}) {
    const auto checked = check_addresses(addresses({"tcp:*:7420"}), told, true);
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().detail().find("--advertise tcp:NAME:") != std::string::npos);
  }
  CHECK_FALSE(is_fine({"local:1"}, "", false));
  CHECK_FALSE(is_fine({"unix:/run/b"}, "local:1", false));
}

TEST_CASE("host_address: the advertised address becomes concrete") {
  CHECK(advertised({"unix:/run/b", "tcp:0.0.0.0:4711"}, "") == "unix:/run/b");
  CHECK(advertised({"unix:/run/b", "tcp:0.0.0.0:4711"}, "tcp:h1:0") == "tcp:h1:4711");
  CHECK(advertised({"unix:/run/b", "tcp:0.0.0.0:4711"}, "tcp:h1:80") == "tcp:h1:80");
  CHECK(advertised({"tcp:127.0.0.1:4711", "unix:/tmp/x/y"}, "unix:") == "unix:/tmp/x/y");
}
