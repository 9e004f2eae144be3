#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "client/src/context/ask_all.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "client/src/proc_mesh/ranks_start.h"
#include "common/address/mesh_layout.h"
#include "common/base/rank_limit.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;

/// For all hosts to take the new layout.
constexpr std::chrono::seconds kTellLimit{10};
/// For a host that the mesh does not have yet to say that it is there.
constexpr std::chrono::seconds kThereLimit{10};
/// For what stopped ranks have written to be handed out, and between two looks.
constexpr std::chrono::seconds kOutputLimit{10};
constexpr std::chrono::milliseconds kOutputLook{20};
/// For restarts that were decided to begin.
constexpr std::chrono::seconds kRestartsLimit{10};

/// Whether each host runs as many ranks of that mesh. Errors: configuration_error.
Result<void> check_size(const MeshLayout& mesh) {
  const auto in_block = mesh.region.num_ranks() / mesh.hosts.size();
  std::map<HostAddr, std::uint64_t> ranks;
  for (const auto& host : mesh.hosts) ranks[host] += in_block;
  for (const auto& [host, count] : ranks) {
    if (count > kMostRanksPerHost)
      return fail(ErrorCode::configuration_error,
                  std::to_string(count) + " ranks on " + host.to_string() +
                      ", which runs at most " + std::to_string(kMostRanksPerHost) + " of a mesh");
  }
  return {};
}

/// The restarts of a mesh are paused as long as it lives.
class RestartsPause {
 public:
  explicit RestartsPause(MeshMonitor& monitor) : monitor_(monitor) {}
  ~RestartsPause() {
    if (is_paused_) monitor_.resume_restarts();
  }
  RestartsPause(const RestartsPause&) = delete;
  RestartsPause& operator=(const RestartsPause&) = delete;

  Result<void> begin() {
    if (!monitor_.has_restarts()) return {};
    if (auto paused = monitor_.pause_restarts(kRestartsLimit); !paused) return fail(paused.error());
    is_paused_ = true;
    return {};
  }

 private:
  MeshMonitor& monitor_;
  bool is_paused_ = false;
};

/// One resize of a mesh under way.
class Resize {
 public:
  explicit Resize(ProcMesh::Impl& mesh)
      : core_(mesh.core()),
        connection_(mesh.connection()),
        monitor_(mesh.monitor()),
        impl_(mesh),
        before_{.region = monitor_.shown().region(),
                .hosts = monitor_.shown().hosts(),
                .revision = mesh.resizing().revision()} {}

  Result<ResizeReport> grow(const GrowOptions& options);
  Result<ResizeReport> shrink(const ShrinkOptions& options);

 private:
  Result<void> check() const;
  /// Where the new blocks are to lie.
  std::vector<HostAddr> choose(const GrowOptions& options) const;
  Result<void> reach(const std::vector<HostAddr>& hosts);
  Result<ProcMeshRef> ref_of(const MeshLayout& layout) const {
    return ProcMeshRef::make(monitor_.mesh().mesh(), layout.hosts, layout.region.num_ranks(),
                             layout.region);
  }
  /// Tells these hosts that this is the layout now. The ones with live ranks that have not heard
  /// it.
  HostProblems tell(const MeshLayout& layout, const std::vector<HostAddr>& hosts);
  Error undo(RanksStart& start, const MeshLayout& after, Error error, bool is_given_up);
  void take(std::uint32_t revision) {
    impl_.resizing().taken_revision = revision;
    if (impl_.resizing().recipe) impl_.resizing().recipe->set_revision(revision);
  }

  ContextCore& core_;
  Connection& connection_;
  MeshMonitor& monitor_;
  ProcMesh::Impl& impl_;
  const MeshLayout before_;
};

std::string words_of(const HostProblems& problems) {
  std::string words;
  for (const auto& [host, error] : problems)
    words +=
        (words.empty() ? "host " : "; host ") + host.to_string() + ": " +
        (error.code() == ErrorCode::no_such_port ? "its release of meshbus cannot resize meshes"
                                                 : error.detail());
  return words;
}

Result<void> Resize::check() const {
  const auto& progress = monitor_.progress();
  if (progress.is_handed_over())
    return fail(ErrorCode::refused,
                "it was handed over, and only the launcher that made a mesh can resize it while "
                "it answers for it");
  if (progress.is_end_posted() || progress.table().is_ended())
    return fail(ErrorCode::refused, "all its ranks have ended");
  if (!progress.is_ours()) return fail(ErrorCode::refused, "this launcher does not answer for it");
  return {};
}

