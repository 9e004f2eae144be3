#include "client/python/launcher/report_values.h"

#include <chrono>
#include <optional>
#include <string>

#include <pybind11/stl.h>

#include "client/python/bind/bodies.h"
#include "meshbus/restart_policy.h"

namespace meshbus::python {
namespace {

using SystemTime = std::optional<std::chrono::system_clock::time_point>;

/// Seconds since 1970, as time.time() has them, or None.
py::object seconds_of(const SystemTime& time) {
  if (!time) return py::none();
  return py::float_(std::chrono::duration<double>(time->time_since_epoch()).count());
}

template <typename Duration>
double seconds_in(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

py::list ranks_of(const RankSet& ranks) {
  py::list all;
  for (const auto& block : ranks) {
    for (auto rank = block.begin; rank < block.end; ++rank) all.append(rank);
  }
  return all;
}

py::tuple value_of(const BindingMap& map) {
  py::list ranks;
  for (const auto& bound : map.ranks) {
    py::dict value;
    value["rank"] = bound.rank;
    value["cpus"] = py::tuple(py::cast(bound.cpus));
    value["memory_nodes"] = py::tuple(py::cast(bound.memory_nodes));
    value["memory"] = bound.memory == BindMemory::only     ? "only"
                      : bound.memory == BindMemory::prefer ? "prefer"
                                                           : "any";
    value["gpu"] = bound.gpu;
    value["visible_devices"] = bound.visible_devices;
    ranks.append(std::move(value));
  }
  py::list notes;
  for (const auto& note : map.notes) notes.append(py::make_tuple(note.host.to_string(), note.text));
  return py::make_tuple(std::move(ranks), std::move(notes));
}

py::dict value_of(const RankReport& report) {
  py::dict value;
  value["rank"] = report.rank;
  value["host"] = report.host.to_string();
  value["host_index"] = report.host_index;
  value["point"] = text_of(report.point);
  value["state"] = to_string(report.state);
  value["pid"] = report.pid;
  value["exit_code"] = report.exit_code;
  value["signal"] = report.signal;
  value["core_dumped"] = report.core_dumped;
  value["started"] = seconds_of(report.started);
  value["ended"] = seconds_of(report.ended);
  value["restarts"] = report.restarts;
  value["is_restarting"] = report.is_restarting;
  value["reason"] = text_of(report.reason);
  value["code"] = to_string(report.code);
  value["os_error"] = report.os_error;
  value["cause"] = to_string(report.cause);
  value["consequence"] = report.consequence;
  value["because"] = report.because;
  value["stderr_tail"] = text_of(report.stderr_tail);
  value["stopped_by"] = report.stopped_by;
  value["stop_reason"] = text_of(report.stop_reason);
  value["max_rss_bytes"] = report.max_rss_bytes;
  value["user_time"] = seconds_in(report.user_time);
  value["system_time"] = seconds_in(report.system_time);
  value["trouble"] = to_string(report.trouble);
  value["trouble_reason"] = text_of(report.trouble_reason);
  value["is_terminal"] = report.is_terminal();
  value["is_failure"] = report.is_failure();
  value["shell_code"] = report.shell_code();
  value["text"] = text_of(report.describe());
  return value;
}

py::dict value_of(const MeshOutcome& outcome) {
  py::dict value;
  value["ranks"] = values_of(outcome.ranks);
  value["first_failure"] =
      outcome.first_failure ? py::object(value_of(*outcome.first_failure)) : py::object(py::none());
  value["former_lives"] = values_of(outcome.former_lives);
  value["exit_code"] = outcome.exit_code();
  value["trouble"] = py::none();
  value["trouble_rank"] = py::none();
  if (outcome.trouble) {
    value["trouble"] = text_of(outcome.trouble->words);
    value["trouble_rank"] = py::cast(outcome.trouble->rank);
  }
  return value;
}

py::dict value_of(const MoveReport& move) {
  py::dict value;
  value["ranks"] = ranks_of(move.ranks);
  value["lost_host"] = move.from.to_string();
  value["new_host"] = move.to.to_string();
  return value;
}

py::dict value_of(const RestartReport& restart) {
  py::dict value;
  value["cause"] = value_of(restart.cause);
  value["ranks"] = ranks_of(restart.ranks);
  value["restart"] = restart.restart;
  value["budget"] = restart.budget;
  value["delay"] = seconds_in(restart.delay);
  value["is_move"] = restart.is_move;
  return value;
}

py::dict value_of(const ActorReport& report) {
  py::dict value;
  value["rank"] = report.rank;
  value["actor"] = text_of(report.actor);
  value["point"] = text_of(report.point);
  value["status"] = text_of(report.status.to_string());
  value["reason"] = text_of(report.reason);
  value["message"] = text_of(report.message);
  value["handled"] = report.handled;
  value["dropped"] = report.dropped;
  value["proc"] = report.proc ? py::object(value_of(*report.proc)) : py::object(py::none());
  value["text"] = text_of(report.describe());
  return value;
}

}  // namespace meshbus::python
