#include "common/config/config.h"

#include <doctest/doctest.h>

#include <set>

#include "common/base/did_you_mean.h"
#include "common/base/quantity.h"
#include "common/config/settings_file.h"
#include "tests/support/temp_dir.h"

using namespace std::chrono_literals;
using namespace meshbus;

namespace {

std::string source_of(const Config& config, std::string_view key) {
  for (const auto& one : config.show()) {
    if (one.key == key) return one.source;
  }
  return "no such key";
}

/// The detail of the error that these sources give.
std::string error_of(ConfigSources sources) {
  const auto config = Config::load(std::move(sources));
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().code() == ErrorCode::configuration_error);
  return config.error().detail();
}

/// A file with that text, and an environment that leads to it.
struct File {
  explicit File(std::string_view text) : path(dir.write("config", text)) {}
  test::TempDir dir;
  std::string path;
  ConfigSources sources() const { return {.environment = {{"MESHBUS_CONFIG", path}}}; }
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("config keys: every declaration is complete and its default is within its bounds") {
  std::set<std::string> variables;
  for (const KeyInfo& key : kKeyTable) {
    CAPTURE(key.name);
    const auto value = parse_value(key, key.standard);
    REQUIRE(value.has_value());
    CHECK(value_to_text(key, *value) == key.standard);
    CHECK_FALSE(key.meaning.empty());
    CHECK(variables.insert(environment_name(key)).second);
    CHECK(find_key(key.name) == &key);
    for (const std::string_view bound : {key.least, key.most}) {
      if (!bound.empty()) CHECK(parse_value(key, bound).has_value());
    }
  }
}

TEST_CASE("config: a path is absolute or nothing, and travels") {
  const auto config = Config::load({.flags = {{"logs.directory", "/var/log/of mine"}}});
  REQUIRE(config.has_value());
  CHECK(config->path(keys::logs_directory) == "/var/log/of mine");
  CHECK(config->snapshot() == std::vector<Setting>{{"logs.directory", "/var/log/of mine"}});
  CHECK(Config::load({.flags = {{"logs.directory", ""}}}).has_value());
  const auto wrong = Config::load({.flags = {{"logs.directory", "logs"}}});
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().detail().find("expected an absolute path") != std::string::npos);
}

TEST_CASE("config: defaults") {
  const auto config = Config::load({});
  REQUIRE(config.has_value());
  for (const Config& one : {*config, Config()}) {
    CHECK(one.duration(keys::spawn_ready) == 30s);
    CHECK(one.duration(keys::records_age) == 1h);
    CHECK(one.count(keys::terminate_in_flight) == 16);
    CHECK(one.bytes(keys::message_limit) == 1ULL << 30);
    CHECK(one.flag(keys::parent_death_signal));
    CHECK(one.word(keys::log_level) == "warn");
    CHECK(one.path(keys::logs_directory).empty());
    CHECK(one.snapshot().empty());
    CHECK(one.warnings().empty());
    CHECK(source_of(one, "lease") == "default");
  }
}

TEST_CASE("config: the stronger layer wins, and show() says which it was") {
  const File file("spawn.ready = 5s\n");
  ConfigSources sources{
      .test = {{"spawn.ready", "1s"}},
      .flags = {{"spawn.ready", "2s"}},
      .environment = {{"MESHBUS_SPAWN_READY", "3s"}, {"MESHBUS_CONFIG", file.path}},
      .runtime = {{"spawn.ready", "4s"}},
      .snapshot = {{"spawn.ready", "6s"}}};
  const auto expect = [&](std::chrono::seconds value, const std::string& source) {
    const auto config = Config::load(sources);
    REQUIRE(config.has_value());
    CHECK(config->duration(keys::spawn_ready) == value);
    CHECK(source_of(*config, "spawn.ready") == source);
  };
  expect(1s, "test");
  sources.test.clear();
  expect(2s, "flag");
  sources.flags.clear();
  expect(3s, "environment");
  sources.environment.erase("MESHBUS_SPAWN_READY");
  expect(4s, "runtime");
  sources.runtime.clear();
  expect(5s, "file " + file.path);
  sources.environment.clear();
  expect(6s, "launcher");
  sources.snapshot.clear();
  expect(30s, "default");
}

