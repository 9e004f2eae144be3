// The settings of a program: declared in the ranks, set by the spawn, changed while they run (spec
// 6.5).
#include <regex>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

ProcSpec with_settings(std::vector<std::pair<std::string, std::string>> settings) {
  return {.kind = ProcKind::mesh,
          .command = {bin("meshbus_test_proc"), "settings"},
          .output = OutputMode::stream,
          .program_settings = std::move(settings)};
}

/// "0.2 launcher"
std::string told(const Result<std::vector<ProcSetting>>& settings, std::string_view key) {
  if (!settings) return settings.error().to_string();
  for (const auto& one : *settings) {
    if (one.key == key) return one.value + " " + one.source;
  }
  return "not there";
}

constexpr auto kWhatThereIs =
    "the program has no setting 'speed'; it has batch (a whole number): samples in a step; name "
    "(text): of the run; pause (a duration, like 250ms, 30s, 2m or 1h): between two steps; rate (a "
    "number): learning rate; verbose (true or false): whether each step is told";

}  // namespace

TEST_CASE(
    "client: spec 6.5: a program's own settings travel with the spawn, are read in the ranks, and "
    "change while these run") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  Heard heard;
  auto mesh =
      must(hosts.spawn("m", extent("gpu=2"), with_settings({{"rate", "0.25"}, {"verbose", "true"}}),
                       heard.handlers()));
  const auto read = [&](std::uint64_t rank, std::string_view name) {
    return must(must(mesh.proc(rank)).call(context, 20, name, in_time));
  };
  CHECK(read(3, "rate") == "0.25");
  CHECK(read(3, "verbose") == "true");
  CHECK(read(3, "batch") == "32");
  CHECK(read(3, "pause") == "250ms");
  CHECK(read(3, "name") == "nobody");
  CHECK(read(3, "sum") == "32.250000");
  CHECK(must(mesh.proc(3))
            .call(context, 20, "wrong", in_time)
            .error()
            .detail()
            .find("setting rate of the program is of another type: a number") != std::string::npos);
  CHECK(
      must(mesh.proc(3)).call(context, 20, "speed", in_time).error().detail().find(kWhatThereIs) !=
      std::string::npos);
  // They are none of the launcher's own.
  CHECK(must(must(mesh.proc(0)).call(context, 21, "", in_time)).find("program") ==
        std::string::npos);

  const auto at_birth = must(context.settings(mesh.ref(), in_time));
  REQUIRE(at_birth.size() == 4);
  CHECK(told(at_birth[2], "program.rate") == "0.25 launcher");
  CHECK(told(at_birth[2], "program.batch") == "32 default");
  CHECK(told(at_birth[2], "terminate.grace") == "10s default");
  const auto& all = must(at_birth[2]);
  CHECK(all.back().key == "program.verbose");
  CHECK(all.back().form == "true or false");
  CHECK(all.back().help == "whether each step is told");

  const auto half = must(mesh.ref().at("host", 1));
  const auto changed = must(context.change_settings(
      half, {{"program.rate", "1e-3"}, {"program.name", "a b"}, {"terminate.grace", "3s"}},
      in_time));
  REQUIRE(changed.size() == 2);
  CHECK(told(changed[1], "program.rate") == "0.001 runtime");
  CHECK(told(changed[1], "terminate.grace") == "3s runtime");
  CHECK(read(3, "rate") == "0.001");
  CHECK(read(3, "name") == "a b");
  CHECK(read(0, "rate") == "0.25");
  CHECK(wait_until(
      [&] {
        const auto said = heard.output(3, Stream::err) + heard.output(3, Stream::out);
        return said.find("on_setting rate=0.001 0.001") != std::string::npos &&
               said.find("on_setting name=a b a b") != std::string::npos;
      },
      in_time));

  // All of a call or nothing of it.
  const auto refused = must(context.change_settings(
      half, {{"program.rate", "0.5"}, {"log.level", "info"}, {"program.batch", "many"}}, in_time));
  REQUIRE_FALSE(refused[0].has_value());
  CHECK(refused[0].error().code() == ErrorCode::configuration_error);
  CHECK(refused[0].error().detail().find(
            "setting batch of the program: expected a whole number, found 'many'") !=
        std::string::npos);
  const auto unknown = must(
      context.change_settings(half, {{"program.speed", "1"}, {"terminate.grace", "9s"}}, in_time));
  CHECK(unknown[0].error().detail().find(kWhatThereIs) != std::string::npos);
  const auto mixed =
      must(context.change_settings(half, {{"program.rate", "0.5"}, {"lease", "9s"}}, in_time));
  CHECK_FALSE(mixed[0].has_value());
  const auto after = must(context.settings(half, in_time));
  CHECK(told(after[0], "program.rate") == "0.001 runtime");
  CHECK(told(after[0], "terminate.grace") == "3s runtime");
  CHECK(told(after[0], "log.level") == "warn default");
  must(mesh.stop());
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 6.5: a spawn that sets what the program does not have, or a value of another "
    "type, fails and says what there is") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  const auto refused = [&](ProcSpec spec) {
    Heard heard;
    const auto made = hosts.spawn("m", extent("gpu=1"), std::move(spec), heard.handlers());
    REQUIRE_FALSE(made.has_value());
    INFO(made.error().to_string());
    return made.error();
  };
  auto error = refused(with_settings({{"speed", "1"}}));
  CHECK(error.code() == ErrorCode::proc_creation_error);
  CHECK(error.detail().find("exit 78") != std::string::npos);
  CHECK(error.detail().find(kWhatThereIs) != std::string::npos);
  error = refused(with_settings({{"verbose", "maybe"}}));
  CHECK(error.detail().find("setting verbose of the program: expected true or false, found "
                            "'maybe'") != std::string::npos);
  auto shared = with_settings({{"pause", "soon"}});
  shared.procs_per_process = 2;
  error = refused(std::move(shared));
  CHECK(error.detail().find("expected a duration, like 250ms, 30s, 2m or 1h, found 'soon'") !=
        std::string::npos);
  auto none = with_settings({{"rate", "1"}});
  none.command = {bin("echo_proc")};
  CHECK(refused(std::move(none)).detail().find("it has none at all") != std::string::npos);
  auto plain = shell("true");
  plain.program_settings = {{"rate", "1"}};
  error = refused(std::move(plain));
  CHECK(error.code() == ErrorCode::configuration_error);
  CHECK(error.detail().find("only mesh procs have settings of their program") != std::string::npos);
  must(hosts.shutdown(in_time));
}

