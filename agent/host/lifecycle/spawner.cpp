#include "agent/host/lifecycle/spawner.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <string>

#include "agent/host/lifecycle/binding_plan.h"
#include "wire/codes_generated.h"

namespace meshbus::host {
namespace {

/// Whether two procs of one assignment share a process.
bool share_process(const MeshSpec& spec, const Proc& a, const Proc& b) {
  return spec.procs_per_process > 1 && spec.process_of(a.rank()) == spec.process_of(b.rank());
}

/// How many ranks of a mesh are bound to the same CPUs.
std::map<std::vector<std::uint32_t>, std::size_t> count_by_cpus(const RankBindings& bindings) {
  std::map<std::vector<std::uint32_t>, std::size_t> counts;
  for (const auto& [rank, binding] : bindings) ++counts[binding.placement.cpus];
  return counts;
}

}  // namespace

std::vector<Proc*> Spawner::next_batch() {
  std::vector<Proc*> batch;
  while (!queue_.empty()) {
    Proc* proc = table_.find_id(queue_.front());
    if (proc != nullptr && proc->launch.is_queued()) {
      const auto& assignment = proc->launch.assignment();
      if (!batch.empty() && batch.front()->launch.assignment() != assignment) break;
      // Procs of one process go together, whatever room there is.
      const bool is_full = asked_.size() + batch.size() >= in_flight_;
      if (is_full && (batch.empty() || !share_process(assignment->spec, *batch.back(), *proc)))
        break;
      batch.push_back(proc);
    }
    queue_.pop_front();
  }
  return batch;
}

os::SpawnBatch Spawner::make_batch(const Assignment& assignment, const std::vector<Proc*>& procs,
                                   std::vector<Proc*>& asked) {
  const MeshSpec& spec = assignment.spec;
  os::SpawnBatch batch;
  batch.shared.program = spec.command.program;
  batch.shared.argv = spec.command.arguments;
  batch.shared.env = assignment.environment;
  batch.shared.cwd = spec.command.directory;
  batch.shared.mesh = spec.mesh.to_string();
  batch.shared.settings = spec.command.settings;
  batch.shared.is_template = spec.command.is_template;
  batch.shared.parent_death_signal = parent_death_signal_ ? SIGKILL : 0;
  std::map<std::uint32_t, std::size_t> joined;
  const auto sharing = procs.empty() ? std::map<std::vector<std::uint32_t>, std::size_t>()
                                     : count_by_cpus(procs.front()->mesh.bindings);
  for (std::size_t i = 0; i < procs.size(); ++i) {
    Proc* const proc = procs[i];
    os::ProcSpec one;
    if (i > 0 && share_process(spec, *procs[i - 1], *proc))
      one.place = batch.procs.back().place + 1;
    one.id = proc->id;
    one.env = rank_environment(spec, proc->rank(), proc->state.restarts());
    if (progress_.is_kept()) one.env.push_back("MESHBUS_PROGRESS=" + progress_.path_of(*proc));
    if (auto path = errors_.path_of(*proc); !path.empty())
      one.env.push_back(std::string(ErrorFiles::kVariable) + "=" + path);
    if (const auto bound = proc->mesh.bindings.find(proc->rank());
        bound != proc->mesh.bindings.end()) {
      one.placement = bound->second.placement;
      if (const auto& cpus = one.placement.cpus; !cpus.empty())
        one.env.push_back("MESHBUS_CPUS=" +
                          std::to_string(std::max<std::size_t>(1, cpus.size() / sharing.at(cpus))));
      for (auto& variable : gpu_variables(bound->second)) one.env.push_back(std::move(variable));
    }
    if (proc->input.state == InputPipe::State::open) one.stdin_choice = os::Stdio::pipe;
    if (spec.kind == wire::ProcKind::mesh && one.place == 0) {
      std::vector<BootstrapWriter::Rank> ranks;
      for (std::size_t other = i; other < procs.size(); ++other) {
        if (other != i && !share_process(spec, *proc, *procs[other])) break;
        ranks.push_back({procs[other]->rank(), procs[other]->incarnation()});
      }
      auto bootstrap = bootstraps_.write(spec, ranks);
      if (!bootstrap) {
        for (std::size_t other = i; other < i + ranks.size(); ++other)
          on_failed_(*procs[other], bootstrap.error());
        i += ranks.size() - 1;
        continue;
      }
      one.bootstrap = std::move(*bootstrap);
      one.is_joinable = spec.procs_per_process > 1;
      if (one.is_joinable) one.beside = find_beside(spec, *proc, ranks.size(), joined);
    }
    batch.procs.push_back(std::move(one));
    asked.push_back(proc);
  }
  return batch;
}

std::uint64_t Spawner::find_beside(const MeshSpec& spec, const Proc& first, std::size_t count,
                                   std::map<std::uint32_t, std::size_t>& joined) {
  struct Process {
    std::uint64_t beside = 0;
    std::size_t procs = 0;
    bool is_own = false;
  };
  std::map<std::uint32_t, Process> processes;
  std::size_t unborn = 0;
  for (const auto& [rank, proc] : first.mesh.procs) {
    if (proc->has_ended()) continue;
    if (!proc->launch.is_born()) {
      unborn += proc->launch.is_queued() ? 0U : 1U;
      continue;
    }
    auto& process = processes[proc->state.to_wire().pid()];
    process.beside = proc->id;
    ++process.procs;
    process.is_own = process.is_own || (rank >= spec.block.begin && rank < spec.block.end &&
                                        spec.process_of(rank) == spec.process_of(first.rank()));
  }
  // What was asked for, and is not born, may be on its way into any of them.
  std::erase_if(processes, [&](const auto& one) {
    return one.second.procs + unborn + joined[one.first] + count > spec.procs_per_process;
  });
  auto chosen = std::find_if(processes.begin(), processes.end(),
                             [](const auto& one) { return one.second.is_own; });
  // What a resize adds goes where room is.
  if (chosen == processes.end() && spec.revision != 0) chosen = processes.begin();
  if (chosen == processes.end()) return 0;
  joined[chosen->first] += count;
  return chosen->second.beside;
}

void Spawner::pump() {
  // What all procs of a batch share (environment, program) is written, read and looked up once for
  // each batch: a batch of one proc at a time would repeat that.
  if (asked_.size() > in_flight_ / 2) return;
  for (auto procs = next_batch(); !procs.empty(); procs = next_batch()) {
    // A proc that fails lets go of it.
    const std::shared_ptr<const Assignment> assignment = procs.front()->launch.assignment();
    std::vector<Proc*> asked;
    auto batch = make_batch(*assignment, procs, asked);
    if (asked.empty()) continue;
    const auto sent = keeper_.spawn(std::move(batch));
    for (Proc* proc : asked) {
      if (sent) {
        proc->launch.on_asked();
        asked_.insert(proc->id);
      } else {
        on_failed_(*proc, sent.error());
      }
    }
  }
}

}  // namespace meshbus::host