TEST_CASE(
    "config: spec 8.8: timeouts that stand in the wrong order are refused, and the error says "
    "which to change") {
  const auto why = [](std::vector<Setting> flags) {
    const auto config = Config::load({.flags = std::move(flags)});
    return config ? std::string() : config.error().detail();
  };
  CHECK(why({}) == "");
  CHECK(why({{"spawn.ready", "31s"}}) ==
        "spawn.ready = 31s (flag) is longer than spawn.idle = 30s (default): the launcher would "
        "give up before the hosts say which ranks are "
        "stuck, and at which stage; lower spawn.ready or raise spawn.idle");
  CHECK(why({{"spawn.ready", "31s"}, {"spawn.idle", "1m"}}) == "");
  CHECK(why({{"spawn.ready", "0s"}, {"spawn.idle", "1s"}}) == "");  // no limit
  CHECK(why({{"session.away", "3s"}})
            .starts_with(
                "2 times heartbeat = 5s (default) is longer than session.away = 3s (flag): "));
  CHECK(why({{"session.away", "3s"}, {"heartbeat", "1500ms"}}) == "");
  CHECK(why({{"supervision.poll", "61s"}}).ends_with("; lower supervision.poll or raise watchdog"));
  // At run time, too, and nothing has changed then.
  Config config;
  CHECK(config.set("heartbeat", "6s").error().code() == ErrorCode::configuration_error);
  CHECK(config.duration(keys::heartbeat) == 5s);
}

TEST_CASE("config: a file may have sections, comments and any case") {
  const File file(
      "# mine\n  ; too\n\nlease=0\n[Spawn]\nREADY = 250ms\n\t# indented\nidle=2m\r\n[queue]\nbytes "
      "= 1MiB\n[log]\nlevel = debug");
  const auto config = Config::load(file.sources());
  REQUIRE_MESSAGE(config.has_value(), config.error().to_string());
  CHECK(config->duration(keys::lease) == 0s);
  CHECK(config->duration(keys::spawn_ready) == 250ms);
  CHECK(config->duration(keys::spawn_idle) == 2min);
  CHECK(config->bytes(keys::queue_bytes) == 1 << 20);
  CHECK(config->word(keys::log_level) == "debug");
}

TEST_CASE("config: what each line of a file says") {
  using Settings = std::vector<Setting>;
  const std::vector<std::pair<std::string_view, Settings>> texts = {
      {"", {}},
      {"\n \n\t\r\n", {}},
      {"a=1", {{"a", "1"}}},
      {"  A.b \t=  1 2 \r\n", {{"a.b", "1 2"}}},
      {"a = b = c", {{"a", "b = c"}}},
      {"a = 1 ; no comment", {{"a", "1 ; no comment"}}},
      {"a", {{"a", ""}}},
      {"a =", {{"a", ""}}},
      {"= 1", {{"", "1"}}},
      {"[ S ]\na=1\n#b=2\n ;c=3\n[]\nd=4", {{"s.a", "1"}, {"d", "4"}}},
      {"[s] a=1\nb=2", {{"s.a", "1"}, {"s.b", "2"}}},
      {"[s\na=1", {{"s.a", "1"}}},
      {"a=1\na=2", {{"a", "1"}, {"a", "2"}}},
  };
  for (const auto& [text, settings] : texts) {
    CAPTURE(text);
    CHECK(parse_settings_file(text) == settings);
  }
}

TEST_CASE("config: which file is read") {
  const test::TempDir dir;
  std::filesystem::create_directories(dir / "home/.config/meshbus");
  std::filesystem::create_directories(dir / "xdg/meshbus");
  dir.write("home/.config/meshbus/config", "lease = 1s");
  dir.write("xdg/meshbus/config", "lease = 2s");
  dir.write("own", "lease = 3s");
  const auto lease = [](std::map<std::string, std::string> environment) {
    const auto config = Config::load({.environment = std::move(environment)});
    REQUIRE(config.has_value());
    return config->duration(keys::lease);
  };
  const std::string home = dir / "home", xdg = dir / "xdg";
  CHECK(lease({{"HOME", home}}) == 1s);
  CHECK(lease({{"HOME", home}, {"XDG_CONFIG_HOME", "relative"}}) == 1s);
  CHECK(lease({{"HOME", home}, {"XDG_CONFIG_HOME", xdg}}) == 2s);
  CHECK(lease({{"HOME", home}, {"XDG_CONFIG_HOME", xdg}, {"MESHBUS_CONFIG", dir / "own"}}) == 3s);
  CHECK(lease({{"HOME", dir / "nobody"}}) == 60s);
}

