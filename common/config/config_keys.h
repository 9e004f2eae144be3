#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "meshbus/result.h"

/// Which settings there are and how their values are written (spec 11.1, 11.3). A key is a
/// row of the table and a constant in `keys` below. Its default, the file, the environment
/// variable, `--set`, `meshbus config` and the documentation all come from the table.
namespace meshbus {

/// What a value is, and with that how it is written: `250ms`, `30s`, `2m`, `1h` (a plain number is
/// in the key's unit); `64`; `64KiB`, `1MiB`, `1GiB` (or plain bytes); `true` or `false`; one of
/// the words in `unit`; an absolute path, or nothing.
enum class ValueKind : std::uint8_t { duration, count, bytes, boolean, word, path };

/// One setting. All texts are written as a user would write them.
struct KeyInfo {
  std::string_view name;  ///< `spawn.ready`; in the environment it is MESHBUS_SPAWN_READY.
  ValueKind kind;
  std::string_view unit;  ///< Duration: the unit of a plain number. Word: the words allowed, with
                          ///< commas. Else empty.
  std::string_view standard;  ///< The default.
  std::string_view least;     ///< Smallest value allowed; empty for booleans and words.
  std::string_view most;      ///< Largest value allowed; likewise.
  std::string_view meaning;   ///< For people, one sentence.
};

inline constexpr std::array kKeyTable = std::to_array<KeyInfo>({
    {"spawn.idle", ValueKind::duration, "s", "30s", "1ms", "24h",
     "longest time without any progress while a mesh is being spawned, before the spawn is given "
     "up"},
    {"spawn.ready", ValueKind::duration, "s", "30s", "0s", "24h",
     "time a new proc has to become ready before it is killed and reported; 0 = no limit"},
    {"spawn.in_flight", ValueKind::count, "", "64", "1", "1024",
     "procs that one host starts at the same time"},
    {"stop.idle", ValueKind::duration, "s", "30s", "1ms", "24h",
     "longest time without any progress while a mesh is being stopped, before the stop is reported "
     "as failed"},
    {"state.idle", ValueKind::duration, "s", "1m", "1ms", "24h",
     "longest time without an answer of any host while a launcher waits for the statuses of ranks "
     "that it did not start"},
    {"terminate.grace", ValueKind::duration, "s", "10s", "0s", "24h",
     "time between SIGTERM and SIGKILL when a proc is ended"},
    {"terminate.in_flight", ValueKind::count, "", "16", "1", "256",
     "procs that one host ends at the same time"},
    {"supervision.poll", ValueKind::duration, "s", "10s", "10ms", "1h",
     "how often a controller asks every host for all states, in case an update got lost; also the "
     "interval of its heartbeat"},
    {"supervision.probe", ValueKind::duration, "s", "1s", "10ms", "1m",
     "how often launchers and controllers ask hosts whether they are there"},
    {"watchdog", ValueKind::duration, "s", "2m", "100ms", "24h",
     "silence of a controller after which the owner of a mesh treats it as lost"},
    {"supervision.term", ValueKind::duration, "s", "10s", "200ms", "1h",
     "silence of the acting one of several controllers (--pair) after which another one takes "
     "over"},
    {"lease", ValueKind::duration, "s", "1m", "0s", "24h",
     "time after which procs are stopped if their lease is not renewed; 0 = no lease"},
    {"heartbeat", ValueKind::duration, "s", "5s", "10ms", "1h",
     "interval of the signs of life between a proc and its agent"},
    {"handler.stuck", ValueKind::duration, "s", "2m", "0s", "24h",
     "time that one handler of a proc or actor may run before the rank is reported as in trouble, "
     "at the next heartbeat; 0 = any time"},
    {"session.away", ValueKind::duration, "s", "10s", "10ms", "24h",
     "time a proc lives on without its agent or broker before it ends itself; also the silence "
     "after which a proc is reported as frozen"},
    {"delivery.limit", ValueKind::duration, "s", "30s", "10ms", "24h",
     "time a message may be under way before it is returned to its sender"},
    {"delivery.starting", ValueKind::duration, "s", "5s", "0s", "1h",
     "time a message waits in the broker for a proc that has not yet registered"},
    {"direct.paths", ValueKind::boolean, "", "true", "", "",
     "whether procs of one host that talk much to each other may do so without the broker"},
    {"hop.limit", ValueKind::count, "", "64", "1", "255",
     "brokers that a message may pass before it is returned"},
    {"message.limit", ValueKind::bytes, "", "1GiB", "1KiB", "64GiB",
     "largest body that a launcher or proc sends or takes, answers included; bodies above 1MiB "
     "travel in chunks, or lie in memory that procs of one host share, and a receiver keeps at "
     "most twice this of them"},
    {"tail.lines", ValueKind::count, "", "100", "0", "100000",
     "last lines of output that are kept in memory for each proc"},
    {"logs.directory", ValueKind::path, "", "", "", "",
     "where a host keeps all that its procs write, in files MESH/RANK.out and MESH/RANK.err, and "
     "its event log, events-HOST.jsonl; empty = no files"},
    {"logs.size", ValueKind::bytes, "", "16MiB", "4KiB", "64GiB",
     "size at which such a file is rotated"},
    {"logs.files", ValueKind::count, "", "5", "1", "1000",
     "files that are kept for each stream of a proc, the one being written among them"},
    {"events.size", ValueKind::bytes, "", "8MiB", "1MiB", "1GiB",
     "bytes that the event log of a host may take: what ended there, and why"},
    {"audit.size", ValueKind::bytes, "", "16MiB", "1MiB", "64GiB",
     "bytes that the audit trail of a host may take: who did what there"},
    {"audit.sync", ValueKind::boolean, "", "false", "", "",
     "whether a host waits until the disk has each entry of its audit trail"},
    {"cast.width", ValueKind::count, "", "16", "2", "1024",
     "hosts that one host passes a cast on to"},
    {"connections.rate", ValueKind::count, "", "200", "0", "1000000",
     "connections over tcp that one address may open to a broker each second, with five seconds' "
     "worth at once; 0 = any number"},
    {"connections.per_key", ValueKind::count, "", "128", "0", "1000000",
     "connections over tcp that the key of an observer or client may have to a broker at a time, "
     "at most a quarter of all that it takes; 0 = that quarter"},
    {"requests.rate", ValueKind::count, "", "500", "0", "1000000",
     "requests to hosts that an observer or client may make each second, with ten seconds' worth "
     "at once; 0 = any number"},
    {"parent_death_signal", ValueKind::boolean, "", "true", "", "",
     "whether the kernel kills procs when their keeper dies"},
    {"queue.bytes", ValueKind::bytes, "", "16MiB", "64KiB", "1GiB",
     "bytes that a broker holds for one peer before it returns further messages as queue full"},
    {"queue.count", ValueKind::count, "", "262144", "16", "16777216",
     "messages that a broker holds for one peer before it returns further ones as queue full"},
    {"records.kept", ValueKind::count, "", "1000", "0", "1000000",
     "ended procs that a host remembers"},
    {"records.age", ValueKind::duration, "s", "1h", "0s", "720h",
     "time that a host remembers an ended proc"},
    {"pids.limit", ValueKind::count, "", "16384", "0", "4194304",
     "processes that the procs of one host and their descendants may be, where that can be "
     "limited; 0 = no limit"},
    {"usage.period", ValueKind::duration, "s", "5s", "0s", "1h",
     "how often a host looks at the usage of each of its procs (CPU time, memory, threads, "
     "descriptors), with at most a hundredth of a CPU; 0 = only when asked"},
    {"exec.limit", ValueKind::count, "", "256", "0", "4096",
     "commands that one host runs beside its ranks at a time (meshbus exec, cp, forward)"},
    {"chaos.allowed", ValueKind::boolean, "", "false", "", "",
     "whether operators may disturb the ranks, roles and links of a host on purpose (meshbus "
     "chaos)"},
    {"chaos.longest", ValueKind::duration, "s", "1m", "1ms", "1h",
     "longest time that one disturbance on purpose may take"},
    {"chaos.most", ValueKind::count, "", "16", "1", "4096",
     "ranks, roles and links of one host that may be disturbed on purpose at a time"},
    {"frozen.limit", ValueKind::duration, "s", "30s", "0s", "24h",
     "time without a sign of life after which a host examines one of its roles and ends it if it "
     "is frozen; 0 = never"},
    {"agent.restart", ValueKind::word, "restart,end", "restart", "", "",
     "what a host does when its agent dies: start another one, which takes its procs over (5 times "
     "in a minute at most), or end"},
    {"keys.directory", ValueKind::path, "", "", "", "",
     "where keys are, for tcp: NAME.key and authorised/ROLE/NAME.pub (meshbus keygen); empty = "
     "~/.config/meshbus/keys if it is there; /dev/null = no keys"},
    {"keys.own", ValueKind::path, "", "", "", "",
     "the file of one's own secret key; empty = the one in keys.directory, or, for a host, the one "
     "of its name there"},
    {"log.level", ValueKind::word, "trace,debug,info,warn,error", "warn", "", "",
     "least important lines that are written to the log"},
});

/// A key whose kind the compiler knows; a typo, or asking for a duration as a count, does not
/// compile.
template <ValueKind kind>
struct Key {
  std::size_t index;  ///< Into kKeyTable.

