#include "meshbus/remote_hosts.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "client/src/launch/host_announcement.h"
#include "client/src/launch/remote_start.h"

using namespace meshbus;

namespace {

using Words = std::vector<std::string>;

/// What follows the options that are always there.
Words ssh_words(const std::string& destination, const std::string& program = {}) {
  const auto hosts = ssh_hosts({destination}, program);
  INFO(destination);
  REQUIRE(hosts.has_value());
  CHECK(hosts->front().name == destination);
  auto words = hosts->front().command;
  CHECK(words.front() == "ssh");
  CHECK(std::find(words.begin(), words.end(), "BatchMode=yes") != words.end());
  const auto last_option = std::find(words.begin(), words.end(), "LogLevel=ERROR");
  REQUIRE(last_option != words.end());
  words.erase(words.begin(), last_option + 1);
  return words;
}

}  // namespace

TEST_CASE("remote_hosts: a destination of ssh is [USER@]HOST[:PORT]") {
  const std::string plain = "exec meshbus host --remote";
  CHECK(ssh_words("h1") == Words{"--", "h1", plain});
  CHECK(ssh_words("alice@h1.example:2222") ==
        Words{"-p", "2222", "-l", "alice", "--", "h1.example", plain});
  CHECK(ssh_words("[2001:db8::1]:22") == Words{"-p", "22", "--", "2001:db8::1", plain});
  CHECK(ssh_words("[::1]") == Words{"--", "::1", plain});
  CHECK(ssh_words("a@b@h1") == Words{"-l", "a@b", "--", "h1", plain});
}

TEST_CASE("remote_hosts: the program there is quoted for its shell") {
  CHECK(ssh_words("h1", "/opt/mesh bus/meshbus").back() ==
        "exec '/opt/mesh bus/meshbus' host --remote");
  CHECK(ssh_words("h1", "a'b").back() == "exec 'a'\\''b' host --remote");
}

TEST_CASE("remote_hosts: what ssh would take for something else is refused") {
  for (const char* destination : {"", "-oProxyCommand=x", "-l@h1", "@h1", "h1:", "h1:x",
                                  "h1:123456", "::1", "[::1", "[::1]x", "[::1]:", "a@-x"}) {
    INFO(destination);
    const auto hosts = ssh_hosts({destination});
    REQUIRE_FALSE(hosts.has_value());
    CHECK(hosts.error().code() == ErrorCode::parse_error);
  }
  CHECK(ssh_hosts({}).error().code() == ErrorCode::configuration_error);
}

TEST_CASE("remote_hosts: advice") {
  CHECK(advice("exit 255", "ssh: Could not resolve hostname x: Name or service not known")
            .starts_with("check the name"));
  CHECK(advice("exit 255", "a@b: Permission denied (publickey).").find("authorized_keys") !=
        std::string::npos);
  CHECK(advice("exit 127", "bash: line 1: exec: meshbus: not found").find("--remote-program") !=
        std::string::npos);
  CHECK(advice("exit 2", "meshbus: meshbus host has no --remote").find("the same version") !=
        std::string::npos);
  CHECK(advice("exit 1", "the disk is full").empty());
}

TEST_CASE("remote_hosts: an order is one line of JSON") {
  RemoteOrder order{{"lease=1s"}, "sweep", "P", "S", "L"};
  const std::string begin =
      R"({"settings":["lease=1s"],"containment":"sweep",)"
      R"("host_public_key":"P","host_secret_key":"S","launcher_public_key":"L")";
  CHECK(order.to_json_line() == begin + "}\n");
  order.address = "127.0.0.1";
  CHECK(order.to_json_line() == begin + R"(,"address":"127.0.0.1"})" + "\n");
}

TEST_CASE("remote_hosts: a host's ready line says where it is, or why it is not there") {
  const auto ready = HostAnnouncement::parse(
      R"({"host":"tcp:10.0.0.1:7420","containment":"sweep","run_dir":"/run/x","more":1})");
  REQUIRE(ready.has_value());
  CHECK(ready->host.to_string() == "tcp:10.0.0.1:7420");
  CHECK(ready->containment == "sweep");
  CHECK(ready->run_dir == "/run/x");
  CHECK(HostAnnouncement::parse(R"({"error":"no room"})").error().detail() == "no room");
  for (const char* line : {"", "[]", "Welcome to h1", R"({"host":7})"})
    CHECK(HostAnnouncement::parse(line).error().detail().find("is not understood") !=
          std::string::npos);
}
