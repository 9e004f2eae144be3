#include "common/security/key_grant.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/security/join_token.h"
#include "common/security/keys.h"
#include "tests/support/temp_dir.h"

using namespace meshbus;
using meshbus::test::TempDir;

TEST_CASE("key_grant: a key has attributes behind it, in files and on the way to a new host") {
  const std::string key = KeyPair::make()->public_key;
  CHECK(KeyGrant(key).to_string(' ') == key);
  KeyGrant grant(key);
  grant.expires = 1'801'396'800;
  grant.ceiling = wire::Role::proc;
  CHECK(grant.to_string(' ') == key + " expires=2027-01-31T12:00:00Z ceiling=client");
  CHECK(KeyGrant::parse(grant.to_string(' '), ' ') == grant);
  CHECK(KeyGrant::parse(grant.to_string(','), ',') == grant);
  for (const std::string& wrong :
       std::vector<std::string>{"expires=never", "expires=2027-02-31", "ceiling=king",
                                "ceiling=host", "ceiling=", "lives=9", "expires"}) {
    const auto parsed = KeyGrant::parse(key + " " + wrong, ' ');
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code() == ErrorCode::parse_error);
    CHECK(parsed.error().detail().find(key) == std::string::npos);
  }
  const std::vector<KnownKeys> known = {{wire::Role::host, "h1", {grant, KeyGrant(key)}}};
  CHECK(parse_known_keys(known_keys_to_text(known)) == known);
}

TEST_CASE("key_grant: times are those of RFC 3339, and a date means the end of that day") {
  CHECK(parse_rfc3339("1970-01-01T00:00:01Z") == 1);
  CHECK(parse_rfc3339("1970-01-01") == 24 * 3600);
  CHECK(rfc3339_text(1'801'396'800) == "2027-01-31T12:00:00Z");
  for (const char* wrong : {"", "tomorrow", "2027-1-1T00:00:00Z", "2027-02-30",
                            "2027-01-01T25:00:00Z", "2027-01-01 00:00:00", "2027-01-01x"})
    CHECK_FALSE(parse_rfc3339(wrong).has_value());
}

TEST_CASE("key_grant: files keep attributes, and refuse what they do not know") {
  const TempDir dir;
  const std::string path = dir / "h1.pub", key = KeyPair::make()->public_key;
  KeyGrant grant(key);
  grant.expires = 4'000'000'000;
  grant.ceiling = wire::Role::observe;
  REQUIRE(write_key_grants(path, {grant, KeyGrant(key)}, "h1").has_value());
  const auto read = read_key_grants(path);
  REQUIRE(read.has_value());
  CHECK(*read == std::vector<KeyGrant>{grant, KeyGrant(key)});
  CHECK(read_public_keys(path)->size() == 2);
  for (const std::string& wrong : {key + "x", key + " lives=9", key + "\texpires=2027-01-31"}) {
    dir.write("wrong.pub", "public-key " + wrong + "\n");
    CHECK(read_key_grants(dir / "wrong.pub").error().code() == ErrorCode::configuration_error);
  }
}

TEST_CASE("key_grant: a host whose key has expired is not connected to, and it is said why") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "authorised/host");
  const KeyDirectory directory(dir.path().string(), {});
  const auto host = *HostAddr::parse("tcp:h1:7420");
  KeyGrant old(KeyPair::make()->public_key);
  old.expires = 1'000'000'000;
  const std::string path = directory.public_path(wire::Role::host, "h1");
  REQUIRE(write_key_grants(path, {old}, "h1").has_value());
  const auto known = directory.keys_of_host(host);
  REQUIRE_FALSE(known.has_value());
  CHECK(known.error().detail().find("the key of host h1 expired at 2001-09-09T01:46:40Z") == 0);
  CHECK(directory.ceiling_of_host(host) == wire::Role::none);
  KeyGrant present(KeyPair::make()->public_key);
  present.ceiling = wire::Role::proc;
  REQUIRE(write_key_grants(path, {old, present, KeyGrant(old.key)}, "h1").has_value());
  CHECK(directory.keys_of_host(host)->size() == 2);
  CHECK(directory.ceiling_of_host(host) == wire::Role::proc);
}
