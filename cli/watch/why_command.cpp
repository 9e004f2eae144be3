#include "cli/watch/why_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <future>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/support/audit_entry.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/mesh_pattern.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/selector.h"
#include "cli/support/text_error.h"
#include "cli/support/unheard_ranks.h"
#include "cli/watch/why_story.h"
#include "common/base/did_you_mean.h"
#include "common/base/quantity.h"
#include "mesh/text.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct WhyArguments {
  HostChoice hosts;
  /// A mesh, a rank, or a proc. Empty: the mesh that something happened to last.
  std::string target;
  RankSet ranks;
  bool is_all = false;
};

/// What was typed: which meshes, which ranks.
struct Wanted {
  std::string mesh;         // empty: all
  RankSet ranks;            // empty: all
  bool is_several = false;  // each of them, not only the last one
};

/// A rank of the last mesh.
std::optional<std::uint64_t> parse_rank(const std::string& target) {
  const auto rank = parse_whole(target);
  return rank == UINT64_MAX ? std::nullopt : rank;
}

/// Errors: parse_error.
Result<Wanted> parse_wanted(const WhyArguments& arguments) {
  const auto& target = arguments.target;
  if (const auto rank = parse_rank(target)) return Wanted{{}, {{*rank, *rank + 1}}};
  if (target.find('[') != std::string::npos) {
    auto selector = Selector::parse(target);
    if (!selector) return fail(selector.error());
    if (!selector->slices.empty() || !arguments.ranks.empty())
      return fail(ErrorCode::parse_error, "why takes ranks by their numbers, once: " +
                                              selector->mesh + "[0-5,7], or --rank 0-5,7");
    return Wanted{std::move(selector->mesh), std::move(selector->ranks)};
  }
  // A mesh may have a name that looks like one of a proc: the hosts know which it is.
  if (const auto proc = parse_proc(target); proc && arguments.ranks.empty())
    return Wanted{proc->mesh, {{proc->rank, proc->rank + 1}}};
  // As exec, cp and attach take it.
  const auto colon = target.rfind(':');
  if (const auto rank = colon == std::string::npos || colon == 0
                            ? std::nullopt
                            : parse_rank(target.substr(colon + 1));
      rank && arguments.ranks.empty())
    return Wanted{target.substr(0, colon), {{*rank, *rank + 1}}};
  return Wanted{target, arguments.ranks};
}

/// What the hosts have written down, and which of them did not say.
/// What is asked for is not only of the mesh that is wanted: others may be roles of its job.
EventListing events_of(ReachedHosts& hosts) {
  std::vector<std::future<Result<EventListing>>> asked;
  for (const auto& part : hosts.parts)
    asked.push_back(std::async(std::launch::async,
                               [&part, limit = hosts.left] { return part.events({}, limit); }));
  EventListing all{{}, hosts.listing.unreachable};
  for (auto& one : asked) {
    auto listing = one.get();
    if (!listing) {
      complain(listing.error().to_string());
      continue;
    }
    all.events.insert(all.events.end(), listing->events.begin(), listing->events.end());
    for (const auto& host : listing->unreachable) {
      complain_of(host);
      all.unreachable.push_back(host);
    }
  }
  std::stable_sort(all.events.begin(), all.events.end(),
                   [](const HostEvent& a, const HostEvent& b) { return a.time < b.time; });
  return all;
}

/// The meshes with events that are meant by that word, the last one in front.
std::vector<std::string> named(const EventListing& listing, const std::string& mesh) {
  auto names = meshes_in(listing.events);
  std::erase_if(names, [&](const auto& name) { return !is_named(name, mesh); });
  return names;
}

/// Roles of one job have one story.
void leave_one_of_each_job(std::vector<std::string>& names) {
  for (auto name = names.begin(); name != names.end(); ++name)
    names.erase(std::remove_if(name + 1, names.end(),
                               [&](const auto& other) { return is_one_job(*name, other); }),
                names.end());
}

/// The principals behind addresses on the bus, by the audit trails of the hosts.
using Principals = std::map<std::string, std::string>;

