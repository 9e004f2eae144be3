#include "cli/watch/why_story.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "cli/support/mesh_pattern.h"
#include "common/base/requester_text.h"
#include "meshbus/name.h"

namespace meshbus::cli {
namespace {

using Time = std::chrono::system_clock::time_point;

/// A host writes down how its mesh ended within that time.
constexpr std::chrono::seconds kAround{2};

Time time_of(const HostEvent& event) {
  return event.end && event.end->ended ? *event.end->ended : event.time;
}

/// Whether everything may have begun with it.
bool may_be_first(const HostEvent& event) {
  switch (event.kind) {
    case EventKind::proc_ended:
      return event.end && event.end->is_failure() && !event.end->consequence;
    case EventKind::stop_asked:
    case EventKind::spawn_refused: return !event.because;
    case EventKind::owner_gone:
    case EventKind::lease_lapsed:
    case EventKind::host_stopping: return true;
    // What ends a host with its procs is told by their ends: see is_origin_of_loss.
    case EventKind::role_ended:
    case EventKind::signal_asked:
    case EventKind::agent_started:
    // What came of it is told by what follows.
    case EventKind::handed_over:
    case EventKind::owner_away:
    case EventKind::chaos:
    case EventKind::moved:
    // Those are in no log of a host.
    case EventKind::controller_up:
    case EventKind::controller_lost:
    case EventKind::controller_late:
    case EventKind::host_unreachable:
    case EventKind::host_back:
    case EventKind::unknown: break;
  }
  return false;
}

StoryRole role_of(const HostEvent& event) {
  switch (event.kind) {
    case EventKind::proc_ended:
      return event.end && event.end->consequence ? StoryRole::consequence : StoryRole::also;
    case EventKind::stop_asked: return event.because ? StoryRole::consequence : StoryRole::also;
    case EventKind::role_ended:
    case EventKind::agent_started:
    case EventKind::handed_over:
    case EventKind::owner_away:
    case EventKind::chaos:
    case EventKind::host_stopping: return StoryRole::around;
    // The lost host itself can tell nothing; another attempt has mended it.
    case EventKind::moved: return StoryRole::former;
    default: return StoryRole::also;
  }
}

/// Why a stop came: what was given with the order, or stands in the report of the end.
const std::string& stop_reason_of(const HostEvent& event) {
  return event.end ? event.end->stop_reason : event.text;
}

/// Whether another role of its job brought the stop: `run` begins the reason with the name of that
/// role, "trainer[3] failed: exit 3".
bool is_stop_by_role(const HostEvent& event, const std::set<std::string>& roles) {
  const bool is_stop =
      event.kind == EventKind::stop_asked || (event.end && event.end->step != StopStep::none);
  if (!is_stop || roles.size() < 2) return false;
  const auto& reason = stop_reason_of(event);
  const auto end = reason.find_first_of("[: ");
  return end != std::string::npos && roles.contains(reason.substr(0, end));
}

bool died_with_keeper(const HostEvent& event) {
  return event.end && event.end->consequence &&
         (event.end->cause == Cause::keeper_lost || event.end->cause == Cause::frozen ||
          event.end->cause == Cause::host_lost);
}

/// A rank of one of the meshes.
using MeshRank = std::pair<std::string, std::uint64_t>;

bool is_shown(const HostEvent& event, const std::string& mesh, const RankSet& ranks,
              const std::set<MeshRank>& reasons, const std::set<std::string>& roles) {
  if (event.kind == EventKind::unknown) return false;
  // The ends that it brought say the same.
  if (event.kind == EventKind::stop_asked && event.because &&
      reasons.contains({event.mesh, *event.because}))
    return false;
  if (event.kind == EventKind::stop_asked && is_stop_by_role(event, roles)) return false;
  return !event.end || ranks.empty() || (event.mesh == mesh && contains(ranks, event.end->rank));
}

/// What ends of several ranks must have in common to be told as one.
std::string key_of(const StoryEntry& entry) {
  const auto& end = *entry.event.end;
  return std::to_string(static_cast<int>(entry.role)) + entry.event.host.to_string() + '\n' +
         entry.event.mesh + '\n' + words_of(entry.event) + '\n' + end.stderr_tail;
}

void join(std::vector<StoryEntry>& entries) {
  std::map<std::string, std::size_t> known;
  std::map<std::size_t, std::vector<std::uint64_t>> ranks;
  std::vector<StoryEntry> joined;
  for (auto& entry : entries) {
    if (!entry.event.end) {
      entry.ranks = entry.event.ranks;
      joined.push_back(std::move(entry));
      continue;
    }
    const auto [at, is_new] = known.emplace(key_of(entry), joined.size());
    ranks[at->second].push_back(entry.event.end->rank);
    if (is_new) {
      joined.push_back(std::move(entry));
    } else {
      ++joined[at->second].ends;
      joined[at->second].last = std::max(joined[at->second].last, entry.time);
    }
  }
  for (auto& [index, list] : ranks) {
    // A rank may have ended like that in several attempts.
    std::sort(list.begin(), list.end());
    const auto repeated = std::unique(list.begin(), list.end());
    joined[index].is_repeated = repeated != list.end();
    list.erase(repeated, list.end());
    joined[index].ranks = to_rank_set(list);
  }
  entries = std::move(joined);
}

}  // namespace

std::string_view to_string(StoryRole role) noexcept {
  switch (role) {
    case StoryRole::first: return "first";
    case StoryRole::consequence: return "consequence";
    case StoryRole::also: return "also";
    case StoryRole::former: return "former";
    case StoryRole::around: return "around";
  }
  return "also";
}

bool is_one_job(const std::string& mesh, const std::string& other) {
  const auto dash = mesh.rfind('-');
  return mesh == other || (dash != std::string::npos && other.rfind('-') != std::string::npos &&
                           mesh.substr(dash) == other.substr(other.rfind('-')));
}

std::optional<NamedRank> parse_proc(std::string_view word) {
  if (const auto comma = word.rfind(','); comma != std::string_view::npos)
    word.remove_prefix(comma + 1);
  const auto dash = word.rfind('-');
  const auto underscore = word.substr(0, dash).rfind('_');
  if (dash == std::string_view::npos || underscore == std::string_view::npos) return std::nullopt;
  NamedRank found;
  const auto* const last = word.data() + dash;
  const auto number = std::from_chars(word.data() + underscore + 1, last, found.rank);
  if (number.ec != std::errc() || number.ptr != last) return std::nullopt;
  found.mesh = std::string(word.substr(0, underscore)) + std::string(word.substr(dash));
  if (!Name::parse(found.mesh)) return std::nullopt;
  return found;
}

std::vector<std::string> meshes_in(const std::vector<HostEvent>& events) {
  std::vector<std::string> names;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (!event->mesh.empty() && std::find(names.begin(), names.end(), event->mesh) == names.end())
      names.push_back(event->mesh);
  }
  return names;
}