TEST_CASE("config: the site's file counts for users without one of their own") {
  const test::TempDir dir;
  std::filesystem::create_directories(dir / "xdg/meshbus");
  dir.write("site", "lease = 7s\n");
  const auto lease = [&](std::map<std::string, std::string> environment, const char* site) {
    const auto config =
        Config::load({.environment = std::move(environment), .site_file = dir / site});
    REQUIRE(config.has_value());
    return config->duration(keys::lease);
  };
  const std::string xdg = dir / "xdg";
  CHECK(lease({}, "site") == 7s);
  CHECK(lease({{"XDG_CONFIG_HOME", xdg}}, "site") == 7s);
  CHECK(lease({}, "none") == 60s);
  dir.write("xdg/meshbus/config", "tail.lines = 3\n");
  CHECK(lease({{"XDG_CONFIG_HOME", xdg}}, "site") == 60s);
}

TEST_CASE("config: a file that was asked for must be readable") {
  const test::TempDir dir;
  CHECK(contains(error_of({.environment = {{"MESHBUS_CONFIG", dir / "none"}}}),
                 "none: No such file or directory"));
  CHECK(contains(error_of({.environment = {{"MESHBUS_CONFIG", dir.path().string()}}}),
                 "it is a directory"));
  dir.write("huge", std::string((1 << 20) + 1, '\n'));
  CHECK(
      contains(error_of({.environment = {{"MESHBUS_CONFIG", dir / "huge"}}}), "larger than 1 MiB"));
}

TEST_CASE("config: a bad value names key, value, source and expected form") {
  CHECK(error_of({.flags = {{"spawn.ready", "3 parsecs"}}}) ==
        "spawn.ready = \"3 parsecs\" (flag --set): expected a duration from 0s to 24h, like 250ms, "
        "30s, 2m or 1h");
  CHECK(error_of({.environment = {{"MESHBUS_TERMINATE_IN_FLIGHT", "257"}}}) ==
        "terminate.in_flight = \"257\" (environment variable MESHBUS_TERMINATE_IN_FLIGHT): "
        "expected a whole number from 1 to 256");
  CHECK(error_of({.snapshot = {{"log.level", "loud"}}}) ==
        "log.level = \"loud\" (settings of the launcher): expected one of trace, debug, info, "
        "warn, error");
  const File file("[queue]\nbytes = many\n");
  CHECK(error_of(file.sources()) ==
        "queue.bytes = \"many\" (file " + file.path +
            "): expected a number of bytes from 64KiB to 1GiB, like 4096, 64KiB, 1MiB or 1GiB");
  // Also where a stronger layer covers it.
  CHECK(contains(error_of({.flags = {{"lease", "5s"}}, .environment = {{"MESHBUS_LEASE", ""}}}),
                 "lease = \"\""));
}

TEST_CASE("config: an unknown key is an error with a suggestion") {
  CHECK(error_of({.flags = {{"spawn.redy", "3s"}}}) ==
        "there is no setting \"spawn.redy\" (flag --set): did you mean \"spawn.ready\"?");
  CHECK(contains(error_of({.flags = {{"quux", "3s"}}}), "the keys are spawn.idle, spawn.ready, "));
  const File file("[spawn]\nreadyy = 1s\n");
  CHECK(contains(error_of(file.sources()), "did you mean \"spawn.ready\"?"));
}

TEST_CASE("config: an odd file is an error, never a crash") {
  for (const std::string_view text :
       {"= 3", "spawn.ready", "[", "]", "[]\n=\n", "a..b = 1", ".= 1",
        "spawn = 1\nspawn.ready = 1s", "\x01\xff=\xfe", "[spawn]\n.ready = 1s"}) {
    CAPTURE(text);
    const File file(text);
    const auto config = Config::load(file.sources());
    if (!config) CHECK(config.error().code() == ErrorCode::configuration_error);
  }
  const File zeros(std::string_view("lease = 1s\0\n", 12));
  CHECK_FALSE(Config::load(zeros.sources()).has_value());
}