/// Principals behind the requests of these events; none when the sender of this may not read audit
/// trails.
Principals principals_of(const ReachedHosts& hosts, const std::vector<HostEvent>& events) {
  Principals found;
  const bool is_asked = std::any_of(events.begin(), events.end(), [](const HostEvent& event) {
    return !event.by.empty() || (event.end && !event.end->stopped_by.empty());
  });
  if (!is_asked) return found;
  for (const auto& part : hosts.parts) {
    const auto trail = part.audit(hosts.left);
    if (!trail) continue;
    for (const auto& event : trail->events) {
      const auto entry = AuditEntry::parse(event.text);
      // Over a link only the host is known that vouches.
      if (!entry || entry->text("address").empty()) continue;
      const auto by = entry->text("by"), address = entry->text("address");
      found[entry->text("peer")] = address.starts_with(by) ? address : by + " at " + address;
    }
  }
  return found;
}

/// The principal that asked for what is in that entry; empty: not known.
std::string principal_of(const HostEvent& event, const Principals& principals) {
  const auto found = principals.find(event.end ? event.end->stopped_by : event.by);
  return found == principals.end() || found->first.empty() ? std::string() : found->second;
}

std::string milliseconds_text(std::chrono::system_clock::time_point time) {
  auto text = time_text(time);
  return text.substr(0, text.size() - 4) + "Z";
}

std::string seconds_text(std::chrono::duration<double> time) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.3f s", time.count());
  return text.data();
}

/// "ranks 0-1,3 on unix:/…", "rank 2 (gpu=2/4) on …", "host unix:/…"
/// "; 3 times, the last one at 2026-…": when ranks ended like that in several attempts.
std::string times_text(const StoryEntry& entry) {
  if (!entry.is_repeated) return {};
  return "; " + std::to_string(entry.ends) + " times, the last one at " +
         milliseconds_text(entry.last);
}

/// With a role of a job in front when it is a job.
std::string place_of(const StoryEntry& entry, bool is_job) {
  const auto host = entry.event.host.to_string();
  const auto role = is_job && !entry.event.mesh.empty() ? base_of(entry.event.mesh) + " " : "";
  if (entry.ranks.empty()) return (entry.event.mesh.empty() ? "host " : role + "on ") + host;
  const bool is_one = entry.ranks.size() == 1 && entry.ranks.front().size() == 1;
  const auto point = is_one && entry.event.end ? entry.event.end->point : std::string();
  return role + (is_one ? "rank " : "ranks ") + to_string(entry.ranks) +
         (point.empty() ? "" : " (" + text::visible(point) + ")") + " on " + host;
}

void print_entry(const StoryEntry& entry, bool is_job, const Principals& principals) {
  const std::string principal = principal_of(entry.event, principals);
  std::cout << "  " << milliseconds_text(entry.time) << "  " << place_of(entry, is_job) << ": "
            << text::visible(words_of(entry.event, principal.empty()))
            << (principal.empty() ? "" : " (asked for by " + text::visible(principal) + ")")
            << times_text(entry) << "\n";
  if (!entry.event.end) return;
  const auto& end = *entry.event.end;
  const bool is_one = entry.ranks.size() == 1 && entry.ranks.front().size() == 1;
  if (is_one && end.pid > 0) {
    std::cout << "      pid " << end.pid;
    if (end.started && end.ended) std::cout << ", ran " << seconds_text(*end.ended - *end.started);
    std::cout << ", CPU "
              << seconds_text(std::chrono::duration<double>(end.user_time) +
                              std::chrono::duration<double>(end.system_time))
              << ", peak " << end.max_rss_bytes / 1024 << " KiB\n";
  }
  std::string_view tail = end.stderr_tail;
  while (!tail.empty()) {
    const auto stop = tail.find('\n');
    std::cout << "      | " << text::visible(tail.substr(0, stop)) << "\n";
    tail.remove_prefix(stop == std::string_view::npos ? tail.size() : stop + 1);
  }
}

void print(const Story& story, const Principals& principals) {
  std::cout << "mesh " << text::visible(story.mesh);
  for (const auto& other : story.others)
    std::cout << (&other == &story.others.front() ? ", in one job with " : ", ")
              << text::visible(other);
  std::cout << "\n";
  std::optional<StoryRole> role;
  for (const auto& entry : story.entries) {
    if (role != entry.role) {
      constexpr std::array titles = {"first", "because of it", "also", "in earlier attempts",
                                     "meanwhile on its hosts"};
      std::cout << titles[static_cast<std::size_t>(entry.role)] << ":\n";
    }
    role = entry.role;
    print_entry(entry, !story.others.empty(), principals);
  }
}