Story tell(const std::vector<HostEvent>& events, const std::string& mesh, const RankSet& ranks) {
  Story story{mesh, {}, {}};
  std::optional<Time> begin;
  std::optional<Time> end;
  bool has_lost_keeper = false;
  std::set<std::string> roles;
  std::set<MeshRank> reasons;
  std::map<MeshRank, std::uint64_t> last_lives;
  std::set<HostAddr> hosts;
  for (const auto& event : events) {
    if (!is_one_job(event.mesh, mesh)) continue;
    hosts.insert(event.host);
    if (roles.insert(base_of(event.mesh)).second && event.mesh != mesh)
      story.others.push_back(base_of(event.mesh));
    if (event.end) {
      auto& last = last_lives[{event.mesh, event.end->rank}];
      last = std::max(last, event.end->restarts);
    }
    const auto time = event.end && event.end->started ? *event.end->started : time_of(event);
    begin = begin ? std::min(*begin, time) : time;
    end = end ? std::max(*end, time_of(event)) : time_of(event);
    has_lost_keeper = has_lost_keeper || died_with_keeper(event);
    if (event.end && event.end->because) reasons.emplace(event.mesh, *event.end->because);
  }
  if (!begin) return story;
  for (const auto& event : events) {
    const auto time = time_of(event);
    if (!is_one_job(event.mesh, mesh) && (!event.mesh.empty() || !hosts.contains(event.host) ||
                                          time < *begin || time - *end > kAround))
      continue;
    const auto role = is_stop_by_role(event, roles) ? StoryRole::consequence : role_of(event);
    story.entries.push_back({role, event, {}, time});
  }
  std::stable_sort(story.entries.begin(), story.entries.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  // What another life has mended is not what ended the mesh.
  const auto is_mended = [&](const HostEvent& event) {
    return event.end && event.end->restarts < last_lives[{event.mesh, event.end->rank}];
  };
  // A drain of a host, say, has begun nothing when it has ended no rank of this job.
  const auto has_effect = [&](const HostEvent& event) {
    return !event.mesh.empty() ||
           std::any_of(events.begin(), events.end(), [&](const HostEvent& other) {
             return other.end && is_one_job(other.mesh, mesh) && other.host == event.host &&
                    other.end->step != StopStep::none && !other.end->because &&
                    time_of(other) >= event.time;
           });
  };
  auto first = std::find_if(story.entries.begin(), story.entries.end(), [&](const auto& entry) {
    return entry.time <= *end && may_be_first(entry.event) && !is_mended(entry.event) &&
           !is_stop_by_role(entry.event, roles) && has_effect(entry.event);
  });
  if (first == story.entries.end() && has_lost_keeper) {
    // The warden's words about the keeper; without them, the first rank that died with it.
    first = std::find_if(story.entries.begin(), story.entries.end(), [](const auto& entry) {
      return entry.event.kind == EventKind::role_ended && entry.event.text.find("the keeper") == 0;
    });
    if (first == story.entries.end())
      first = std::find_if(story.entries.begin(), story.entries.end(),
                           [](const auto& entry) { return died_with_keeper(entry.event); });
  }
  if (first == story.entries.end()) {
    // Its host is lost, and cannot tell of it: what was said when the others were stopped.
    const auto told =
        std::find_if(story.entries.begin(), story.entries.end(), [&](const auto& entry) {
          const auto& report = entry.event.end;
          return report && report->because && !report->stop_reason.empty() &&
                 !last_lives.contains({entry.event.mesh, *report->because});
        });
    if (told != story.entries.end()) {
      StoryEntry entry{StoryRole::first, told->event, {}, told->time};
      entry.event.kind = EventKind::host_unreachable;
      entry.event.text = told->event.end->stop_reason;
      entry.event.by = told->event.end->stopped_by;
      entry.event.end.reset();
      first = story.entries.insert(story.entries.begin(), std::move(entry));
    }
  }
  if (first != story.entries.end()) first->role = StoryRole::first;
  for (auto& entry : story.entries) {
    if (entry.role != StoryRole::first && is_mended(entry.event)) entry.role = StoryRole::former;
  }
  std::erase_if(story.entries, [&](const auto& entry) {
    return entry.role != StoryRole::first && !is_shown(entry.event, mesh, ranks, reasons, roles);
  });
  std::stable_sort(story.entries.begin(), story.entries.end(),
                   [](const auto& a, const auto& b) { return a.role < b.role; });
  join(story.entries);
  return story;
}

std::string words_of(const HostEvent& event, bool with_asker) {
  if (!event.end) {
    std::string text = event.text;
    if (event.kind == EventKind::stop_asked) text = "a stop was asked for: " + text;
    if (event.kind == EventKind::spawn_refused) text = "a spawn was refused: " + text;
    if (with_asker && !event.by.empty()) text += " (by " + requester_text(event.by) + ")";
    return text;
  }
  const auto& end = *event.end;
  if (end.step == StopStep::none) return end.words();
  std::string text = "stopped";
  if (!end.stop_reason.empty()) text += ": " + end.stop_reason;
  if (with_asker && !end.stopped_by.empty()) text += " (by " + requester_text(end.stopped_by) + ")";
  text += "; ";
  if (end.cause == Cause::killed_after_grace) {
    text += "it outlived SIGTERM and was killed when its grace was over";
  } else if (end.step == StopStep::asked) {
    text += "asked to end: " + end.words();
  } else {
    text += (end.step == StopStep::term ? "after SIGTERM: " : "at once: ") + end.words();
  }
  return text;
}

}  // namespace meshbus::cli