std::vector<HostAddr> Resize::choose(const GrowOptions& options) const {
  if (!options.hosts.empty()) return options.hosts;
  std::map<HostAddr, std::uint64_t> blocks;
  for (const auto& host : before_.hosts) ++blocks[host];
  std::vector<HostAddr> chosen;
  for (std::uint64_t i = 0; i < options.blocks; ++i) {
    const auto fewest = std::min_element(
        before_.hosts.begin(), before_.hosts.end(),
        [&](const HostAddr& a, const HostAddr& b) { return blocks[a] < blocks[b]; });
    chosen.push_back(*fewest);
    ++blocks[*fewest];
  }
  return chosen;
}

Result<void> Resize::reach(const std::vector<HostAddr>& hosts) {
  std::vector<HostAddr> others;
  for (const auto& host : hosts) {
    const bool is_known =
        std::find(before_.hosts.begin(), before_.hosts.end(), host) != before_.hosts.end() ||
        std::find(others.begin(), others.end(), host) != others.end();
    if (!is_known) others.push_back(host);
  }
  for (const auto& report : ask_hosts(connection_, others, kThereLimit)) {
    if (report.code != ErrorCode::none)
      return fail(report.code, "host " + report.host.to_string() + ": " + report.problem);
  }
  core_.run([&] { connection_.hosts().add(others); });
  return {};
}

HostProblems Resize::tell(const MeshLayout& layout, const std::vector<HostAddr>& hosts) {
  const auto name = monitor_.name();
  std::vector<HostAddr> live, others;
  for (const auto& host : hosts) {
    auto& list = monitor_.progress().is_alive_on(host) ? live : others;
    if (std::find(list.begin(), list.end(), host) == list.end()) list.push_back(host);
  }
  const auto message_for = [&](const HostAddr&) {
    wire::ResizeMeshT message;
    message.mesh = name;
    message.layout = to_wire(layout);
    return message;
  };
  auto problems = ask_all(connection_, live, message_for, Clock::now() + kTellLimit);
  // Where nothing of it lives it is good to know, and no more.
  ask_all(connection_, others, message_for, Clock::now() + kTellLimit, /*once=*/true);
  std::erase_if(problems, [this](const auto& problem) {
    return !monitor_.progress().is_alive_on(problem.first);
  });
  return problems;
}

Result<ResizeReport> Resize::grow(const GrowOptions& options) {
  if (auto fine = check(); !fine) return fail(fine.error());
  auto& recipe = impl_.resizing().recipe;
  if (!recipe)
    return fail(ErrorCode::refused,
                "it was taken over, and only the launcher that made it knows how its ranks are "
                "started");
  const auto added = choose(options);
  if (added.empty())
    return fail(ErrorCode::configuration_error, "no block is to be added: name hosts, or blocks");
  auto hosts = before_.hosts;
  hosts.insert(hosts.end(), added.begin(), added.end());
  const auto after = resized(before_, std::move(hosts));
  if (!after) return fail(after.error());
  if (auto few = check_size(*after); !few) return fail(few.error());
  if (auto there = reach(added); !there) return fail(there.error());
  auto grown = ref_of(*after);
  if (!grown) return fail(grown.error());
  RestartsPause pause(monitor_);
  if (auto paused = pause.begin(); !paused) return fail(paused.error());
  const auto first = before_.region.num_ranks();
  core_.run([&] { monitor_.begin_growth(std::move(*grown)); });
  recipe->set_revision(after->revision);
  RanksStart start(core_, connection_, monitor_, *recipe, options.stop,
                   {.host = before_.hosts.size(), .rank = first});
  auto done = start.order();
  if (done) done = start.wait_ready();
  if (done) {
    if (const auto problems = tell(*after, after->hosts); !problems.empty())
      done = fail(Error(problems.begin()->second.code() == ErrorCode::no_such_port
                            ? ErrorCode::refused
                            : problems.begin()->second.code(),
                        "not every host knows its new size: " + words_of(problems)));
  }
  if (!done) return fail(undo(start, *after, done.error(), options.stop.stop_requested()));
  ResizeReport report{.size = after->region.num_ranks(),
                      .came = {{first, after->region.num_ranks()}}};
  impl_.add_bindings(start.take_bindings());
  take(after->revision);
  core_.run([&] {
    if (const auto& restarts = impl_.resizing().restarts)
      restarts->resize(*after, start.take_sent());
    monitor_.tell_resized(report);
    monitor_.end_growth();
  });
  return report;
}

