#include "cli/tap/tap_command.h"

#include <CLI/CLI.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/text_error.h"
#include "cli/tap/tap_file.h"
#include "cli/tap/tap_replay.h"
#include "cli/tap/tap_sink.h"
#include "common/base/quantity.h"
#include "common/wire/frame.h"
#include "common/wire/tap_filter.h"

namespace meshbus::cli {
namespace {

namespace fs = std::filesystem;

/// The tap's socket beside that of the broker, checked to be there and ours.
Result<std::string> socket_beside(const HostAddr& host) {
  const fs::path path(host.path());
  if (host.transport() != Transport::unix_socket || host.is_any() || host.path().starts_with('@'))
    return fail(ErrorCode::configuration_error,
                "a tap needs the unix socket of a host on this machine, not " + host.to_string());
  const std::string socket =
      path.filename() == "tap" ? path.string() : (path.parent_path() / "tap").string();
  struct stat status{};
  if (::lstat(socket.c_str(), &status) != 0)
    return fail(ErrorCode::not_exist, "no tap at " + socket + ": " + std::strerror(errno) +
                                          "; the host has ended, or its broker runs without --tap");
  if (!S_ISSOCK(status.st_mode) || status.st_uid != ::geteuid())
    return fail(ErrorCode::unauthorised,
                socket + " is no socket of yours; a host is tapped by the user it runs as");
  return socket;
}

/// The tap of the host of that address: a unix socket says where, for other
/// addresses the hosts of this user here are asked for theirs.
Result<std::string> find_socket(const std::string& word) {
  if (word.empty()) {
    const auto hosts = local_hosts();
    if (hosts.size() == 1) return socket_beside(hosts.front().socket);
    std::string list;
    for (const auto& host : hosts) list += "\n  " + host.socket.to_string();
    return fail(ErrorCode::configuration_error,
                hosts.empty()
                    ? "no host of yours runs on this machine"
                    : "several hosts of yours run on this machine; choose one with --host:" + list);
  }
  const auto address = HostAddr::parse(word);
  if (!address) return fail(address.error().within("--host " + word));
  if (address->transport() == Transport::unix_socket) return socket_beside(*address);
  for (const auto& host : local_hosts()) {
    if (host.address == *address) return socket_beside(host.socket);
  }
  return fail(ErrorCode::not_exist, "no host of yours on this machine is known as " +
                                        address->to_string() + "; a tap works where its host runs");
}

/// Becomes meshbus-tap, which needs libzmq; commands start faster without. Returns the exit code
/// when that cannot be.
int live(const TapArguments& arguments) {
  const auto path = find_socket(arguments.host);
  if (!path) {
    complain(path.error().detail());
    return path.error().code() == ErrorCode::parse_error ? kUsage : 1;
  }
  std::error_code error;
  const std::string program =
      (fs::read_symlink("/proc/self/exe", error).parent_path() / "meshbus-tap").string();
  std::vector<std::string> words = {program, *path, tap_topic(arguments.bodies, arguments.filter)};
  if (arguments.json) words.emplace_back("--json");
  if (arguments.count) words.insert(words.end(), {"--count", std::to_string(*arguments.count)});
  if (!arguments.write.empty()) words.insert(words.end(), {"--write", arguments.write});
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  complain(program + " cannot be started: " + std::strerror(errno) +
           "; it is a part of meshbus: install it beside this program");
  return 1;
}

int read_file(const TapArguments& arguments, const TapFilter& filter) {
  auto file = TapFileReader::open(arguments.read);
  if (!file) {
    complain(file.error().detail());
    return 1;
  }
  TapSink sink({.json = arguments.json, .count = arguments.count});
  sink.filter_by(filter);
  for (;;) {
    const auto batch = file->next();
    if (!batch) {
      sink.write_out();
      complain(batch.error().detail());
      return 1;
    }
    if (!*batch) break;
    if (!sink.take(**batch)) break;
  }
  sink.write_out();
  if (sink.code() == 1) complain(sink.error()->detail());
  if (file->torn() > 0)
    complain(arguments.read + " ends within a record: its last " + std::to_string(file->torn()) +
             " bytes are left out");
  return sink.code();
}

int tap(const TapArguments& arguments) {
  const auto filter = TapFilter::parse(arguments.filter);
  if (!filter) {
    complain("--filter: " + filter.error().detail());
    std::cerr << pointed_at(arguments.filter, filter.error());
    return kUsage;
  }
  if (!arguments.replay.empty()) return replay_tap(arguments, *filter);
  if (arguments.read.empty()) return live(arguments);
  ::signal(SIGPIPE, SIG_IGN);
  return read_file(arguments, *filter);
}

}  // namespace

void add_tap(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<TapArguments>();
  auto& verb = commands.add(
      app, "tap",
      {.meaning = "Show the messages that a host's broker passes on; record them, send them again",
       .examples = {"tap --filter 'kind=call|reply size>=64KiB'",
                    "tap --bodies all --write calls.tap", "tap --read calls.tap"},
       .details =
           "A filter is terms with spaces between them, all of which must hold:\n"
           "  from= to= proc=                 a proc by name (train_3-13Se1Maqzryj, train_*),\n"
           "                                  HOST,NAME, key 0x..., or broker\n"
           "  from.host= to.host= host=       a host by address, or by key\n"
           "  kind=                           control message call reply error\n"
           "  lane=                           control data\n"
           "  port= size=                     numbers, also with < <= > >=: size>=64KiB\n"
           "With several values A|B any of them; != for none of them. Names with * are those of "
           "procs at the tapped host.\n\n"
           "A tap shows what peers and links send to procs and other hosts, and what the broker "
           "itself tells procs. A tap never holds the broker up: a slow one misses messages, and "
           "is "
           "told how many. Needs the unix socket of a host of yours on this machine.\n\n"
           "--replay sends messages and calls with their bodies (record with --bodies all) to the "
           "procs of the same names and ports at the host given by --into, as this launcher; it "
           "says "
           "how many were sent, came back, and were skipped, and why. Control messages and answers "
           "are never sent again.",
       .exit_codes = "0; 1 no such host or file; 130 Ctrl-C; 141 nobody reads the output; 143 "
                     "SIGTERM"},
      [arguments] { return tap(*arguments); });
  auto* host = verb.add_option("--host", arguments->host,
                               "The host to tap; default: the only one of yours on this machine")
                   ->type_name("ADDRESS");
  auto* json = verb.add_flag("--json", arguments->json, "Print JSON lines");
  verb.add_option("--filter", arguments->filter, "Which messages; see below")
      ->type_name("EXPRESSION");
  auto* bodies =
      verb.add_option_function<std::string>(
              "--bodies",
              [arguments = arguments.get()](const std::string& text) {
                const auto bytes =
                    text == "all" ? Result<std::uint64_t>(kBodyLimit) : parse_bytes(text);
                if (!bytes)
                  throw CLI::ValidationError("--bodies", bytes.error().detail() + ", or all");
                arguments->bodies =
                    static_cast<std::uint32_t>(std::min<std::uint64_t>(*bytes, kBodyLimit));
              },
              "How much of each body to copy: 64, 4KiB, all; default: nothing")
          ->type_name("BYTES|all");
  auto* count =
      verb.add_option("--count", arguments->count,
                      "End after so many messages; with --write, after the batch that has them")
          ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62U))
          ->type_name("N");
  auto* write =
      verb.add_option("--write", arguments->write, "Append to this file instead of printing")
          ->type_name("FILE")
          ->excludes(json);
  auto* read =
      verb.add_option("--read", arguments->read, "Print what is in a file that --write wrote")
          ->type_name("FILE");
  auto* replay = verb.add_option("--replay", arguments->replay, "Send what is in such a file again")
                     ->type_name("FILE");
  auto* into =
      verb.add_option("--into", arguments->into, "Where to send it: a host, or a broker alone")
          ->type_name("ADDRESS")
          ->needs(replay);
  replay->needs(into);
  for (auto* option : {host, bodies, write}) {
    read->excludes(option);
    replay->excludes(option);
  }
  replay->excludes(read)->excludes(count);
  verb.add_option_function<std::string>(
          "--speed",
          [arguments = arguments.get()](const std::string& text) {
            char* end = nullptr;
            arguments->speed = text == "max" ? 0 : std::strtod(text.c_str(), &end);
            if (text != "max" && (end == nullptr || *end != '\0' ||
                                  !(arguments->speed >= 0.001 && arguments->speed <= 1e6)))
              throw CLI::ValidationError(
                  "--speed",
                  "takes how many times as fast, 0.001 to 1000000, or max, not '" + text + "'");
          },
          "How fast: 1 as it was (default), 10 ten times as fast, max without waiting")
      ->type_name("X|max")
      ->needs(replay);
}

}  // namespace meshbus::cli