Json entry_json(const StoryEntry& entry, const Principals& principals) {
  const auto& event = entry.event;
  Json json;
  json["role"] = std::string(to_string(entry.role));
  json["mesh"] = event.mesh.empty() ? Json(nullptr) : Json(event.mesh);
  json["kind"] = std::string(to_string(event.kind));
  json["time"] = time_text(entry.time);
  json["host"] = event.host.to_string();
  json["ends"] = event.end ? Json(entry.ends) : Json(nullptr);
  json["last"] = event.end ? Json(time_text(entry.last)) : Json(nullptr);
  json["ranks"] = entry.ranks.empty() ? Json(nullptr) : Json(to_string(entry.ranks));
  json["text"] = words_of(event);
  json["by"] = event.by.empty() ? Json(nullptr) : Json(event.by);
  const std::string principal = principal_of(event, principals);
  json["principal"] = principal.empty() ? Json(nullptr) : Json(principal);
  json["because"] = event.because ? Json(*event.because) : Json(nullptr);
  json["end"] = event.end ? rank_json(*event.end) : Json(nullptr);
  return json;
}

/// Ranks of a mesh that went with a host which was started again: no log of events has their ends.
std::vector<UnheardRanks> lost_ranks(const ReachedHosts& hosts, const std::string& mesh,
                                     const RankSet& ranks) {
  const auto& meshes = hosts.listing.meshes;
  const auto found = std::find_if(meshes.begin(), meshes.end(),
                                  [&](const MeshReport& one) { return one.name == mesh; });
  if (found == meshes.end()) return {};
  auto lost = unheard_ranks(hosts, {.mesh = &*found, .ranks = ranks});
  std::erase_if(lost, [](const UnheardRanks& one) { return !one.has_answered; });
  return lost;
}

void print(const std::vector<UnheardRanks>& lost) {
  if (!lost.empty()) std::cout << "lost with their host:\n";
  for (const auto& [host, ranks, has_answered] : lost)
    std::cout
        << (ranks.size() == 1 && ranks.front().size() == 1 ? "  rank " : "  ranks ")
        << to_string(ranks) << " on " << host.to_string()
        << ": the host answers and knows nothing of this mesh, so it was started again since, "
           "never got it, or has forgotten it\n";
}

Json lost_json(const std::vector<UnheardRanks>& lost) {
  Json json = Json::array();
  for (const auto& one : lost)
    json.push_back({{"host", one.host.to_string()}, {"ranks", to_string(one.ranks)}});
  return json;
}

Json story_json(const Story& story, const EventListing& listing, const Principals& principals,
                const std::vector<UnheardRanks>& lost) {
  Json json;
  json["mesh"] = story.mesh;
  json["others"] = story.others;
  json["first"] = nullptr;
  json["events"] = Json::array();
  for (const auto& entry : story.entries) {
    json["events"].push_back(entry_json(entry, principals));
    if (entry.role == StoryRole::first) json["first"] = json["events"].back();
  }
  json["lost"] = lost_json(lost);
  json["unreachable"] = Json::array();
  for (const auto& host : listing.unreachable)
    json["unreachable"].push_back({{"host", host.host.to_string()}, {"error", host.problem}});
  return json;
}

/// Nothing was written down: because nothing has ended, or because there is no such mesh.
int explain_nothing(const ReachedHosts& hosts, const WhyArguments& arguments,
                    const Wanted& wanted) {
  std::vector<std::string> names;
  for (const auto& mesh : hosts.listing.meshes) {
    if (wanted.mesh.empty() || !is_named(mesh.name, wanted.mesh)) {
      names.push_back(mesh.name.substr(0, mesh.name.rfind('-')));
      continue;
    }
    const auto lost = lost_ranks(hosts, mesh.name, wanted.ranks);
    if (arguments.hosts.json) {
      std::cout << dump(story_json({mesh.name, {}, {}}, {}, {}, lost), 2) << "\n";
    } else if (!lost.empty()) {
      std::cout << "mesh " << mesh.name << "\n";
      print(lost);
    } else {
      std::cout << "mesh " << mesh.name << ": nothing of it has ended\n";
    }
    return 0;
  }
  if (wanted.mesh.empty()) {
    complain("nothing has ended on these hosts, as far as their event logs go back");
    return 1;
  }
  const auto near = did_you_mean(wanted.mesh, names);
  complain("the event logs of these hosts know no mesh '" + wanted.mesh + "'" +
           (near.empty() ? "; meshbus ps --all lists what is there"
                         : "; did you mean '" + std::string(near) + "'?"));
  return 1;
}