TEST_CASE("config: a value is data, not a reference to something else") {
  CHECK(contains(error_of({.flags = {{"lease", "${system.env.HOME}"}}}), "\"${system.env.HOME}\""));
}

TEST_CASE("config: unknown variables and keys of another version are warnings") {
  const auto config = Config::load({.environment = {{"MESHBUS_SPAWN_REDY", "1s"},
                                                    {"MESHBUS_BOOTSTRAP", "3"},
                                                    {"MESHBUS_RANK_HOST", "0"},
                                                    {"MESHBUS_SIZE_HOST", "2"},
                                                    {"MESHBUS_ADDR", "x"},
                                                    {"MESHBUS_MESH", "x"},
                                                    {"MESHBUS_RESTARTS", "1"},
                                                    {"MESHBUS_HOSTS", "x"},
                                                    {"MESHBUS_CONTAINMENT", "sweep"},
                                                    {"MESHBUS_ROLE", "store"},
                                                    {"MESHBUS_ROLES", "store,actor"},
                                                    {"MESHBUS_ROLE_ACTOR", "x"},
                                                    {"MESHBUS_ROLE_ACTOR_PORT", "1"},
                                                    {"MESHBUS_LISTEN_PORT", "1"},
                                                    {"MESHBUS_TORCH_GANG", "all"},
                                                    {"OTHER", "x"}},
                                    .snapshot = {{"key.of.tomorrow", "7"}}});
  REQUIRE(config.has_value());
  REQUIRE(config->warnings().size() == 2);
  CHECK(config->warnings()[0] ==
        "the environment variable MESHBUS_SPAWN_REDY means nothing: did you mean "
        "MESHBUS_SPAWN_READY?");
  CHECK(contains(config->warnings()[1], "\"key.of.tomorrow\" (settings of the launcher)"));
  CHECK(config->snapshot().empty());
}

TEST_CASE("config: a snapshot makes the same settings elsewhere, as the weakest layer") {
  const auto launcher = Config::load({.flags = {{"spawn.ready", "25s"}, {"queue.bytes", "65536"}},
                                      .environment = {{"MESHBUS_LEASE", "0"}}});
  REQUIRE(launcher.has_value());
  const auto snapshot = launcher->snapshot();
  CHECK(snapshot ==
        std::vector<Setting>{{"spawn.ready", "25s"}, {"lease", "0s"}, {"queue.bytes", "64KiB"}});
  const auto proc = Config::load({.environment = {{"MESHBUS_LEASE", "7s"}}, .snapshot = snapshot});
  REQUIRE(proc.has_value());
  CHECK(proc->duration(keys::spawn_ready) == 25s);
  CHECK(proc->duration(keys::lease) == 7s);
  CHECK(proc->bytes(keys::queue_bytes) == 64 << 10);
}

TEST_CASE("config: where keys lie is not told to other machines") {
  const auto launcher = Config::load(
      {.flags = {{"keys.directory", "/keys"}, {"keys.own", "/keys/alice.key"}, {"lease", "5s"}}});
  REQUIRE(launcher.has_value());
  CHECK(launcher->path(keys::keys_own) == "/keys/alice.key");
  CHECK(launcher->snapshot() == std::vector<Setting>{{"lease", "5s"}});
}

TEST_CASE("config: set() at run time, which flags and environment still cover") {
  auto config = *Config::load({.flags = {{"lease", "5s"}}});
  CHECK(config.set("tail.lines", "7").has_value());
  CHECK(config.set("tail.lines", "8").has_value());
  CHECK(config.count(keys::tail_lines) == 8);
  CHECK(source_of(config, "tail.lines") == "runtime");
  CHECK(config.set("lease", "9s").has_value());
  CHECK(config.duration(keys::lease) == 5s);
  CHECK(config.set("tail.lines", "lots").error().detail() ==
        "tail.lines = \"lots\" (set at run time): expected a whole number from 0 to 100000");
  CHECK(config.count(keys::tail_lines) == 8);
}

