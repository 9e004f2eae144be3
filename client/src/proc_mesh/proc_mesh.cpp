#include "meshbus/proc_mesh.h"
#include "common/base/quantity.h"

#include <algorithm>

#include "client/src/base/wire_reports.h"
#include "client/src/context/check_owner.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "client/src/proc_mesh/resize_orders.h"
#include "meshbus/point.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

constexpr std::size_t kInputLimit = 512 * 1024;
/// How long a mesh whose hosts are to end with it waits for a reader of its output, and for the
/// hosts.
constexpr std::chrono::seconds kLastOutput{10};
constexpr std::chrono::seconds kHostsLimit{30};

/// "rank 3" or "ranks 0-3,7"
std::string words_of(const std::vector<std::uint64_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + to_string(to_rank_set(ranks));
}

/// Whether these are ranks of a mesh of that size.
Result<void> check_ranks(const std::string& mesh, const RankSet& ranks, std::uint64_t size) {
  for (const auto& block : ranks) {
    const auto text = "mesh " + mesh + ": ranks {" + std::to_string(block.begin) + ", " +
                      std::to_string(block.end) + "}";
    if (block.begin >= block.end)
      return fail(ErrorCode::configuration_error,
                  text + " are none: a block has its first rank and the one behind its last");
    if (block.end > size)
      return fail(ErrorCode::out_of_range,
                  text + ": there are only ranks 0 to " + std::to_string(size - 1));
  }
  return {};
}

/// Those of these ranks (empty: all) on that host that live.
std::vector<std::uint64_t> live_ranks(const RankTable& table, const RankSet& ranks,
                                      std::uint64_t host) {
  std::vector<std::uint64_t> live;
  for (const auto rank : table.not_ended(ranks)) {
    if (table.rank(rank).host_index == host) live.push_back(rank);
  }
  return live;
}

/// Hosts that have one of these ranks, or with none given a rank that is not terminal.
std::vector<std::uint64_t> hosts_of(const RankTable& table, const RankSet& ranks) {
  std::vector<std::uint64_t> hosts;
  for (const auto& report : table.ranks()) {
    const bool is_meant = ranks.empty() ? !report.is_terminal() : contains(ranks, report.rank);
    if (is_meant && (hosts.empty() || hosts.back() != report.host_index))
      hosts.push_back(report.host_index);
  }
  return hosts;
}

}  // namespace

ProcMesh::Impl::~Impl() {
  if (!core().check_process()) {
    // A forked child: the mesh is its parent's.
    new std::shared_ptr<MeshMonitor>(std::move(monitor_));
    new std::shared_ptr<ResizeOrders>(std::move(orders_));
    return;
  }
  if (orders_) orders_->close();
  if (!monitor_->progress().is_handed_over())
    order_stop(core(), connection(), *monitor_,
               {.reason = "the launcher let go of the mesh",
                .grace = {},
                .deadline = {},
                .ranks = {},
                .because = {}});
  monitor_->abandon();
  orders_.reset();
}

void ProcMesh::Impl::take_orders() {
  if (monitor_->options().handlers.on_resize_order) orders_ = std::make_shared<ResizeOrders>(*this);
}

