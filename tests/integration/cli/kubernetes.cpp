// What docker/kubernetes/keys makes, laid out as a kubelet does it, is what hosts and launchers
// take for keys; and it changes while they run.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/golden.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

namespace fs = std::filesystem;

std::string from_base64(const std::string& text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    const auto digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    bits = (bits << 6U) | static_cast<unsigned>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>((bits >> count) & 0xFFU);
  }
  return bytes;
}

/// A volume of a ConfigMap or Secret: its directory is open to all (1777) and has links only; what
/// there is lies in a directory of its own (0755), which ..data names. A new version is another
/// such directory, and ..data is replaced in one step.
class Volume {
 public:
  Volume() { ::chmod(dir_.path().c_str(), 01777); }
  void update(const std::vector<std::pair<std::string, std::string>>& files, mode_t mode) {
    const std::string version = "..2026_01_01_00_00_0" + std::to_string(++version_);
    for (const auto& [path, text] : files) {
      const fs::path whole = fs::path(dir_ / version) / path;
      fs::create_directories(whole.parent_path());
      dir_.write(version + "/" + path, text);
      ::chmod(whole.c_str(), mode);
    }
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / version)) {
      if (entry.is_directory()) fs::permissions(entry.path(), fs::perms(0755));
    }
    fs::permissions(dir_ / version, fs::perms(0755));
    fs::create_directory_symlink(version, dir_ / "..data_tmp");
    fs::rename(dir_ / "..data_tmp", dir_ / "..data");
  }
  std::string data() const { return dir_ / "..data"; }

 private:
  TempDir dir_;
  int version_ = 0;
};

}  // namespace

TEST_CASE(
    "kubernetes: hosts and launchers take keys from the volumes of a pod, and a key that leaves "
    "them is refused") {
  const TempDir site;
  const auto made =
      run({source_dir() + "/docker/kubernetes/keys", site / "keys", "127.0.0.1", "127.0.0.2"},
          in_time, {.environment = {{"MESHBUS", bin("meshbus")}}});
  INFO(made.err);
  REQUIRE(made.status == ExitStatus::exited(0));
  const auto items = parse_json(made.out).at("items");
  std::vector<std::pair<std::string, std::string>> known, secrets;
  for (const auto& [name, text] : items.at(0).at("binaryData").items()) {
    // ROLE.HOST.pub
    const auto dot = name.find('.');
    known.emplace_back("authorised/" + name.substr(0, dot) + "/" + name.substr(dot + 1),
                       from_base64(text.get<std::string>()));
  }
  for (const auto& [name, text] : items.at(1).at("data").items())
    secrets.emplace_back(name, from_base64(text.get<std::string>()));
  REQUIRE(known.size() == 3);
  REQUIRE(secrets.size() == 3);
  Volume authorised, keys;
  authorised.update(known, 0644);
  // Hosts run as somebody else than root there and read it as its group (0440); a test may be
  // anybody.
  keys.update(secrets, 0400);
  const auto with = [&](const std::string& name) {
    return ProcessOptions{.environment = {{"MESHBUS_KEYS_DIRECTORY", authorised.data()},
                                          {"MESHBUS_KEYS_OWN", keys.data() + "/" + name + ".key"}}};
  };
  StandingHost one({"--bind", "tcp:127.0.0.1:0"}, with("127.0.0.1")),
      two({"--bind", "tcp:127.0.0.2:0"}, with("127.0.0.2"));
  const auto job = [&] {
    return run_cli(
        {"run", "--hosts", one.address() + "," + two.address(), "-n", "2", "--", "echo", "done"},
        with("launcher"));
  };
  const auto done = job();
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(lines_of(done.out).size() == 2);

  std::erase_if(known,
                [](const auto& file) { return file.first == "authorised/operator/launcher.pub"; });
  REQUIRE(known.size() == 2);
  authorised.update(known, 0644);
  CHECK(
      time_until([&] { return job().err.find("or not any more") != std::string::npos; }, in_time));
}
