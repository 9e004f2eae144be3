#include "client/src/launch/remote_start.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "client/src/base/time_left.h"
#include "common/base/quantity.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using HostChange = AllocationEvent::Kind;

/// How long the failure of one host waits for those of others.
constexpr std::chrono::milliseconds kMoreFailures{300};
/// What they may take to say why.
constexpr std::chrono::milliseconds kLastWords{3000};

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string string_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

/// One machine on its way to a host.
struct Start {
  const RemoteHost* host = nullptr;
  std::shared_ptr<LaunchedHost> process = {};
  /// By which the others reach it; empty until it has said so.
  std::string address = {};
  std::string problem = {};
  bool is_ready = false;
  /// Another host answers than the one that was announced.
  bool is_other = false;

  bool is_open() const { return !is_ready && problem.empty(); }
  std::string words() const { return "host " + host->name + ": " + problem; }
};

/// What one of them has said since. Lines that are no JSON come from shells that greet.
void hear(Start& start) {
  const bool is_at_end = !start.process->read_lines();
  while (start.is_open()) {
    const auto line = start.process->next_line();
    if (!line) break;
    const auto json = Json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    if (auto error = string_at(json, "error"); !error.empty()) start.problem = std::move(error);
    if (auto address = string_at(json, "address"); !address.empty())
      start.address = std::move(address);
    if (!string_at(json, "host").empty()) {
      if (auto taken = start.process->take_announcement(*line); taken) {
        // What the others were told of is that machine.
        start.is_ready = start.process->announcement().host.host() == start.address;
        start.is_other = !start.is_ready;
        if (start.is_other)
          start.problem = "it said that it is at " + start.address + ", and then calls itself " +
                          start.process->address()->to_string();
      } else {
        start.problem = taken.error().detail();
      }
    }
  }
  if (is_at_end && start.is_open()) start.problem = "it ended without a word";
}

/// When all have said where they are, all are told.
void introduce(std::vector<Start>& starts) {
  std::set<std::string> addresses;
  for (const auto& start : starts) addresses.insert(start.address);
  const bool is_elsewhere =
      std::any_of(addresses.begin(), addresses.end(),
                  [](const std::string& address) { return !is_loopback(address); });
  for (auto& start : starts) {
    if (is_elsewhere && is_loopback(start.address))
      start.problem = "it would be known by " + start.address +
                      ", which is another machine on each of the others: name it as they know it";
  }
  if (std::any_of(starts.begin(), starts.end(),
                  [](const Start& start) { return !start.problem.empty(); }))
    return;
  const auto line = line_of({{"hosts", addresses}});
  for (auto& start : starts) {
    if (auto sent = start.process->send(line); !sent) start.problem = sent.error().detail();
  }
}

/// What ssh says of a key that has changed fills a screen; what counts comes last.
std::string last_lines(const std::string& words) {
  auto begin = words.rfind('\n');
  if (begin != std::string::npos && begin > 0) begin = words.rfind('\n', begin - 1);
  auto text = begin == std::string::npos ? words : words.substr(begin + 1);
  for (auto at = text.find_first_of("\r\n"); at != std::string::npos;
       at = text.find_first_of("\r\n", at))
    text.replace(at, 1, " ");
  return text;
}

/// How it ended, and what to do about it.
void explain(Start& start, Clock::time_point until) {
  start.process->close_lifeline();
  const bool is_silent = start.problem == "it ended without a word";
  const auto end = start.process->end_within(left_until(until));
  const auto words = last_lines(start.process->last_words());
  if (is_silent)
    start.problem = words.empty() ? (end.empty() ? start.problem : end)
                                  : words + (end.empty() ? "" : " (" + end + ")");
  if (!is_silent && !words.empty() && words.find(start.problem) == std::string::npos)
    start.problem += "; its last words: " + words;
  if (const auto what = advice(end, words); !what.empty()) start.problem += "; " + what;
}

/// Ends those that are left of a start that failed.
void end_all(const std::vector<Start>& starts, const std::string& failed,
             const LaunchedHost::Teller& tell) {
  for (const auto& start : starts) start.process->close_lifeline();
  const auto end = Clock::now() + LaunchedHost::kEndLimit;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    starts[i].process->end_by(end);
    if (starts[i].problem.empty())
      tell({HostChange::stopped, i, starts[i].process->address(), "host " + failed + " failed"});
  }
}

}  // namespace

std::string RemoteOrder::to_json_line() const {
  Json order = {{"settings", settings},
                {"containment", containment},
                {"host_public_key", host_public_key},
                {"host_secret_key", host_secret_key},
                {"launcher_public_key", launcher_public_key}};
  if (!address.empty()) order["address"] = address;
  return line_of(order);
}

