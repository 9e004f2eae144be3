#include "common/security/join_token.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/temp_dir.h"
#include "wire/codes_generated.h"

using namespace meshbus;
using meshbus::test::TempDir;

namespace {

namespace fs = std::filesystem;

std::string new_key() {
  return KeyPair::make()->public_key;
}

std::size_t tokens_in(const TempDir& dir) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(dir / "joining"), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("join_token: its text has all that its holder needs, and reads again") {
  const auto server = KeyPair::make()->public_key;
  for (const std::string name : {"h3", "10.0.0.3:7420", "2001:db8::3", "a-b-c"}) {
    const auto token = JoinToken::make(name, server);
    REQUIRE(token.has_value());
    const auto text = token->to_string();
    CHECK(text.size() == name.size() + 1 + 128);
    CHECK(text.find_first_of(" '\"$`\\!#&;()<>|*?") == std::string::npos);
    const auto read = JoinToken::parse(text);
    REQUIRE(read.has_value());
    CHECK(read->name == name);
    CHECK(read->server_key == server);
    CHECK(read->keys.public_key == token->keys.public_key);
    CHECK(read->keys.secret_key == token->keys.secret_key);
  }
}

TEST_CASE("join_token: what is no token is an error that quotes none of it") {
  const auto text = JoinToken::make("h3", new_key())->to_string();
  const auto digits = text.substr(3);
  auto no_digit = text;
  no_digit[100] = 'g';
  for (const std::string& bad :
       {std::string(), std::string("h3"), digits, "-" + digits, "../h3-" + digits,
        "h3-" + digits.substr(1), text + "0", no_digit, "h3-" + std::string(128, '+')}) {
    INFO(bad);
    const auto read = JoinToken::parse(bad);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code() == ErrorCode::parse_error);
    CHECK(read.error().detail().find(digits.substr(64, 32)) == std::string::npos);
  }
}

TEST_CASE("join_token: a token is known from when it is made, and used once") {
  const TempDir dir;
  const TokenFolder folder(KeyDirectory(dir.path().string(), {}));
  CHECK(folder.read().empty());
  const TokenRecord h3{.name = "h3", .key = new_key(), .until = unix_seconds_now() + 600};
  REQUIRE(folder.add(h3).has_value());
  auto known = folder.read();
  REQUIRE(known.size() == 1);
  CHECK(known[0].name == "h3");
  CHECK(known[0].key == h3.key);
  CHECK(known[0].until == h3.until);
  CHECK_FALSE(known[0].is_used);

  REQUIRE(folder.use(h3).has_value());
  const auto again = folder.use(h3);
  REQUIRE_FALSE(again.has_value());
  CHECK(again.error().code() == ErrorCode::not_exist);
  known = folder.read();
  REQUIRE(known.size() == 1);
  CHECK(known[0].is_used);
  CHECK(known[0].used_at >= unix_seconds_now() - 60);
  folder.give_back(h3);
  CHECK_FALSE(folder.read().at(0).is_used);
  REQUIRE(folder.use(h3).has_value());

  // A new one is in place of it; those of other hosts stay, but for what expired days ago.
  REQUIRE(folder.add({.name = "h4.example.org", .key = new_key(), .until = unix_seconds_now() - 60})
              .has_value());
  REQUIRE(folder.add({.name = "h5", .key = new_key(), .until = unix_seconds_now() - 3 * 24 * 3600})
              .has_value());
  const TokenRecord other{.name = "h3", .key = new_key(), .until = unix_seconds_now() + 60};
  REQUIRE(folder.add(other).has_value());
  known = folder.read();
  REQUIRE(known.size() == 2);
  CHECK(tokens_in(dir) == 2);
  for (const auto& one : known) CHECK(one.key != h3.key);
}

TEST_CASE("join_token: what others could have put there is no token") {
  const TempDir dir;
  const TokenFolder folder(KeyDirectory(dir.path().string(), {}));
  REQUIRE(
      folder.add({.name = "h3", .key = new_key(), .until = unix_seconds_now() + 600}).has_value());
  const auto file = fs::directory_iterator(folder.path())->path();
  for (const auto& path : {file, fs::path(folder.path())}) {
    struct stat status{};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    REQUIRE(::chmod(path.c_str(), status.st_mode | 0020) == 0);
    CHECK(folder.read().empty());
    REQUIRE(::chmod(path.c_str(), status.st_mode) == 0);
    CHECK(folder.read().size() == 1);
  }
  const auto id = file.stem().extension().string();
  for (const std::string& name :
       {std::string("h4.token"), "h4" + id + ".token", "h4.soon" + id + ".token",
        ".1" + id + ".token", "h4.99999999999999999999" + id + ".token",
        "h4.2000000000" + id + ".pub", std::string("h4.2000000000.0123456789abcdef.token")})
    fs::copy_file(file, fs::path(folder.path()) / name);
  dir.write("joining/h5.2000000000.0123456789abcdef.token", "public-key of h5\n");
  CHECK(folder.read().size() == 1);
}

TEST_CASE("join_token: the keys that one host knows, for another one") {
  const TempDir dir;
  const KeyDirectory directory(dir.path().string(), {});
  for (const auto role : kKeyRoles)
    fs::create_directories(fs::path(directory.public_path(role, "x")).parent_path());
  const std::vector<KnownKeys> all = {{wire::Role::observe, "eve", {new_key()}},
                                      {wire::Role::operate, "alice", {new_key(), new_key()}},
                                      {wire::Role::host, "10.0.0.1:7420", {new_key()}},
                                      {wire::Role::host, "h1", {new_key()}}};
  for (const auto& one : all)
    REQUIRE(write_key_grants(directory.public_path(one.role, one.name), one.keys, one.name)
                .has_value());
  dir.write("authorised/host/h2.pub", "nonsense\n");
  const auto known = read_known_keys(directory);
  CHECK(known == all);
  CHECK(parse_known_keys(known_keys_to_text(known)) == all);
  CHECK(parse_known_keys("")->empty());
  const auto key = new_key();
  for (const std::string& bad :
       {"king alice " + key, "host ../../alice " + key, std::string("host h1"),
        "host h1 " + key.substr(1), "host h1 " + key + " x", std::string("\n"),
        std::string("host\0h1", 7)}) {
    const auto parsed = parse_known_keys("host h1 " + key + "\n" + bad + "\n");
    REQUIRE_FALSE(parsed.has_value());
    CHECK(parsed.error().code() == ErrorCode::malformed_message);
  }
}