  /// Only at compile time: an unknown name or another kind is a compile error.
  consteval explicit Key(std::string_view name) : index(0) {
    while (index < kKeyTable.size() && kKeyTable[index].name != name) ++index;
    if (index == kKeyTable.size()) throw "kKeyTable has no key of that name";
    if (kKeyTable[index].kind != kind) throw "that key is of another kind";
  }
  constexpr const KeyInfo& info() const { return kKeyTable[index]; }
};
using DurationKey = Key<ValueKind::duration>;
using CountKey = Key<ValueKind::count>;
using BytesKey = Key<ValueKind::bytes>;
using BooleanKey = Key<ValueKind::boolean>;
using WordKey = Key<ValueKind::word>;
using PathKey = Key<ValueKind::path>;

// NOLINTBEGIN(readability-identifier-naming): named as in kKeyTable
namespace keys {
inline constexpr DurationKey spawn_idle("spawn.idle");
inline constexpr DurationKey spawn_ready("spawn.ready");
inline constexpr CountKey spawn_in_flight("spawn.in_flight");
inline constexpr DurationKey stop_idle("stop.idle");
inline constexpr DurationKey state_idle("state.idle");
inline constexpr DurationKey terminate_grace("terminate.grace");
inline constexpr CountKey terminate_in_flight("terminate.in_flight");
inline constexpr DurationKey supervision_poll("supervision.poll");
inline constexpr DurationKey supervision_probe("supervision.probe");
inline constexpr DurationKey supervision_term("supervision.term");
inline constexpr DurationKey watchdog("watchdog");
inline constexpr DurationKey lease("lease");
inline constexpr DurationKey heartbeat("heartbeat");
inline constexpr DurationKey handler_stuck("handler.stuck");
inline constexpr DurationKey session_away("session.away");
inline constexpr DurationKey delivery_limit("delivery.limit");
inline constexpr DurationKey delivery_starting("delivery.starting");
inline constexpr BooleanKey direct_paths("direct.paths");
inline constexpr CountKey hop_limit("hop.limit");
inline constexpr BytesKey message_limit("message.limit");
inline constexpr CountKey tail_lines("tail.lines");
inline constexpr PathKey logs_directory("logs.directory");
inline constexpr BytesKey logs_size("logs.size");
inline constexpr CountKey logs_files("logs.files");
inline constexpr BytesKey events_size("events.size");
inline constexpr BytesKey audit_size("audit.size");
inline constexpr BooleanKey audit_sync("audit.sync");
inline constexpr CountKey cast_width("cast.width");
inline constexpr CountKey connections_rate("connections.rate");
inline constexpr CountKey connections_per_key("connections.per_key");
inline constexpr CountKey requests_rate("requests.rate");
inline constexpr BooleanKey parent_death_signal("parent_death_signal");
inline constexpr BytesKey queue_bytes("queue.bytes");
inline constexpr CountKey queue_count("queue.count");
inline constexpr CountKey records_kept("records.kept");
inline constexpr DurationKey records_age("records.age");
inline constexpr CountKey pids_limit("pids.limit");
inline constexpr DurationKey usage_period("usage.period");
inline constexpr CountKey exec_limit("exec.limit");
inline constexpr BooleanKey chaos_allowed("chaos.allowed");
inline constexpr DurationKey chaos_longest("chaos.longest");
inline constexpr CountKey chaos_most("chaos.most");
inline constexpr DurationKey frozen_limit("frozen.limit");
inline constexpr WordKey agent_restart("agent.restart");
inline constexpr PathKey keys_directory("keys.directory");
inline constexpr PathKey keys_own("keys.own");
inline constexpr WordKey log_level("log.level");
}  // namespace keys
// NOLINTEND(readability-identifier-naming)

/// The number behind a value: milliseconds, a count, bytes, 0 or 1, which of the words it is; 0 for
/// a path. Checks the key's bounds. Errors: parse_error, whose detail is the expected form
/// ("expected a duration from 0s to 24h, like 250ms, 30s, 2m or 1h").
Result<std::uint64_t> parse_value(const KeyInfo& key, std::string_view text);
/// The text of such a number, as short as can be. Not for paths.
std::string value_to_text(const KeyInfo& key, std::uint64_t value);
/// How the values of a key are written, for people: "a duration from 0s to 24h, like 250ms, 30s, 2m
/// or 1h".
std::string expected_form(const KeyInfo& key);

/// The name of a key's environment variable: MESHBUS_SPAWN_READY.
std::string environment_name(const KeyInfo& key);
/// The key of that name, or null.
const KeyInfo* find_key(std::string_view name) noexcept;

}  // namespace meshbus
