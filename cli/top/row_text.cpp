#include "cli/top/row_text.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "cli/support/drain_text.h"
#include "cli/support/usage_text.h"
#include "common/base/requester_text.h"

namespace meshbus::cli {
namespace {

using Time = std::chrono::system_clock::time_point;

std::string two(std::int64_t number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

std::string state_of(const SiteHost& host, Time now) {
  if (host.state == SiteHostState::up) return "up";
  return std::string(host.state == SiteHostState::lost ? "lost " : "asked ") +
         age_text(now - host.since);
}

std::string state_of(const Figures& sum) {
  if (sum.failed > 0) return std::to_string(sum.failed) + " failed";
  if (sum.live == 0) return "ended";
  if (sum.troubled > 0) return std::to_string(sum.troubled) + " slow";
  if (sum.ready == sum.live) return std::to_string(sum.live) + " ready";
  return std::to_string(sum.ready) + "/" + std::to_string(sum.live) + " ready";
}

std::string state_of(const SiteRank& rank) {
  const auto& report = rank.report;
  if (report.trouble != Trouble::none) return std::string(to_string(report.trouble));
  if (rank.queue_waits.count() != 0) return "slow peer";
  if (!report.is_terminal() || report.state == ProcState::failed)
    return std::string(to_string(report.state));
  return report.signal != 0 ? signal_name(report.signal)
                            : "exit " + std::to_string(report.exit_code);
}

std::string count_text(std::uint64_t count) {
  return count == 0 ? "" : rate_text(static_cast<double>(count));
}

std::string last_column_of(const SiteHost& host) {
  if (host.state == SiteHostState::lost) return host.problem;
  std::string words = host.report.node;
  for (const auto& drain : host.report.drains) words += ", drained of " + drain_text(drain);
  if (host.cpus != 0)
    words += ", load " + load_text(host.load) + " of " + std::to_string(host.cpus) + " CPUs, " +
             memory_text(host.memory_available) + " of " + memory_text(host.memory) + " free";
  return words;
}

std::string last_column_of(const SiteRank& rank) {
  const auto& report = rank.report;
  if (report.trouble != Trouble::none) return report.trouble_reason;
  if (report.state == ProcState::failed || rank.last_line.empty()) return report.reason;
  return rank.last_line;
}

std::string age_of(const TreeRow& row, Time now) {
  if (row.kind == TreeRow::Kind::host)
    return row.host->started ? age_text(now - *row.host->started) : "";
  if (row.kind == TreeRow::Kind::mesh || !row.rank->report.started) return "";
  const auto& report = row.rank->report;
  return age_text(report.ended.value_or(now) - *report.started);
}

std::string rank_text(const TreeRow& row, Field field) {
  const auto& report = row.rank->report;
  switch (field) {
    case Field::pid: return report.pid > 0 ? std::to_string(report.pid) : "";
    case Field::threads:
      return report.usage && row.figures.live > 0 ? std::to_string(report.usage->threads) : "";
    case Field::waits:
      return row.rank->queue_waits.count() == 0 ? "" : age_text(row.rank->queue_waits);
    default: return last_column_of(*row.rank);
  }
}

}  // namespace

std::string age_text(std::chrono::system_clock::duration age) {
  const auto seconds =
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(age).count());
  if (seconds < 60) return std::to_string(seconds) + "s";
  if (seconds < 3600) return std::to_string(seconds / 60) + "m" + two(seconds % 60) + "s";
  if (seconds < 86400) return std::to_string(seconds / 3600) + "h" + two(seconds / 60 % 60) + "m";
  return std::to_string(seconds / 86400) + "d" + std::to_string(seconds / 3600 % 24) + "h";
}

std::string rate_text(double rate) {
  constexpr std::array<char, 4> units = {'k', 'M', 'G', 'T'};
  if (rate < 1000) return std::to_string(static_cast<std::int64_t>(rate + 0.5));
  std::size_t unit = 0;
  for (rate /= 1000; rate >= 1000 && unit + 1 < units.size(); rate /= 1000) ++unit;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), rate < 100 ? "%.1f%c" : "%.0f%c", rate, units[unit]);
  return text.data();
}

std::string name_of(const TreeRow& row) {
  const std::string mark = row.is_folded ? "+ " : "- ";
  switch (row.kind) {
    case TreeRow::Kind::host: return mark + row.host->host.to_string();
    case TreeRow::Kind::mesh: return "  " + mark + row.mesh->name;
    case TreeRow::Kind::rank: break;
  }
  return "    " + std::to_string(row.rank->report.rank) + " " + row.rank->report.point;
}

std::string text_of(const TreeRow& row, Field field, Time now) {
  const auto& sum = row.figures;
  const bool is_empty = sum.live == 0;
  switch (field) {
    case Field::state:
      return row.kind == TreeRow::Kind::host   ? state_of(*row.host, now)
             : row.kind == TreeRow::Kind::mesh ? state_of(sum)
                                               : state_of(*row.rank);
    case Field::cpu: return is_empty ? "" : load_text(sum.cpu);
    case Field::time: return is_empty ? "" : cpu_time_text(sum.cpu_time);
    case Field::memory: return sum.memory == 0 ? "" : memory_text(sum.memory);
    case Field::attempts: return count_text(sum.restarts);
    case Field::queue: return count_text(sum.queued);
    case Field::age: return age_of(row, now);
    default: break;
  }
  if (row.kind == TreeRow::Kind::rank) return rank_text(row, field);
  if (field == Field::pid)
    return row.kind == TreeRow::Kind::host && row.host->report.pid > 0
               ? std::to_string(row.host->report.pid)
               : "";
  if (field != Field::last_line) return "";
  return row.kind == TreeRow::Kind::host ? last_column_of(*row.host) : row.mesh->command;
}

Ink ink_of(const TreeRow& row) {
  if (row.kind == TreeRow::Kind::host) {
    return row.host->state == SiteHostState::up     ? Ink::good
           : row.host->state == SiteHostState::lost ? Ink::bad
                                                    : Ink::warn;
  }
  const auto& sum = row.figures;
  if (sum.failed > 0) return Ink::bad;
  if (sum.live == 0) return Ink::dim;
  return sum.troubled > 0 || sum.ready != sum.live ? Ink::warn : Ink::good;
}

std::string detail_of(const TreeRow& row, Time now) {
  switch (row.kind) {
    case TreeRow::Kind::host: {
      const auto& host = *row.host;
      std::string text = host.host.to_string() + ": " + state_of(host, now);
      if (host.state == SiteHostState::lost) return text + ": " + host.problem;
      text += ", " + host.report.containment + ", meshbus " + host.report.version;
      if (host.broker)
        text += ", " + std::to_string(host.broker->peers) + " peers, " +
                std::to_string(host.broker->held) + " messages queued";
      return text;
    }
    case TreeRow::Kind::mesh:
      return row.mesh->name + " " + row.mesh->region.extent().to_string() + " of " +
             row.mesh->owner + ": " + row.mesh->command;
    case TreeRow::Kind::rank: break;
  }
  const auto& report = row.rank->report;
  std::string text = row.mesh->name + " rank " + std::to_string(report.rank) + ": " +
                     (report.trouble != Trouble::none ? report.trouble_reason : report.words());
  if (report.restarts > 0) text += ", attempt " + std::to_string(report.restarts + 1);
  if (!report.stop_reason.empty())
    text += ", stopped by " + requester_text(report.stopped_by) + ": " + report.stop_reason;
  return text;
}

}  // namespace meshbus::cli
