#include "common/security/keys.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/temp_dir.h"

using namespace meshbus;
using meshbus::test::TempDir;

namespace {

namespace fs = std::filesystem;

std::string error_of(const std::string& path) {
  const auto pair = read_key_pair(path);
  REQUIRE_FALSE(pair.has_value());
  CHECK(pair.error().code() == ErrorCode::configuration_error);
  return pair.error().detail();
}

bool has(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("keys: a pair that was written is read again, and only its owner may read the secret") {
  const TempDir dir;
  const auto pair = KeyPair::make();
  REQUIRE(pair.has_value());
  CHECK(pair->public_key.size() == kKeySize);
  CHECK(pair->secret_key != KeyPair::make()->secret_key);
  const auto path = dir / "alice.key";
  REQUIRE(write_key_pair(path, *pair, "alice").has_value());
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  const auto read = read_key_pair(path);
  REQUIRE(read.has_value());
  CHECK(read->public_key == pair->public_key);
  CHECK(read->secret_key == pair->secret_key);
  // Replaced as a whole; nothing else is left there.
  REQUIRE(write_key_pair(path, *KeyPair::make(), "alice").has_value());
  CHECK(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("keys: a secret that others may read is refused, with what to do") {
  const TempDir dir;
  const auto path = dir / "alice.key";
  REQUIRE(write_key_pair(path, *KeyPair::make(), "alice").has_value());
  for (const mode_t mode : {0644U, 0640U, 0604U, 0620U, 0601U}) {
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    CHECK(has(error_of(path), "chmod 600 " + path));
  }
  REQUIRE(::chmod(path.c_str(), 0400) == 0);
  CHECK(read_key_pair(path).has_value());
  CHECK(has(error_of(dir / "nobody.key"), "meshbus keygen"));
  CHECK(has(error_of(dir.path().string()), "no regular file"));
}

TEST_CASE("keys: root's key that is handed to a group is read by root, and stays that group's") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root hands a file to another group");
    return;
  }
  const TempDir dir;
  const auto path = dir / "h1.key";
  const auto hand = [&](gid_t group, mode_t mode) {
    REQUIRE(::chown(path.c_str(), 0, group) == 0);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
  };
  REQUIRE(write_key_pair(path, *KeyPair::make(), "h1").has_value());
  hand(65534, 0640);
  CHECK(read_key_pair(path).has_value());
  REQUIRE(write_key_pair(path, *KeyPair::make(), "h1").has_value());
  struct stat status{};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK(status.st_gid == 65534);
  CHECK((status.st_mode & 0777) == 0640);
  hand(65534, 0660);
  CHECK(has(error_of(path), "chmod 600 " + path));
  hand(0, 0640);
  CHECK(has(error_of(path), "chmod 600 " + path));
}

TEST_CASE("keys: odd files are errors that quote no secret") {
  const TempDir dir;
  const auto a = *KeyPair::make(), b = *KeyPair::make();
  const auto path = dir / "a.key";
  const auto text = [](const KeyPair& of, const std::string& secret) {
    return "public-key " + of.public_key + "\nsecret-key " + secret + "\n";
  };
  for (const std::string& bad :
       {std::string(), std::string("\0\0\0", 3), text(a, b.secret_key),
        text(a, a.secret_key.substr(1)), text(a, a.secret_key + "0"),
        text(a, a.secret_key) + text(b, b.secret_key), "secret-key " + a.secret_key,
        "public-key " + a.public_key, "public-key " + std::string(40, '~'),
        std::string(100'000, '#'), text(a, a.secret_key) + "secret " + b.secret_key}) {
    dir.write("a.key", bad);
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
    const auto error = error_of(path);
    CHECK_FALSE(has(error, a.secret_key.substr(1)));
    CHECK_FALSE(has(error, b.secret_key));
  }
  dir.write("a.key", "# of a\r\n\r\n" + text(a, a.secret_key));
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  CHECK(read_key_pair(path).has_value());
}

TEST_CASE("keys: public keys may be several, and are nobody else's to write") {
  const TempDir dir;
  const auto path = dir / "h1.pub";
  const std::vector<std::string> two = {KeyPair::make()->public_key, KeyPair::make()->public_key};
  REQUIRE(write_public_keys(path, two, "h1").has_value());
  CHECK(read_public_keys(path) == two);
  REQUIRE(::chmod(path.c_str(), 0664) == 0);
  CHECK(has(read_public_keys(path).error().detail(), "chmod go-w " + path));
  CHECK(read_public_keys(dir / "h2.pub").error().code() == ErrorCode::not_exist);
  dir.write("h2.pub", "# nothing\n");
  CHECK(has(read_public_keys(dir / "h2.pub").error().detail(), "no key"));
  REQUIRE(write_key_pair(dir / "h3.pub", *KeyPair::make(), "h3").has_value());
  CHECK(has(read_public_keys(dir / "h3.pub").error().detail(), "secret"));
}

TEST_CASE("keys: which secret is one's own") {
  const TempDir dir;
  const KeyDirectory directory(dir.path().string(), {});
  CHECK(has(directory.own_path(std::nullopt).error().detail(), "meshbus keygen operator NAME"));
  const auto h1 = *HostAddr::parse("tcp:h1:7420");
  CHECK(has(directory.own_path(h1).error().detail(), "meshbus keygen host h1"));
  dir.write("alice.key", "");
  CHECK(directory.own_path(std::nullopt) == dir / "alice.key");
  dir.write("h1.key", "");
  CHECK(has(directory.own_path(std::nullopt).error().detail(), "keys.own"));
  CHECK(directory.own_path(h1) == dir / "h1.key");
  dir.write("h1:7420.key", "");
  CHECK(directory.own_path(h1) == dir / "h1:7420.key");
  CHECK(directory.own_path(*HostAddr::parse("tcp:h1:1")) == dir / "h1.key");
  CHECK(KeyDirectory(dir.path().string(), "/else/where.key").own_path(h1) == "/else/where.key");
  CHECK_FALSE(KeyDirectory(dir / "nowhere", {}).own_path(h1).has_value());
}

TEST_CASE("keys: names of holders are file names that stay in their folder") {
  for (const std::string good :
       {"alice", "h1.example.org", "10.0.0.1:7420", "[::1]", "fe80::1%eth0", "a"})
    CHECK(is_holder_name(good));
  for (const std::string& bad :
       {std::string(), std::string("."), std::string(".."), std::string("../x"), std::string("a/b"),
        std::string("a b"), std::string("a\nb"), std::string("a\0b", 3), std::string(101, 'a')})
    CHECK_FALSE(is_holder_name(bad));
  for (const auto role : kKeyRoles) CHECK(role_of_key(word_of(role)) == role);
  CHECK_FALSE(role_of_key("broker").has_value());
}
