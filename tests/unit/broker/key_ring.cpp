#include "broker/access/key_ring.h"

#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "common/base/log.h"
#include "tests/support/temp_dir.h"
#include "wire/codes_generated.h"

using namespace meshbus;
using meshbus::test::TempDir;

namespace {

namespace fs = std::filesystem;

struct Folder {
  Folder() {
    log::set_sink([](log::Level, std::string_view) {}, log::Level::error);
  }
  ~Folder() { log::set_sink({}, log::Level::warn); }
  std::string put(wire::Role role, const std::string& name, const std::vector<std::string>& keys) {
    const auto path = directory.public_path(role, name);
    fs::create_directories(fs::path(path).parent_path());
    REQUIRE(write_public_keys(path, keys, name).has_value());
    return path;
  }
  TempDir dir;
  KeyDirectory directory{dir.path().string(), {}};
};

/// Root reads what it likes. For the scope this thread has to ask the modes, as other users do.
class WithoutOverride {
 public:
  WithoutOverride() {
    REQUIRE(::syscall(SYS_capget, &header_, before_.data()) == 0);
    auto less = before_;
    less[0].effective &= ~(1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH);
    REQUIRE(::syscall(SYS_capset, &header_, less.data()) == 0);
  }
  ~WithoutOverride() { CHECK(::syscall(SYS_capset, &header_, before_.data()) == 0); }
  WithoutOverride(const WithoutOverride&) = delete;
  WithoutOverride& operator=(const WithoutOverride&) = delete;

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> before_{};
};

}  // namespace

TEST_CASE("key_ring: who holds a key, by the folder and the name of its file") {
  Folder folder;
  const auto a = KeyPair::make()->public_key, b = KeyPair::make()->public_key,
             old = KeyPair::make()->public_key;
  auto ring = KeyRing::load(folder.directory);
  REQUIRE(ring.has_value());
  CHECK(ring->size() == 0);
  CHECK_FALSE(ring->refresh());
  folder.put(wire::Role::operate, "alice", {a, old});
  folder.put(wire::Role::host, "h2", {b});
  folder.put(wire::Role::host, "h1", {b});
  CHECK(ring->refresh());
  CHECK_FALSE(ring->refresh());
  REQUIRE(ring->find(a) != nullptr);
  CHECK(ring->find(a)->to_string() == "operator alice");
  CHECK(ring->find(old)->to_string() == "operator alice");
  CHECK(ring->find(b)->to_string() == "host h1, h2");
  CHECK(ring->find(b)->is_host(*HostAddr::parse("tcp:h2:1")));
  CHECK_FALSE(ring->find(b)->is_host(*HostAddr::parse("tcp:h3:1")));
  CHECK_FALSE(ring->find(a)->is_host(*HostAddr::parse("tcp:alice:1")));
  CHECK(ring->find(KeyPair::make()->public_key) == nullptr);
  CHECK(ring->find("") == nullptr);
  // The highest role that a key has.
  folder.put(wire::Role::observe, "all", {a, b});
  CHECK_FALSE(ring->refresh());
  folder.put(wire::Role::host, "h9", {a});
  CHECK(ring->refresh());
  CHECK(ring->find(a)->to_string() == "host h9");
}