TEST_CASE("config: set() does not read the file again") {
  const File file("lease = 1s\n");
  auto config = *Config::load(file.sources());
  file.dir.write("config", "lease = 2s\n");
  CHECK(config.set("tail.lines", "7").has_value());
  CHECK(config.duration(keys::lease) == 1s);
}

TEST_CASE("config: settings on the command line") {
  CHECK(*parse_setting("spawn.ready=30s") == Setting{"spawn.ready", "30s"});
  CHECK(*parse_setting("a=b=c") == Setting{"a", "b=c"});
  CHECK(parse_setting("=3").error().code() == ErrorCode::configuration_error);
  CHECK(parse_setting("spawn.ready").error().detail() ==
        "\"spawn.ready\" is not a setting: expected key=value, like spawn.ready=30s");
}

TEST_CASE("config: the environment of this process") {
  ::setenv("MESHBUS_LEASE", "77s", 1);
  const auto config = Config::load(ConfigSources::of_process());
  ::unsetenv("MESHBUS_LEASE");
  REQUIRE(config.has_value());
  CHECK(config->duration(keys::lease) == 77s);
}

TEST_CASE("quantity: durations") {
  const std::pair<std::string_view, std::chrono::milliseconds> good[] = {
      {"250ms", 250ms}, {"30s", 30s},     {"2m", 2min},   {"1h", 1h},      {"7", 7s},
      {"0", 0s},        {"1.5s", 1500ms}, {"0.25m", 15s}, {"0.001s", 1ms}, {"000030s", 30s}};
  for (const auto& one : good) {
    const auto text = one.first;
    const auto value = one.second;
    CAPTURE(text);
    REQUIRE(parse_duration(text).has_value());
    CHECK(*parse_duration(text) == value);
    CHECK(*parse_duration(duration_to_text(value)) == value);
  }
  CHECK(*parse_duration("7", "ms") == 7ms);
  for (const std::string_view bad : {"",
                                     "s",
                                     "-1s",
                                     "+1s",
                                     "1 s",
                                     " 1s",
                                     "1s ",
                                     "1.s",
                                     ".5s",
                                     "1..5s",
                                     "1.5.5s",
                                     "0.5ms",
                                     "1.2345s",
                                     "1S",
                                     "1sec",
                                     "1e3s",
                                     "0x10s",
                                     "99999999999999999999s",
                                     "9223372036854775807h",
                                     "9223372036854775807",
                                     "inf",
                                     "nan"}) {
    CAPTURE(bad);
    REQUIRE_FALSE(parse_duration(bad).has_value());
    CHECK(parse_duration(bad).error().code() == ErrorCode::parse_error);
  }
  CHECK(duration_to_text(90s) == "90s");
  CHECK(duration_to_text(2min) == "2m");
  CHECK(duration_to_text(1500ms) == "1500ms");
  CHECK(duration_to_text(-3s) == "-3s");
  CHECK(duration_to_text(0s) == "0s");
}

TEST_CASE("quantity: bytes") {
  CHECK(*parse_bytes("64KiB") == 65536);
  CHECK(*parse_bytes("1.5MiB") == 1572864);
  CHECK(*parse_bytes("4096") == 4096);
  CHECK(*parse_bytes("12B") == 12);
  for (const std::string_view bad : {"64KB", "64k", "-1", "1.5", "1TiB", "8589934592GiB"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_bytes(bad).has_value());
  }
  CHECK(bytes_to_text(65536) == "64KiB");
  CHECK(bytes_to_text(1000) == "1000B");
}

TEST_CASE("did_you_mean: near words only") {
  const std::vector<std::string> verbs = {"run", "host", "ps", "stop", "shutdown", "version"};
  CHECK(did_you_mean("shutdwon", verbs) == "shutdown");
  CHECK(did_you_mean("stpo", verbs) == "stop");
  CHECK(did_you_mean("stp", verbs) == "stop");
  CHECK(did_you_mean("rum", verbs) == "run");
  CHECK(did_you_mean("kubernetes", verbs) == "");
  CHECK(did_you_mean(std::string(1000000, 'x'), verbs) == "");
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("rnu", "run") == 1);
}
