#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/controller/report_queue.h"
#include "client/controller/watch_event.h"
#include "meshbus/region.h"

namespace meshbus {

/// The voice of a controller about one mesh, of procs or of actors: makes its events and tells each
/// once, in order. Pure: it holds no clock, socket or thread.
class MeshEvents {
 public:
  using Time = ReportQueue::Time;

  explicit MeshEvents(std::string mesh) : mesh_(std::move(mesh)) {}

  const std::string& mesh() const noexcept { return mesh_; }
  const std::shared_ptr<const Region>& region() const noexcept { return region_; }
  void set_region(std::shared_ptr<const Region> region) { region_ = std::move(region); }
  /// The ranks of the region; of those that are known when there is none.
  std::uint64_t size(std::uint64_t known) const {
    return region_ == nullptr ? known : region_->num_ranks();
  }
  ReportQueue& queue() noexcept { return queue_; }
  const ReportQueue& queue() const noexcept { return queue_; }

  /// An event of this mesh; WatchEvent::overall is set when the event goes out.
  WatchEvent make(WatchEvent::Kind kind, const HostAddr& host) const;
  WatchEvent make(const HostAddr& host, const wire::RankState& rank,
                  std::shared_ptr<const wire::ExitReportT> exit_report) const;
  /// A host has fallen silent, or answers again; reported while more events of the mesh are
  /// expected.
  void add_host(const HostAddr& host, bool is_silent, const std::string& problem);
  void add_resize(const HostAddr& host, std::uint64_t before, std::uint64_t after);
  void add_failed_query(const HostAddr& host, std::string problem);
  /// Adds `ended` when the mesh is over and was not before. Returns whether it did.
  bool add_end(bool is_over, const HostAddr& host);
  /// Moves the events that can go out now to the end of `events`. Returns the hosts that have to be
  /// asked for exit reports.
  std::set<HostAddr> take(std::vector<WatchEvent>& events, Status::Kind overall, Time now);
  /// Adds to the events of reported ranks all others that a late subscriber needs. `silent`: hosts
  /// of this mesh that do not answer, and why. `ended_on`: for `ended`.
  std::vector<WatchEvent> standing(std::vector<WatchEvent> ranks,
                                   const std::map<HostAddr, std::string>& silent,
                                   const HostAddr& ended_on, Status::Kind overall) const;

 private:
  std::string mesh_;
  std::shared_ptr<const Region> region_;
  ReportQueue queue_;
};

/// What a controller says of a rank when it is asked.
Status status_of(const wire::RankState& rank, const wire::ExitReportT* exit_report);

}  // namespace meshbus