TEST_CASE("cli: spec 6.5: --program-set sets what config shows and changes") {
  const StandingHost standing;
  Process controller(Words{bin("meshbus-controller"), "--hosts", standing.address()});
  const auto on_host = [&](Words words, const Words& command = {}) {
    words.insert(words.begin() + 1, {"--hosts", standing.address()});
    words.insert(words.end(), command.begin(), command.end());
    return run_cli(words);
  };
  const Words command{"--", bin("meshbus_test_proc"), "settings"};
  auto done = on_host({"spawn", "m", "--wait-for-controller", "--mesh", "--program-set", "rate=0.5",
                       "--program-set", "name=a=b c"},
                      command);
  INFO(done.err);
  REQUIRE(done.status == ExitStatus::exited(0));
  done = on_host({"config", "m[0]", "--change", "program.rate=0.75"});
  INFO(done.out);
  CHECK(std::regex_search(done.out, std::regex("program.rate +0.75 +runtime\n")));
  CHECK(std::regex_search(done.out, std::regex("program.name +a=b c +launcher\n")));
  CHECK(on_host({"stop", "m"}).status == ExitStatus::exited(0));

  done = on_host({"spawn", "n", "--mesh", "--program-set", "speed=1"}, command);
  CHECK(done.status != ExitStatus::exited(0));
  CHECK(done.err.find(kWhatThereIs) != std::string::npos);
  for (const Words& wrong :
       {Words{"--mesh", "--program-set", "rate"}, Words{"--mesh", "--program-set", "=1"},
        Words{"--program-set", "rate=1"}}) {
    Words words{"spawn", "n"};
    words.insert(words.end(), wrong.begin(), wrong.end());
    done = on_host(std::move(words), command);
    CHECK(done.status == ExitStatus::exited(2));
    CHECK(done.err.find("--program-set") != std::string::npos);
  }
}
