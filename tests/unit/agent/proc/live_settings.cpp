// What a proc goes by while it runs, and the call that asks and changes it (spec 6.5, 11.2).
#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <string>

#include "agent/proc/runtime/live_settings.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::mesh_proc;

namespace {

Bootstrap born_with(std::vector<std::pair<std::string, std::string>> config,
                    std::chrono::milliseconds away = 10s) {
  const auto host = *HostAddr::parse("tcp:h1:7420");
  return {.proc = *ProcId::parse("tcp:h1:7420,trainers_0-13Se1Maqzryj"),
          .incarnation = 1,
          .token = {},
          .broker = "ipc:///b",
          .host = host,
          .mesh = *ProcMeshRef::make(*Name::parse("trainers-13Se1Maqzryj"), {host}, 1,
                                     Region(*Extent::parse("gpu=1"))),
          .rank = 0,
          .config = std::move(config),
          .away = away,
          .heartbeat = 5s};
}

LiveSettings make_settings(std::vector<std::pair<std::string, std::string>> config,
                           std::map<std::string, std::string> environment = {},
                           std::chrono::milliseconds away = 10s) {
  return {born_with(std::move(config), away), [&](const char* name) -> const char* {
            const auto found = environment.find(name);
            return found == environment.end() ? nullptr : found->second.c_str();
          }};
}

std::string text_of(const LiveSettings& settings) {
  std::string text;
  for (const auto& one : settings.list())
    text += one.key + "=" + one.value + " (" + one.source + ") ";
  return text;
}

}  // namespace

TEST_CASE("proc: live settings: environment over run time over launcher over default") {
  auto settings = make_settings({{"terminate.grace", "3s"}, {"log.level", "info"}, {"lease", "5s"}},
                                {{"MESHBUS_LOG_LEVEL", "error"}});
  CHECK(text_of(settings) ==
        "terminate.grace=3s (launcher) session.away=10s (default) handler.stuck=2m (default) "
        "message.limit=1GiB (default) "
        "log.level=error (environment) ");
  CHECK(settings.level() == log::Level::error);
  REQUIRE(settings.change({{"terminate.grace", "250ms"}, {"session.away", "1m"}}).has_value());
  CHECK(settings.grace() == 250ms);
  CHECK(settings.away() == 1min);
  CHECK(text_of(settings) ==
        "terminate.grace=250ms (runtime) session.away=1m (runtime) handler.stuck=2m (default) "
        "message.limit=1GiB (default) "
        "log.level=error (environment) ");
  // Its host decides what the agent itself goes by.
  CHECK(text_of(make_settings({{"session.away", "20s"}}, {}, 4s)) ==
        "terminate.grace=10s (default) session.away=4s (host) handler.stuck=2m (default) "
        "message.limit=1GiB (default) "
        "log.level=warn (default) ");
  CHECK(text_of(make_settings({{"session.away", "20s"}, {"terminate.grace", "nonsense"}},
                              {{"MESHBUS_TERMINATE_GRACE", "later"}}, 20s)) ==
        "terminate.grace=10s (default) session.away=20s (launcher) handler.stuck=2m (default) "
        "message.limit=1GiB (default) "
        "log.level=warn (default) ");
}

TEST_CASE(
    "proc: live settings: where several procs share a process, none of them decides what that "
    "writes down") {
  LiveSettings settings(
      born_with({{"log.level", "info"}}), [](const char*) -> const char* { return nullptr; },
      false);
  CHECK(text_of(settings) ==
        "terminate.grace=10s (default) session.away=10s (default) handler.stuck=2m (default) "
        "message.limit=1GiB (default) ");
  CHECK(!settings.level());
  CHECK(settings.change({{"log.level", "debug"}}).error().detail() ==
        "a proc goes by terminate.grace, session.away, handler.stuck, message.limit while it runs, "
        "and not by "
        "'log.level'");
}

TEST_CASE("proc: live settings: a change that cannot be made says why, and nothing of it is done") {
  auto settings = make_settings({}, {{"MESHBUS_LOG_LEVEL", "error"}});
  const auto before = text_of(settings);
  const auto why = [&](SettingChanges changes) {
    const auto changed = settings.change(changes);
    REQUIRE(!changed);
    CHECK(changed.error().code() == ErrorCode::configuration_error);
    CHECK(text_of(settings) == before);
    return changed.error().detail();
  };
  CHECK(why({{"terminate.grace", "1s"}, {"lease", "5s"}}) ==
        "a proc goes by terminate.grace, session.away, handler.stuck, message.limit, log.level "
        "while it runs, and "
        "not by 'lease'");
  CHECK(why({{"terminate.grace", "1s"}, {"leese", "5s"}})
            .ends_with("not by 'leese', which is no setting at all"));
  CHECK(why({{"terminate.grace", "1s"}, {"session.away", "soon"}}) ==
        "session.away = 'soon': expected a duration from 10ms to 24h, like 250ms, 30s, 2m or 1h");
  CHECK(why({{"terminate.grace", "1s"}, {"log.level", "debug"}}) ==
        "log.level is decided by MESHBUS_LOG_LEVEL in the environment of the proc, which is "
        "stronger");
}

TEST_CASE(
    "proc: live settings: what travels comes back as it was, and no bytes of a stranger do any "
    "harm") {
  const SettingChanges changes = {{"terminate.grace", "1s"}, {"x", ""}};
  const auto call = encode_settings_call(changes);
  CHECK(decode_settings_call(call).value() == changes);
  CHECK(decode_settings_call(encode_settings_call({})).value().empty());
  const auto settings = decode_settings(encode_settings({{"log.level", "debug", "runtime"}}));
  REQUIRE(settings.has_value());
  REQUIRE(settings->size() == 1);
  CHECK(settings->front().source == "runtime");
  // Whatever is cut off or bent is refused, or says something else; the sanitizers look at how it
  // is read.
  for (std::size_t size = 0; size < call.size(); ++size)
    static_cast<void>(decode_settings_call(Bytes(call).substr(0, size)));
  for (std::size_t at = 0; at < call.size(); ++at) {
    for (const int bit : {1, 128}) {
      auto bent = call;
      bent[at] = static_cast<char>(bent[at] ^ bit);
      static_cast<void>(decode_settings_call(bent));
      static_cast<void>(decode_settings(bent));
    }
  }
  CHECK(decode_settings_call("").error().code() == ErrorCode::malformed_message);
  CHECK(decode_settings_call(std::string(1000, '\xff')).error().code() ==
        ErrorCode::malformed_message);
  CHECK(decode_settings_call(
            encode_settings_call(SettingChanges(kMostSettingChanges + 1, {"a", "b"})))
            .error()
            .code() == ErrorCode::malformed_message);
  CHECK(decode_settings_call(encode_settings_call({{"a", std::string(100'000, 'x')}}))
            .error()
            .code() == ErrorCode::malformed_message);
}