/// Whether a story tells the end of one of these ranks; of all of them it need not.
bool has_end(const Story& story, const RankSet& ranks) {
  return ranks.empty() ||
         std::any_of(story.entries.begin(), story.entries.end(), [&](const StoryEntry& entry) {
           return entry.event.end && contains(ranks, entry.event.end->rank);
         });
}

int why(const WhyArguments& arguments) {
  if (parse_rank(arguments.target) && !arguments.ranks.empty()) {
    complain("why: " + arguments.target + " is a rank, and --rank names others: give one of them");
    return kUsage;
  }
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  auto wanted = parse_wanted(arguments);
  if (!wanted) {
    complain(wanted.error().detail());
    return kUsage;
  }
  const auto listing = events_of(hosts);
  auto names = named(listing, wanted->mesh);
  if (wanted->mesh != arguments.target && names.empty() && !wanted->mesh.empty() &&
      arguments.target.find('[') == std::string::npos) {
    // It looked like the name of a proc.
    wanted = Wanted{arguments.target, arguments.ranks};
    names = named(listing, wanted->mesh);
  }
  wanted->is_several = arguments.is_all || is_pattern(wanted->mesh);
  int code = listing.unreachable.empty() ? 0 : kFailed;
  if (names.empty()) return std::max(code, explain_nothing(hosts, arguments, *wanted));
  if (!wanted->is_several && names.size() > 1 && !arguments.target.empty() && !wanted->mesh.empty())
    complain(
        std::to_string(names.size()) +
        " meshes of that name have events, this is the last one; give a whole name for another: " +
        names[1] + (names.size() > 2 ? " and others" : ""));
  if (!wanted->is_several) names.resize(1);
  leave_one_of_each_job(names);
  const Principals principals = principals_of(hosts, listing.events);
  Json all = Json::array();
  for (const auto& name : names) {
    const Story story = tell(listing.events, name, wanted->ranks);
    const auto lost = lost_ranks(hosts, name, wanted->ranks);
    if (lost.empty() && !has_end(story, wanted->ranks)) {
      complain("mesh " + name + ": no end of rank " + to_string(wanted->ranks) + " is known");
      code = kFailed;
    } else if (arguments.hosts.json) {
      all.push_back(story_json(story, listing, principals, lost));
    } else {
      print(story, principals);
      print(lost);
    }
  }
  if (!all.empty()) std::cout << dump(wanted->is_several ? all : all.front(), 2) << "\n";
  std::cout.flush();
  if (std::cout) return code;
  return output_lost("why");
}

}  // namespace

void add_why(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<WhyArguments>();
  auto& verb = commands.add(
      app, "why",
      {.meaning = "Say why ranks have ended: the first cause, then what followed from it",
       .examples = {"why", "why train", "why train --rank 0-3", "why 'train*'"},
       .details =
           "TARGET is a mesh (train, train-13Se1Maqzryj), a rank of the last mesh (3), or a proc "
           "(train_3-13Se1Maqzryj); 'train*' means every mesh of that pattern, and a list as JSON; "
           "default: the mesh that something happened to last. The first cause comes first, then "
           "what followed from it. Hosts remember as much as events.size allows, in their run "
           "directory, or in logs.directory when that is set.",
       .exit_codes = "0; 1 no such mesh or rank, or a host that does not answer"},
      [arguments] { return why(*arguments); });
  add_host_choice(verb, arguments->hosts);
  auto* const all = verb.add_flag("--all", arguments->is_all, "Every mesh on the hosts");
  verb.add_option("TARGET", arguments->target, "A mesh, meshes, a rank, or a proc")->excludes(all);
  add_ranks(verb, arguments->ranks);
}

}  // namespace meshbus::cli
