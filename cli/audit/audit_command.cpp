#include "cli/audit/audit_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <future>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/support/audit_entry.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/table.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct AuditArguments {
  HostChoice hosts;
  std::optional<std::chrono::milliseconds> since;
  std::string by;
  std::string mesh;
  std::vector<std::string> verbs;
};

/// A host has lost `count` entries before that time.
struct TrailGap {
  std::string host;
  std::string time;
  std::string count;
};

/// What hosts have written down, oldest first, and which of them did not say.
struct Trail {
  std::vector<AuditEntry> entries;
  std::vector<TrailGap> gaps;
  std::vector<HostReport> silent;
};

Trail read_trail(const ReachedHosts& hosts, const AuditFilter& filter) {
  std::vector<std::future<Result<EventListing>>> asked;
  for (const auto& part : hosts.parts)
    asked.push_back(
        std::async(std::launch::async, [&part, limit = hosts.left] { return part.audit(limit); }));
  Trail trail{{}, {}, hosts.listing.unreachable};
  for (auto& one : asked) {
    auto listing = one.get();
    if (!listing) {
      complain(listing.error().to_string());
      continue;
    }
    for (const auto& event : listing->events) {
      auto entry = AuditEntry::parse(event.text);
      if (!entry) continue;
      // The filter is not asked: a lost entry may be one that it would take.
      if (const auto missing = entry->text("lost_before");
          !missing.empty() && filter.reaches(*entry))
        trail.gaps.push_back({entry->text("host"), entry->text("time"), missing});
      if (filter.takes(*entry)) trail.entries.push_back(std::move(*entry));
    }
    for (const auto& host : listing->unreachable) {
      complain_of(host);
      trail.silent.push_back(host);
    }
  }
  std::stable_sort(
      trail.entries.begin(), trail.entries.end(),
      [](const AuditEntry& a, const AuditEntry& b) { return a.text("time") < b.text("time"); });
  return trail;
}

void print_json(const Trail& trail) {
  Json json;
  json["entries"] = Json::array();
  for (const auto& entry : trail.entries) json["entries"].push_back(Json::parse(entry.line));
  json["unreachable"] = Json::array();
  for (const auto& host : trail.silent)
    json["unreachable"].push_back({{"host", host.host.to_string()}, {"error", host.problem}});
  std::cout << dump(json, 2) << "\n";
}

/// "train-13Se1Maqzryj[0-3]: sleep 300"
std::string object_of(const AuditEntry& entry) {
  std::string object = entry.text("mesh");
  if (const auto ranks = entry.text("ranks"); !ranks.empty()) object += "[" + ranks + "]";
  const auto what = entry.text("what");
  if (!object.empty() && !what.empty()) object += ": ";
  return object + what;
}

void print(const Trail& trail) {
  Table table({{"TIME"}, {"BY"}, {"FROM"}, {"VERB"}, {"HOST"}, {"OUTCOME"}, {"WHAT"}});
  for (const auto& entry : trail.entries) {
    const auto to = entry.text("to");
    table.add({entry.text("time"), entry.text("by"), entry.text("address"), entry.text("verb"),
               to.empty() ? entry.text("host") : to, entry.text("outcome"), object_of(entry)});
  }
  if (trail.entries.empty()) {
    complain("no entry matches; what is written down is in meshbus audit --help");
  } else {
    std::cout << table.text() << std::flush;
  }
  for (const auto& gap : trail.gaps)
    complain(gap.count + " entries of host " + gap.host + " before " + gap.time +
             " are missing: they were too many in a second, or could not be written");
}

int audit(const AuditArguments& arguments) {
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  AuditFilter filter{
      .since = {}, .by = arguments.by, .mesh = arguments.mesh, .verbs = arguments.verbs};
  if (arguments.since) filter.since = std::chrono::system_clock::now() - *arguments.since;
  const Trail trail = read_trail(std::get<ReachedHosts>(reached), filter);
  if (arguments.hosts.json) {
    print_json(trail);
  } else {
    print(trail);
  }
  return trail.silent.empty() ? 0 : kFailed;
}

}  // namespace

void add_audit(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<AuditArguments>();
  auto& verb = commands.add(
      app, "audit",
      {.meaning = "Show who did what on hosts, and what came of it",
       .examples = {"audit", "audit --since 1h --by alice", "audit --verb spawn,stop,shutdown",
                    "audit --mesh train --json"},
       .details =
           "Every host writes down each spawn, stop, signal, drain, hand-over, join and shutdown, "
           "connections over tcp, and what was refused: when, by which key or user, from where. It "
           "keeps as much as audit.size allows, in its run directory, or in logs.directory when "
           "that is set. The verbs: spawn, resize, restart, stop, stop process, exit process, "
           "signal, stacks, exec, copy to, copy from, forward, drain, drain and hold, resume, "
           "order "
           "to grow, order to shrink, hand over, offer, take over, give up, chaos, upgrade, "
           "shutdown, connect, join; of refused ones also introduce and message. Needs the key of "
           "an operator. A request that passes two hosts is in the "
           "trails of both: the first one knows the key.",
       .exit_codes = "0; 1 a host does not answer, or refuses"},
      [arguments] { return audit(*arguments); });
  add_host_choice(verb, arguments->hosts);
  add_duration(verb, "--since", arguments->since, "Only entries that are not older than this");
  verb.add_option("--by", arguments->by,
                  "Only of this principal: part of its key's name, user, or address")
      ->type_name("TEXT");
  verb.add_option("--mesh", arguments->mesh, "Only about this mesh, with or without its uuid")
      ->type_name("NAME");
  verb.add_option("--verb", arguments->verbs, "Only these verbs: spawn, stop, connect, ...")
      ->delimiter(',')
      ->type_name("VERB,...");
}

}  // namespace meshbus::cli
