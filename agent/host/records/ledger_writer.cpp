#include "agent/host/records/ledger_writer.h"

#include <map>
#include <utility>

#include "common/base/log.h"
#include "wire/ledger_generated.h"

namespace meshbus::host {
namespace {

std::unique_ptr<wire::LedgerProcT> make_entry(const Proc& proc) {
  auto entry = std::make_unique<wire::LedgerProcT>();
  entry->state = std::make_unique<wire::RankState>(proc.state.to_wire());
  entry->id = proc.id;
  entry->slot = proc.output.slot;
  entry->said_ready = proc.launch.has_said_ready();
  entry->launch = std::make_unique<wire::LaunchTimes>(proc.launch.times());
  entry->launch_told = proc.launch.is_told();
  entry->never_born = proc.launch.progress() == SpawnProgress::none;
  entry->gone = proc.exit.is_empty();
  entry->held_signals = proc.stop.held_signals();
  entry->sent_signals = proc.stop.sent_signals();
  if (const Termination* termination = proc.stop.termination())
    entry->stop = std::make_unique<wire::LedgerStop>(termination->to_ledger());
  const StopOrder& order = proc.stop.order();
  entry->stopped_by = order.requester;
  entry->stop_reason = order.reason;
  entry->stop_cause = order.cause;
  entry->because = order.because;
  if (const auto& failure = proc.exit.failure()) {
    entry->failure = std::make_unique<wire::LedgerFailureT>();
    entry->failure->code = failure->code;
    entry->failure->os_error = failure->os_error;
    entry->failure->text = failure->text;
    entry->failure->cause = failure->cause;
  }
  if (proc.exit.report() != nullptr)
    entry->exit_report = std::make_unique<wire::ExitReportT>(*proc.exit.report());
  entry->exit_reported = proc.exit.is_reported();
  if (proc.exit.is_reported()) {
    entry->out =
        std::make_unique<wire::LedgerStream>(proc.output.out.at.read, proc.output.out.at.file);
    entry->err =
        std::make_unique<wire::LedgerStream>(proc.output.err.at.read, proc.output.err.at.file);
  }
  if (proc.state.restarts() != 0) {
    entry->out_before = std::make_unique<wire::LedgerStream>(proc.output.out.before.read,
                                                             proc.output.out.before.file);
    entry->err_before = std::make_unique<wire::LedgerStream>(proc.output.err.before.read,
                                                             proc.output.err.before.file);
  }
  entry->input_closed = proc.input.state == InputPipe::State::closed;
  return entry;
}

}  // namespace

std::string LedgerWriter::request_entry(const std::string& mesh, const wire::SpawnProcs& request) {
  wire::LedgerEntryT entry;
  entry.mesh = mesh;
  entry.spawn.reset(request.UnPack());
  return Ledger::encode(entry);
}

std::string LedgerWriter::with_bindings(std::string entry, const WireBindings& bindings) {
  if (bindings.empty() || entry.empty()) return entry;
  wire::LedgerEntryT unpacked;
  flatbuffers::GetRoot<wire::LedgerEntry>(entry.data())->UnPackTo(&unpacked);
  for (const auto& binding : bindings)
    unpacked.bindings.push_back(std::make_unique<wire::RankBindingT>(*binding));
  return Ledger::encode(unpacked);
}

void LedgerWriter::add_request(Mesh& mesh, std::string entry) {
  if (!ledger_ || entry.empty()) return;
  requests_.push_back(entry);
  mesh.requests.push_back(std::move(entry));
}

void LedgerWriter::set_drains(std::vector<wire::LedgerDrainT> drains) {
  host_.drains.clear();
  for (auto& drain : drains)
    host_.drains.push_back(std::make_unique<wire::LedgerDrainT>(std::move(drain)));
  write_host();
}

void LedgerWriter::set_host_owner(wire::LedgerMeshT owner) {
  host_.owner = std::make_unique<wire::LedgerMeshT>(std::move(owner));
  write_host();
}

void LedgerWriter::set_terms(std::vector<wire::LedgerTermT> terms) {
  host_.terms.clear();
  for (auto& term : terms)
    host_.terms.push_back(std::make_unique<wire::LedgerTermT>(std::move(term)));
  write_host();
}

void LedgerWriter::write_host() {
  wire::LedgerEntryT entry;
  entry.host = std::make_unique<wire::LedgerHostT>(host_);
  host_entry_ = Ledger::encode(entry);
  is_host_touched_ = true;
}

void LedgerWriter::add(const Mesh& mesh, bool with_state, const std::vector<Proc*>& procs) {
  wire::LedgerEntryT entry;
  entry.mesh = mesh.name;
  if (with_state) {
    entry.state = std::make_unique<wire::LedgerMeshT>();
    const MeshOwnership& ownership = mesh.ownership;
    entry.state->owner_gone = ownership.is_gone();
    for (const auto& [name, subscriber] : mesh.subscribers)
      entry.state->subscribers.push_back(name);
    entry.state->lease_ms = static_cast<std::uint32_t>(ownership.lease().length().count());
    entry.state->owner_incarnation = ownership.incarnation();
    entry.state->stopped = ownership.stopped();
    if (mesh.spec.revision != 0) entry.state->layout = to_wire(mesh.spec.layout());
    if (ownership.restarts())
      entry.state->restarts = std::make_unique<wire::RestartPlanT>(*ownership.restarts());
    if (ownership.has_changed()) {
      entry.state->owner = ownership.owner().to_string();
      entry.state->handed_by = ownership.handed_by();
      entry.state->loss = ownership.loss();
    }
  }
  for (const Proc* proc : procs) entry.procs.push_back(make_entry(*proc));
  ledger_.add(Ledger::encode(entry));
}

void LedgerWriter::write() {
  auto touched = table_.take_touched();
  if (!ledger_) return;
  if (ledger_.is_long()) {
    write_snapshot();
  } else {
    for (auto& name : touched.forgotten) {
      wire::LedgerEntryT entry;
      entry.mesh = std::move(name);
      entry.forgotten = true;
      ledger_.add(Ledger::encode(entry));
    }
    for (const auto& request : requests_) ledger_.add(request);
    if (is_host_touched_) ledger_.add(host_entry_);
    std::map<const Mesh*, std::vector<Proc*>> by_mesh;
    for (Proc* proc : touched.procs) by_mesh[&proc->mesh].push_back(proc);
    for (const Mesh* mesh : touched.meshes) add(*mesh, true, {});
    for (const auto& [mesh, procs] : by_mesh) add(*mesh, false, procs);
  }
  requests_.clear();
  is_host_touched_ = false;
  if (const auto written = ledger_.commit(); !written) {
    static log::Limited limited(10);
    limited.error("another agent could not take everything over: " + written.error().to_string());
  }
}

void LedgerWriter::write_snapshot() {
  ledger_.begin_snapshot();
  if (!host_entry_.empty()) ledger_.add(host_entry_);
  for (const auto& [name, mesh] : table_.meshes()) {
    for (const auto& request : mesh->requests) ledger_.add(request);
    std::vector<Proc*> procs;
    for (const auto& [rank, proc] : mesh->procs) procs.push_back(proc.get());
    add(*mesh, true, procs);
  }
}

std::optional<wire::LedgerMeshT> read_host_owner(const Ledger& ledger) {
  std::optional<wire::LedgerMeshT> owner;
  for (const auto& bytes : ledger.entries()) {
    const auto* host = flatbuffers::GetRoot<wire::LedgerEntry>(bytes.data())->host();
    if (host != nullptr && host->owner() != nullptr) host->owner()->UnPackTo(&owner.emplace());
  }
  return owner;
}

std::vector<wire::LedgerTermT> read_terms(const Ledger& ledger) {
  std::vector<wire::LedgerTermT> terms;
  for (const auto& bytes : ledger.entries()) {
    const auto* host = flatbuffers::GetRoot<wire::LedgerEntry>(bytes.data())->host();
    if (host == nullptr || host->terms() == nullptr) continue;
    terms.clear();
    for (const auto* term : *host->terms()) term->UnPackTo(&terms.emplace_back());
  }
  return terms;
}

std::vector<wire::LedgerDrainT> read_drains(const Ledger& ledger) {
  std::vector<wire::LedgerDrainT> drains;
  for (const auto& bytes : ledger.entries()) {
    const auto* host = flatbuffers::GetRoot<wire::LedgerEntry>(bytes.data())->host();
    if (host == nullptr) continue;
    drains.clear();
    for (flatbuffers::uoffset_t i = 0; host->drains() != nullptr && i < host->drains()->size(); ++i)
      host->drains()->Get(i)->UnPackTo(&drains.emplace_back());
  }
  return drains;
}

std::map<std::string, LeftMesh> read_ledger(const Ledger& ledger) {
  std::map<std::string, LeftMesh> meshes;
  for (auto& bytes : ledger.entries()) {
    const auto* entry = flatbuffers::GetRoot<wire::LedgerEntry>(bytes.data());
    const auto name = entry->mesh()->str();
    if (name.empty()) continue;  // about the host
    if (entry->forgotten()) {
      meshes.erase(name);
      continue;
    }
    LeftMesh& mesh = meshes[name];
    if (entry->state() != nullptr) {
      mesh.state.emplace();
      entry->state()->UnPackTo(&*mesh.state);
    }
    for (flatbuffers::uoffset_t i = 0; entry->procs() != nullptr && i < entry->procs()->size();
         ++i) {
      const auto* proc = entry->procs()->Get(i);
      wire::LedgerProcT known;
      proc->UnPackTo(&known);
      mesh.procs.insert_or_assign(proc->state()->rank(), std::move(known));
    }
    if (entry->spawn() != nullptr) mesh.requests.push_back(std::move(bytes));
  }
  return meshes;
}

}  // namespace meshbus::host