TEST_CASE("key_ring: keys end at their time, and the lowest ceiling of a key counts") {
  Folder folder;
  const auto key = KeyPair::make()->public_key;
  const auto put = [&](wire::Role role, const std::string& name, KeyGrant grant) {
    const auto path = folder.put(role, name, {key});
    grant.key = key;
    REQUIRE(write_key_grants(path, {grant}, name).has_value());
  };
  KeyGrant old, low, high;
  old.expires = 1'000'000'000;
  low.ceiling = wire::Role::observe;
  high.expires = 4'000'000'000;
  put(wire::Role::operate, "alice", old);
  auto ring = KeyRing::load(folder.directory);
  REQUIRE(ring.has_value());
  REQUIRE(ring->find(key) != nullptr);
  CHECK(ring->find(key)->is_expired);
  CHECK(ring->find(key)->expiry_text().find(
            "the key of operator alice expired at 2001-09-09T01:46:40Z") == 0);
  // A lower role that has not ended counts.
  put(wire::Role::observe, "alice", high);
  CHECK(ring->refresh());
  CHECK_FALSE(ring->find(key)->is_expired);
  CHECK(ring->find(key)->to_string() == "observer alice");
  CHECK(ring->find(key)->expires == 4'000'000'000);
  put(wire::Role::host, "h1", {});
  put(wire::Role::host, "h2", low);
  CHECK(ring->refresh());
  CHECK(ring->find(key)->to_string() == "host h1, h2");
  CHECK(ring->find(key)->ceiling == wire::Role::observe);
  CHECK_FALSE(ring->find(key)->expires.has_value());
}

TEST_CASE("key_ring: files that change, go, or are no keys") {
  Folder folder;
  const auto a = KeyPair::make()->public_key, b = KeyPair::make()->public_key;
  const auto path = folder.put(wire::Role::operate, "alice", {a});
  auto ring = KeyRing::load(folder.directory);
  REQUIRE(ring.has_value());
  CHECK(ring->find(a) != nullptr);
  folder.put(wire::Role::operate, "alice", {b});
  CHECK(ring->refresh());
  CHECK(ring->find(a) == nullptr);
  CHECK(ring->find(b) != nullptr);
  // Another key of the same length, in place.
  folder.dir.write("authorised/operator/alice.pub",
                   "# meshbus: the public key of alice\npublic-key " + a + "\n");
  CHECK(ring->refresh());
  CHECK(ring->find(a) != nullptr);
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  CHECK(ring->refresh());
  CHECK(ring->size() == 0);
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  CHECK(ring->refresh());
  CHECK(ring->size() == 1);
  for (const std::string name : {"alice", "alice.key", "..pub", "a b.pub"})
    folder.dir.write("authorised/operator/" + name, "public-key " + b + "\n");
  CHECK_FALSE(ring->refresh());
  fs::remove_all(folder.dir / "authorised");
  CHECK(ring->refresh());
  CHECK(ring->size() == 0);
}

TEST_CASE("key_ring: a folder that others may write to lets nobody new in, and is no start") {
  Folder folder;
  const auto a = KeyPair::make()->public_key, b = KeyPair::make()->public_key;
  folder.put(wire::Role::operate, "alice", {a});
  auto ring = KeyRing::load(folder.directory);
  REQUIRE(ring.has_value());
  for (const std::string name : {"authorised", "authorised/operator"}) {
    const std::string path = folder.dir / name;
    REQUIRE(::chmod(path.c_str(), 0777) == 0);
    folder.put(wire::Role::operate, "mallory", {b});
    CHECK_FALSE(ring->refresh());
    CHECK(ring->find(b) == nullptr);
    CHECK(ring->find(a) != nullptr);
    const auto loaded = KeyRing::load(folder.directory);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().detail().find("chmod go-w " + path) != std::string::npos);
    fs::remove(folder.directory.public_path(wire::Role::operate, "mallory"));
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
  }
}

TEST_CASE("key_ring: a key is revoked in a folder that others may write to, too") {
  Folder folder;
  const auto a = KeyPair::make()->public_key, b = KeyPair::make()->public_key;
  const auto alice = folder.put(wire::Role::operate, "alice", {a});
  folder.put(wire::Role::operate, "bob", {b});
  auto ring = KeyRing::load(folder.directory);
  REQUIRE(ring.has_value());
  REQUIRE(::chmod((folder.dir / "authorised/operator").c_str(), 0777) == 0);
  fs::remove(alice);
  CHECK(ring->refresh());
  CHECK(ring->find(a) == nullptr);
  CHECK(ring->find(b) != nullptr);
  // A file that takes its place afterwards is not read.
  folder.put(wire::Role::operate, "alice", {a});
  CHECK_FALSE(ring->refresh());
  CHECK(ring->find(a) == nullptr);
}

TEST_CASE("key_ring: keys in a folder that cannot be read let nobody in; other roles stay") {
  Folder folder;
  std::vector<std::string> errors;
  log::set_sink([&](log::Level, std::string_view line) { errors.emplace_back(line); },
                log::Level::error);
  const auto a = KeyPair::make()->public_key, h = KeyPair::make()->public_key;
  const auto alice = folder.put(wire::Role::operate, "alice", {a});
  folder.put(wire::Role::host, "h1", {h});
  const std::string operators = folder.dir / "authorised/operator";
  auto ring = KeyRing::load(folder.directory);
  REQUIRE(ring.has_value());
  const WithoutOverride as_others;
  const auto refresh = [&] { return ring->refresh(); };
  CHECK_FALSE(refresh());
  // It cannot be listed, but its files can be seen: known keys count until they are revoked.
  REQUIRE(::chmod(operators.c_str(), 0300) == 0);
  CHECK_FALSE(refresh());
  CHECK(ring->find(a) != nullptr);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].find("chmod a+rx " + operators) != std::string::npos);
  REQUIRE(::chmod(operators.c_str(), 0) == 0);
  CHECK(refresh());
  CHECK(ring->find(a) == nullptr);
  CHECK(ring->find(h) != nullptr);
  CHECK_FALSE(refresh());
  CHECK(errors.size() <= 2);  // once each way, not at each look
  REQUIRE(::chmod(operators.c_str(), 0755) == 0);
  CHECK(refresh());
  CHECK(ring->find(a) != nullptr);
  CHECK(fs::exists(alice));
}