std::string advice(const std::string& how, const std::string& words) {
  static const std::array<std::pair<const char*, const char*>, 9> known = {{
      {"Could not resolve hostname", "check the name, or give it an entry in ~/.ssh/config"},
      {"Host key verification failed",
       "its host key is not the one that is known here: ssh to it once by hand, or see "
       "~/.ssh/known_hosts"},
      {"Permission denied",
       "ssh to it must work without a password: a key here (IdentityFile or an agent), its public "
       "half in "
       "~/.ssh/authorized_keys there"},
      {"Too many authentication failures",
       "name the one key to use for it in ~/.ssh/config (IdentityFile, IdentitiesOnly yes)"},
      {"Connection refused", "no sshd listens there: check name and port"},
      {"timed out", "nothing answers there: check name, port and firewall"},
      {"No route to host", "nothing answers there: check name, port and firewall"},
      {"has no --remote", "meshbus there is older than this one: install the same version"},
      {"unknown command", "meshbus there is older than this one: install the same version"},
  }};
  for (const auto& [needle, what] : known) {
    if (words.find(needle) != std::string::npos) return what;
  }
  if (how == "exit 127" || words.find("command not found") != std::string::npos ||
      words.find("No such file") != std::string::npos)
    return "meshbus is not there, or not in PATH where commands run without a login: install it, "
           "or say where it is (--remote-program)";
  if (how == "exit 126") return "that is no program that can be executed there";
  return {};
}

Result<std::vector<std::shared_ptr<LaunchedHost>>> start_remote(
    const std::vector<RemoteHost>& hosts, const RemoteOrder& order,
    std::chrono::milliseconds deadline, const LaunchedHost::Teller& tell) {
  const auto end = Clock::now() + deadline;
  const auto first_line = order.to_json_line();
  std::vector<Start> starts;
  for (const auto& host : hosts) {
    auto process = LaunchedHost::start_command(host.command);
    if (!process) {
      tell({HostChange::failed, starts.size(), {}, process.error().detail()});
      end_all(starts, host.name, tell);
      return fail(process.error().within("host " + host.name));
    }
    tell({HostChange::created, starts.size(), {}, {}});
    starts.push_back({.host = &host, .process = std::move(*process)});
    if (auto sent = starts.back().process->send(first_line); !sent)
      starts.back().problem = "it ended without a word";
  }
  const auto has_failed = [](const Start& start) { return !start.problem.empty(); };
  bool are_introduced = false;
  // A failure ends the wait, almost: a user with two mistyped names learns of both.
  auto wait_end = end;
  while (std::any_of(starts.begin(), starts.end(),
                     [](const Start& start) { return start.is_open(); })) {
    if (std::any_of(starts.begin(), starts.end(), has_failed))
      wait_end = std::min(wait_end, Clock::now() + kMoreFailures);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(wait_end - Clock::now());
    if (left.count() <= 0) break;
    std::vector<pollfd> fds;
    for (const auto& start : starts) {
      fds.push_back({!start.is_open() ? -1 : start.process->lines_fd(), POLLIN, 0});
      fds.push_back({start.process->words_fd(), POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (fds[2 * i].revents != 0) hear(starts[i]);
      if (fds[2 * i].revents != 0 && starts[i].is_ready)
        tell({HostChange::running, i, starts[i].process->address(), {}});
      if (fds[2 * i + 1].revents != 0) starts[i].process->read_words();
    }
    if (!are_introduced && std::none_of(starts.begin(), starts.end(),
                                        [](const Start& start) { return start.address.empty(); })) {
      are_introduced = true;
      introduce(starts);
    }
  }
  std::string problems;
  const auto last_words_end = Clock::now() + kLastWords;
  const bool is_timeout = std::none_of(starts.begin(), starts.end(), has_failed);
  std::string names;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    auto& start = starts[i];
    if (start.is_ready || (start.is_open() && !is_timeout)) continue;
    if (start.is_open()) start.problem = "it is not ready within " + duration_to_text(deadline);
    explain(start, last_words_end);
    tell({HostChange::failed, i, {}, start.problem});
    names += (names.empty() ? "" : ", ") + start.host->name;
    problems += (problems.empty() ? "" : "; ") + start.words();
  }
  if (!problems.empty()) {
    end_all(starts, names, tell);
    const bool is_other = std::any_of(starts.begin(), starts.end(),
                                      [](const Start& start) { return start.is_other; });
    return fail(is_timeout ? ErrorCode::timeout
                : is_other ? ErrorCode::identity_mismatch
                           : ErrorCode::host_unreachable,
                problems);
  }
  std::vector<std::shared_ptr<LaunchedHost>> processes;
  for (auto& start : starts) processes.push_back(std::move(start.process));
  return processes;
}

}  // namespace meshbus
