// What a launcher says to a host that it starts from afar.
#include "cli/hosts/remote_order.h"

#include <doctest/doctest.h>

#include "client/src/launch/remote_start.h"

using namespace meshbus;
using namespace meshbus::cli;

namespace {

const HostAddr kOwn = HostAddr::tcp("10.0.0.1", 0).value();

Result<WardenOptions> applied(const std::string& order, const std::string& hosts) {
  const auto first = RemoteLine::parse(order);
  const auto second = RemoteLine::parse(hosts);
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  WardenOptions options;
  if (auto done = apply_remote_order(*first, *second, kOwn, options); !done)
    return fail(done.error());
  return options;
}

}  // namespace

TEST_CASE("remote_order: a launcher's order makes a host with keys that the others know") {
  const RemoteOrder order{{"lease=1s"}, "sweep", "P", "S", "L"};
  const auto options = applied(order.to_json_line(), R"({"hosts":["10.0.0.1","h2"]})");
  REQUIRE(options.has_value());
  CHECK(options->advertise == "tcp:10.0.0.1:0");
  CHECK(options->binds == std::vector<std::string>{"tcp:10.0.0.1:0"});
  CHECK(options->settings == std::vector<std::string>{"lease=1s"});
  CHECK(options->containment == Containment::sweep);
  const std::vector<std::pair<std::string, std::string>> files = {
      {"own.key", "public-key P\nsecret-key S\n"},
      {"authorised/operator/launcher.pub", "public-key L\n"},
      {"authorised/host/10.0.0.1.pub", "public-key P\n"},
      {"authorised/host/h2.pub", "public-key P\n"}};
  CHECK(options->key_files == files);
}

TEST_CASE("remote_order: what would write elsewhere, or more than a key, is refused") {
  const RemoteOrder order{{}, "", "P", "S", "L"};
  for (const char* host : {"../../x", "a/b", ""}) {
    INFO(host);
    CHECK_FALSE(
        applied(order.to_json_line(), R"({"hosts":[")" + std::string(host) + R"("]})").has_value());
  }
  const RemoteOrder lines{{}, "", "P\npublic-key Q", "S", "L"};
  CHECK_FALSE(applied(lines.to_json_line(), "{}").has_value());
}

TEST_CASE("remote_order: a person who tries it is told what it is for") {
  for (const char* line : {"", "hello", "[]", "{"}) {
    const auto read = RemoteLine::parse(line);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().detail().find("is for launchers") != std::string::npos);
  }
  // A value of another type does not count.
  const auto read = RemoteLine::parse(R"({"address":7,"hosts":[1,"h1"],"settings":"x"})");
  REQUIRE(read.has_value());
  CHECK(read->text("address").empty());
  CHECK(read->list("hosts") == std::vector<std::string>{"h1"});
  CHECK(read->list("settings").empty());
}