Error Resize::undo(RanksStart& start, const MeshLayout& after, Error error, bool is_given_up) {
  const auto stopped =
      start.undo(is_given_up ? "the growth was given up" : "the growth of the mesh failed");
  auto back = before_;
  back.revision = after.revision + 1;
  take(back.revision);
  const auto problems = tell(back, after.hosts);
  auto former = ref_of(before_);
  if (former) core_.run([&] { monitor_.shrink(std::move(*former)); });
  auto detail = error.detail();
  if (!stopped) detail += "; and what did start could not be stopped: " + stopped.error().detail();
  if (!problems.empty())
    detail += "; and the mesh has its size of before, which was not heard by " + words_of(problems);
  return Error(error.code(), std::move(detail)).about(error.reports());
}

Result<ResizeReport> Resize::shrink(const ShrinkOptions& options) {
  if (auto fine = check(); !fine) return fail(fine.error());
  if (options.blocks == 0)
    return fail(ErrorCode::configuration_error, "no block is to be taken away");
  auto hosts = before_.hosts;
  for (std::uint64_t i = 0; i < options.blocks && !hosts.empty(); ++i) hosts.pop_back();
  const auto after = resized(before_, std::move(hosts));
  if (!after) return fail(after.error());
  auto smaller = ref_of(*after);
  if (!smaller) return fail(smaller.error());
  const RankBlock leaving{after->region.num_ranks(), before_.region.num_ranks()};
  const auto stopped = stop_ranks(core_, connection_, monitor_,
                                  {.reason = options.reason,
                                   .grace = options.grace,
                                   .deadline = options.deadline,
                                   .ranks = {leaving},
                                   .because = {}});
  if (!stopped) return fail(stopped.error());
  const auto are_reported = [&](const RankTable& table) {
    for (auto rank = leaving.begin; rank < leaving.end; ++rank) {
      if (!table.is_over(rank, Clock::now())) return false;
    }
    return true;
  };
  monitor_.progress().wait(are_reported, RankTable::kExitReportLimit);
  const auto end = Clock::now() + kOutputLimit;
  while (!core_.run([&] { return monitor_.is_output_over_from(leaving.begin); }) &&
         Clock::now() < end)
    monitor_.progress().wait([](const RankTable&) { return false; }, kOutputLook);
  ResizeReport report{.size = leaving.begin};
  take(after->revision);
  core_.run([&] {
    if (const auto& restarts = impl_.resizing().restarts) restarts->resize(*after, {});
    report.gone = monitor_.shrink(std::move(*smaller));
    monitor_.tell_resized(report);
  });
  if (const auto problems = tell(*after, before_.hosts); !problems.empty())
    return fail(ErrorCode::host_unreachable, "it has " + std::to_string(report.size) +
                                                 " ranks now, which was not heard by " +
                                                 words_of(problems));
  return report;
}

}  // namespace

void ProcMesh::Impl::add_bindings(BindingMap more) {
  bindings_.ranks.insert(bindings_.ranks.end(), more.ranks.begin(), more.ranks.end());
  bindings_.notes.insert(bindings_.notes.end(), more.notes.begin(), more.notes.end());
}

namespace {

/// What keeps a mesh from being resized at all, whatever the order.
Result<void> check_kind(ProcMesh::Impl& mesh) {
  if (mesh.mpi() == nullptr) return {};
  return fail(ErrorCode::refused, "the ranks of an MPI job are as many as at its start");
}

/// `act` on a Resize, while no other one is under way.
template <typename Act>
Result<ResizeReport> resize(ProcMesh::Impl& mesh, const std::string& verb, Act act) {
  const auto what = verb + " mesh " + mesh.monitor().name();
  const std::unique_lock only(mesh.resizing().one, std::try_to_lock);
  if (!only) return fail(ErrorCode::refused, what + ": another resize of it is under way");
  if (auto fine = check_kind(mesh); !fine) return fail(fine.error().within(what));
  // Ranks that move to another host change its layout, too.
  RestartsPause pause(mesh.monitor());
  if (!mesh.monitor().options().spares.empty()) {
    if (auto paused = pause.begin(); !paused) return fail(paused.error().within(what));
  }
  Resize resize(mesh);
  auto done = act(resize);
  if (!done) return fail(done.error().within(what));
  return done;
}

}  // namespace

Result<ResizeReport> grow_mesh(ProcMesh::Impl& mesh, const GrowOptions& options) {
  return resize(mesh, "growing", [&](Resize& resize) { return resize.grow(options); });
}

Result<ResizeReport> shrink_mesh(ProcMesh::Impl& mesh, const ShrinkOptions& options) {
  return resize(mesh, "shrinking", [&](Resize& resize) { return resize.shrink(options); });
}

Result<ResizeReport> ProcMesh::grow(GrowOptions options) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  return grow_mesh(*impl_, options);
}

Result<ResizeReport> ProcMesh::shrink(ShrinkOptions options) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  return shrink_mesh(*impl_, options);
}

}  // namespace meshbus
