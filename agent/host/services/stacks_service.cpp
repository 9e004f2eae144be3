#include "agent/host/services/stacks_service.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/control_generated.h"
#include "wire/stacks_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;

constexpr char kProgram[] = "meshbus-stacks";
constexpr std::size_t kMostAtOnce = 4;
/// A look takes some milliseconds a rank.
constexpr std::chrono::milliseconds kLookLimit = 12s;

/// Takes what is said of a rank out when that rank has ended meanwhile, or begun again.
template <typename Entries>
void erase_ranks(Entries& entries, const std::vector<std::uint64_t>& ended) {
  entries.erase(std::remove_if(entries.begin(), entries.end(),
                               [&](const auto& entry) {
                                 return std::binary_search(ended.begin(), ended.end(), entry->rank);
                               }),
                entries.end());
}

}  // namespace

void StacksService::add_rows(Dispatcher& handlers, const std::unique_ptr<StacksService>& service) {
  handlers.on<wire::GetStacks>(Role::operate, row(service, &StacksService::on_get_stacks));
}

void StacksService::on_get_stacks(const Request& request, const wire::GetStacks& message) {
  const auto ranks = parse_ranks(message.ranks(), kAnyRank, "GetStacks.ranks");
  if (!ranks) return checks_.refuse(request, ranks.error());
  Mesh* mesh = checks_.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  if (looks_.size() >= kMostAtOnce)
    return checks_.refuse(
        request, Error(ErrorCode::queue_full, "GetStacks: " + std::to_string(kMostAtOnce) +
                                                  " such requests are being answered already"));
  Look look;
  look.request = request;
  look.mesh = mesh->name;
  for (const auto& [rank, proc] : mesh->procs) {
    if (!ranks->empty() && !contains(*ranks, rank)) continue;
    if (proc->has_ended() || !proc->launch.is_born()) continue;
    look.incarnations[rank] = proc->incarnation();
    look.targets.push_back(std::to_string(rank) + ":" +
                           std::to_string(proc->state.to_wire().pid()));
  }
  looks_.push_back(std::move(look));
  const auto added = std::prev(looks_.end());
  if (added->targets.empty()) return answer(added, {});
  start(added, message.kernel_only());
}

void StacksService::start(Looks::iterator look, bool is_kernel_only) {
  auto arguments = look->targets;
  if (is_kernel_only) arguments.insert(arguments.begin(), "--kernel");
  auto run = HelperRun::start(
      reactor_, kProgram, arguments, kLookLimit,
      [this, look](Result<std::string> output) { on_done(look, std::move(output)); });
  if (!run) {
    checks_.refuse(look->request, run.error());
    looks_.erase(look);
    return;
  }
  look->run = std::move(*run);
}

void StacksService::on_done(Looks::iterator look, Result<std::string> output) {
  Result<ControlMessage> said = fail(ErrorCode::io_error, "nothing");
  if (output)
    said = ControlMessage::decode(bytes_of(output->data(), output->size()));
  else
    said = fail(output.error());
  const auto* stacks = said ? (*said)->body_as_Stacks() : nullptr;
  if (stacks != nullptr) {
    wire::StacksT answered;
    stacks->UnPackTo(&answered);
    return answer(look, std::move(answered));
  }
  const auto why = said ? std::string("it wrote something else") : said.error().to_string();
  log::warn(std::string(kProgram) + ": " + why);
  if (!look->trouble.empty()) {
    checks_.refuse(look->request, Error(ErrorCode::io_error, std::string(kProgram) + ": " + why));
    looks_.erase(look);
    return;
  }
  // What the kernel says cannot crash it.
  look->trouble = std::string(kProgram) + ": " + why + "; this is what the kernel says alone";
  start(look, /*is_kernel_only=*/true);
}

void StacksService::answer(Looks::iterator look, wire::StacksT stacks) {
  const Mesh* mesh = procs_.table().find_mesh(look->mesh);
  std::vector<std::uint64_t> ended;
  for (const auto& [rank, incarnation] : look->incarnations) {
    const Proc* proc = mesh == nullptr ? nullptr : mesh->find(rank);
    const bool is_same =
        proc != nullptr && !proc->has_ended() && proc->incarnation() == incarnation;
    if (!is_same) ended.push_back(rank);
  }
  erase_ranks(stacks.threads, ended);
  erase_ranks(stacks.problems, ended);
  if (!look->trouble.empty()) {
    for (const auto& [rank, incarnation] : look->incarnations) {
      auto problem = std::make_unique<wire::StackProblemT>();
      problem->rank = rank;
      problem->text = look->trouble;
      stacks.problems.push_back(std::move(problem));
    }
  }
  bus_.answer(look->request, std::move(stacks));
  looks_.erase(look);
}

}  // namespace meshbus::host