ProcMesh::ProcMesh(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ProcMesh::ProcMesh(ProcMesh&&) noexcept = default;
ProcMesh& ProcMesh::operator=(ProcMesh&&) noexcept = default;
ProcMesh::~ProcMesh() = default;

const BindingMap& ProcMesh::bindings() const noexcept {
  static const BindingMap none;
  return impl_ == nullptr ? none : impl_->bindings();
}

const ProcMeshRef& ProcMesh::ref() const noexcept {
  // A mesh without ranks stands for that of an object that was moved from.
  static const auto none =
      *ProcMeshRef::make(*Name::make("moved"), {}, *Extent::make({{"host", 0}}));
  return impl_ == nullptr ? none : impl_->monitor().shown();
}
std::uint64_t ProcMesh::size() const noexcept {
  return ref().root_ranks();
}

Result<std::vector<RankReport>> ProcMesh::status(std::chrono::milliseconds deadline) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  auto& monitor = impl_->monitor();
  std::map<std::uint64_t, Connection::Answer> answers;
  const auto& hosts = ref().hosts();
  for (std::uint64_t host = 0; host < hosts.size(); ++host) {
    if (ref().block_of(host).value_or(RankBlock{}).size() == 0) continue;
    wire::GetStateT get;
    get.mesh = monitor.name();
    get.usage = true;
    answers.emplace(host, impl_->connection().ask(Destination::to_agent(hosts[host]),
                                                  std::move(get), deadline));
  }
  std::map<std::uint64_t, std::string> problems;
  std::map<std::uint64_t, ProcUsage> usages;
  for (auto& [host, future] : answers) {
    auto answer = std::make_shared<Result<ControlMessage>>(future.get());
    const auto* const state = *answer ? (*answer)->body_as<wire::MeshState>() : nullptr;
    if (state != nullptr) {
      impl_->core().run([&, address = hosts[host]] {
        monitor.on_update(address, state->ranks(), state->exit_reports(), state->launch());
        monitor.on_troubles(
            address,
            {.troubles = state->troubles(), .stuck = state->stuck(), .whole = state->ranks()});
      });
      for (flatbuffers::uoffset_t i = 0; state->usage() != nullptr && i < state->usage()->size();
           ++i)
        usages.insert_or_assign(state->usage()->Get(i)->rank(), to_report(*state->usage()->Get(i)));
    } else {
      problems[host] = *answer ? "it answered nonsense" : answer->error().to_string();
    }
  }
  auto ranks = monitor.progress().outcome().ranks;
  for (auto& report : ranks) {
    if (const auto usage = usages.find(report.rank); usage != usages.end() && !report.is_terminal())
      report.usage = usage->second;
    const auto problem = problems.find(report.host_index);
    // What has ended stays ended, whether its host can still be asked or not.
    if (problem == problems.end() || report.is_terminal()) continue;
    report.state = ProcState::unknown;
    report.reason = "unknown: " + problem->second;
  }
  return ranks;
}

MeshOutcome ProcMesh::known() const {
  return impl_ == nullptr ? MeshOutcome() : impl_->monitor().progress().outcome();
}

Result<MeshOutcome> ProcMesh::wait(std::chrono::milliseconds deadline) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  auto& monitor = impl_->monitor();
  if (monitor.progress().wait_end(deadline)) return monitor.progress().outcome();
  const auto table = monitor.progress().table();
  const auto left = table.not_ended({});
  std::string detail = "mesh " + monitor.name() + ": after " + duration_to_text(deadline) + " ";
  detail += left.empty() ? "its output is not at its end"
                         : std::to_string(left.size()) + " of " + std::to_string(table.size()) +
                               " ranks are not ended: " + table.describe(left);
  return fail(ErrorCode::timeout, std::move(detail));
}

Result<MeshOutcome> ProcMesh::wait_for_failure(std::chrono::milliseconds deadline) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  auto& monitor = impl_->monitor();
  if (monitor.progress().wait_failure(deadline)) return monitor.progress().outcome();
  return fail(ErrorCode::timeout,
              "mesh " + monitor.name() + ": no rank failed within " + duration_to_text(deadline));
}

Result<MeshOutcome> ProcMesh::stop(StopOptions options) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  if (auto fine = check_ranks(impl_->monitor().name(), options.ranks, ref().num_ranks()); !fine)
    return fail(fine.error());
  auto stopped = stop_ranks(impl_->core(), impl_->connection(), impl_->monitor(), options);
  auto* const hosts = impl_->held_hosts();
  if (!stopped || hosts == nullptr || !options.ranks.empty()) return stopped;
  // What they wrote is worth the little time that it takes.
  impl_->monitor().progress().wait_end(kLastOutput);
  if (auto down = hosts->shutdown(options.deadline.value_or(kHostsLimit), {}, options.reason);
      !down)
    return fail(down.error());
  return impl_->monitor().progress().outcome();
}

void ProcMesh::request_stop(StopOptions options) {
  if (impl_ != nullptr) order_stop(impl_->core(), impl_->connection(), impl_->monitor(), options);
}

