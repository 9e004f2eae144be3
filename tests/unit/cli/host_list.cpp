#include "cli/support/host_list.h"

#include <doctest/doctest.h>

#include "cli/support/contexts.h"

using namespace meshbus;
using namespace meshbus::cli;

namespace {

using Texts = std::vector<std::string>;

Texts expanded(std::string_view list) {
  const auto hosts = expand_hosts(list);
  INFO(list);
  REQUIRE(hosts.has_value());
  return *hosts;
}

std::string problem(std::string_view list) {
  const auto hosts = expand_hosts(list);
  REQUIRE_FALSE(hosts.has_value());
  CHECK(hosts.error().code() == ErrorCode::configuration_error);
  return hosts.error().detail();
}

}  // namespace

TEST_CASE("host_list: parts are separated by commas and blanks") {
  CHECK(expanded("tcp:a:1,tcp:b:1") == Texts{"tcp:a:1", "tcp:b:1"});
  CHECK(expanded(" tcp:a:1 , tcp:b:1\n\ttcp:c:1,") == Texts{"tcp:a:1", "tcp:b:1", "tcp:c:1"});
  CHECK(expanded("").empty());
  CHECK(expanded(" ,, ").empty());
}

TEST_CASE("host_list: ranges are written out, several in a name too, with the zeros in front") {
  CHECK(expanded("h[0-3]") == Texts{"h0", "h1", "h2", "h3"});
  CHECK(expanded("tcp:h[1-2,7]:7420,tcp:x:1") ==
        Texts{"tcp:h1:7420", "tcp:h2:7420", "tcp:h7:7420", "tcp:x:1"});
  CHECK(expanded("r[1-2]h[09-11]") == Texts{"r1h09", "r1h10", "r1h11", "r2h09", "r2h10", "r2h11"});
  CHECK(expanded("h[5]") == Texts{"h5"});
  CHECK(expanded("10.0.0.[1-2]") == Texts{"10.0.0.1", "10.0.0.2"});
}

TEST_CASE("host_list: brackets that hold no numbers stay: IPv6 addresses above all") {
  CHECK(expanded("tcp:[::1]:7420,tcp:[fe80::1%eth0]:1") ==
        Texts{"tcp:[::1]:7420", "tcp:[fe80::1%eth0]:1"});
  CHECK(expanded("tcp:[2001:db8::[1-2]]:1") == Texts{"tcp:[2001:db8::1]:1", "tcp:[2001:db8::2]:1"});
  CHECK(expanded("unix:/a/[x]/bus") == Texts{"unix:/a/[x]/bus"});
  CHECK(expanded("h[0-],h[") == Texts{"h[0-]", "h["});
}

TEST_CASE("host_list: what cannot be meant is an error") {
  CHECK(problem("h[3-1]").find("3-1 goes backwards") != std::string::npos);
  CHECK(problem("h[0-99999999]").find("longer than 65536") != std::string::npos);
  CHECK(problem("h[0-999][0-999]").find("more than 65536 hosts") != std::string::npos);
  CHECK(problem("h[0-40000],g[0-40000]").find("more than 65536 hosts") != std::string::npos);
  CHECK(problem("h[0-9999]" + std::string(8000, 'x'))
            .find("a name of 8009 bytes, and 10000 of its kind") != std::string::npos);
  // Written out, these would name other hosts when they are read again.
  CHECK(problem("h[0,1[3]]").find("h[0,1[3]]: a range may not be inside of another one") !=
        std::string::npos);
  CHECK(problem("h[[1-2]3]").find("inside of another one") != std::string::npos);
}

TEST_CASE("host_list: a hostfile has comments, and its words know their line") {
  const auto words =
      parse_hostfile("# all of them\ntcp:h[1-2]:7420  # rack 1\n\ntcp:h3:7420, tcp:h4:7420", "/f");
  REQUIRE(words.has_value());
  CHECK(*words == std::vector<HostWord>{{"tcp:h1:7420", "hostfile /f, line 2"},
                                        {"tcp:h2:7420", "hostfile /f, line 2"},
                                        {"tcp:h3:7420", "hostfile /f, line 4"},
                                        {"tcp:h4:7420", "hostfile /f, line 4"}});
  CHECK(parse_hostfile("", "/f")->empty());
  const auto bad = parse_hostfile("tcp:h1:1\nh[2-1]\n", "/f");
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error().detail().starts_with("hostfile /f, line 2: "));
}

TEST_CASE("host_list: an address that does not parse is named with its source") {
  const auto parsed = parse_hosts(
      {{{"tcp:h1:7420", "MESHBUS_HOSTS"}, {"h2", "MESHBUS_HOSTS"}}, "MESHBUS_HOSTS", {}});
  REQUIRE_FALSE(parsed.has_value());
  CHECK(parsed.error().detail() ==
        "MESHBUS_HOSTS: h2 is no address; did you mean tcp:h2:7420 or ssh:h2?");
}

TEST_CASE("contexts: names") {
  for (const char* name : {"lab", "a", "big-one_2.eu"}) CHECK(is_context_name(name));
  for (const char* name : {"", ".x", "-x", "a/b", "a b", "..", "a\n"})
    CHECK_FALSE(is_context_name(name));
  CHECK_FALSE(is_context_name(std::string(64, 'a')));
}