Result<void> ProcMesh::signal(const RankSet& ranks, int signal,
                              std::chrono::milliseconds deadline) {
  if (auto fine = check_owner(impl_); !fine) return fine;
  auto& monitor = impl_->monitor();
  if (signal < 1 || signal > 64)
    return fail(ErrorCode::configuration_error,
                "there is no signal " + std::to_string(signal) + "; 1 to 64 are signals");
  const auto table = monitor.progress().table();
  if (auto fine = check_ranks(monitor.name(), ranks, table.size()); !fine) return fine;
  const auto hosts = hosts_of(table, ranks);
  if (hosts.empty())
    return fail(ErrorCode::not_exist, "mesh " + monitor.name() + ": no rank is left to send " +
                                          signal_name(signal) + " to");
  std::vector<Connection::Answer> answers;
  for (const auto host : hosts) {
    wire::SignalProcsT order;
    order.mesh = monitor.name();
    order.ranks = to_wire(ranks_on(ref(), host, ranks));
    order.signal = static_cast<std::uint8_t>(signal);
    order.requester = impl_->connection().self();
    answers.push_back(impl_->connection().ask(Destination::to_agent(ref().hosts()[host]),
                                              std::move(order), deadline));
  }
  std::vector<std::uint64_t> reached;
  std::string missed;
  ErrorCode code = ErrorCode::none;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto here = live_ranks(table, ranks, hosts[i]);
    const auto answer = answers[i].get();
    if (answer) {
      reached.insert(reached.end(), here.begin(), here.end());
      continue;
    }
    if (code == ErrorCode::none) code = answer.error().code();
    missed += "; " + (here.empty() ? "host" : words_of(here) + " on") + " " +
              ref().hosts()[hosts[i]].to_string() + " did not: " + answer.error().detail();
  }
  if (code == ErrorCode::none) return {};
  return fail(code, signal_name(signal) + " for mesh " + monitor.name() + ": " +
                        (reached.empty() ? "no rank" : words_of(reached)) + " got it" + missed);
}

namespace {

Result<void> write(Connection& connection, const ProcMeshRef& mesh, std::uint64_t rank,
                   std::string_view bytes, bool end, std::chrono::milliseconds deadline) {
  const auto host = mesh.host_index_of(rank);
  if (!host) return fail(host.error());
  if (bytes.size() > kInputLimit) {
    return fail(ErrorCode::too_large, std::to_string(bytes.size()) +
                                          " bytes for the stdin of rank " + std::to_string(rank) +
                                          " at once; the limit is " + std::to_string(kInputLimit));
  }
  wire::WriteInputT input;
  input.mesh = mesh.mesh().to_string();
  input.rank = rank;
  input.data.assign(bytes.begin(), bytes.end());
  input.end = end;
  const auto answer =
      connection.ask(Destination::to_agent(mesh.hosts()[*host]), std::move(input), deadline).get();
  if (!answer) return fail(answer.error().within("stdin of rank " + std::to_string(rank)));
  return {};
}

}  // namespace

Result<void> ProcMesh::write_input(std::uint64_t rank, std::string_view bytes,
                                   std::chrono::milliseconds deadline) {
  if (auto fine = check_owner(impl_); !fine) return fine;
  return write(impl_->connection(), ref(), rank, bytes, false, deadline);
}

Result<void> ProcMesh::close_input(std::uint64_t rank, std::chrono::milliseconds deadline) {
  if (auto fine = check_owner(impl_); !fine) return fine;
  return write(impl_->connection(), ref(), rank, {}, true, deadline);
}

Result<ProcRef> ProcMesh::proc(std::uint64_t rank) const {
  auto id = ref().proc_of(rank);
  if (!id) return fail(id.error());
  return ProcRef(std::move(*id));
}

Result<ProcRef> ProcMesh::at(
    const std::vector<std::pair<std::string, std::uint64_t>>& coordinates) const {
  const auto extent = ref().region().extent();
  std::vector<std::optional<std::uint64_t>> given(extent.num_dims());
  for (const auto& [label, coordinate] : coordinates) {
    const auto axis = extent.find(label);
    if (!axis)
      return fail(ErrorCode::configuration_error, "mesh " + ref().mesh().to_string() +
                                                      " has no axis " + label + "; it is " +
                                                      extent.to_string());
    given[*axis] = coordinate;
  }
  std::vector<std::uint64_t> all;
  for (std::size_t axis = 0; axis < given.size(); ++axis) {
    if (!given[axis])
      return fail(ErrorCode::configuration_error, "no coordinate for axis " +
                                                      extent.labels()[axis] + " of mesh " +
                                                      ref().mesh().to_string());
    all.push_back(*given[axis]);
  }
  const auto ordinal = extent.rank_of(all);
  if (!ordinal) return fail(ordinal.error());
  auto id = ref().proc_at(*ordinal);
  if (!id) return fail(id.error());
  return ProcRef(std::move(*id));
}

}  // namespace meshbus
