#include "cli/run/torch_job.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "common/base/quantity.h"

namespace meshbus::cli {
namespace {

constexpr std::uint64_t kMostNodes = 1024;
constexpr const char* kThreads = "OMP_NUM_THREADS";

bool is_gpu_device(const std::string& name) {
  constexpr std::string_view kNvidia = "nvidia";
  return name.starts_with(kNvidia) && name.size() > kNvidia.size() &&
         std::all_of(name.begin() + kNvidia.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

Result<TorchNodes> parse_nodes(std::string_view text) {
  const auto colon = text.find(':');
  const auto least = parse_whole(text.substr(0, colon));
  const auto most = colon == std::string_view::npos ? least : parse_whole(text.substr(colon + 1));
  if (!least || !most || *least == 0 || *most < *least || *most > kMostNodes)
    return fail(ErrorCode::parse_error,
                "takes a number of hosts, or MIN:MAX, up to 1024, not '" + std::string(text) + "'");
  return TorchNodes{*least, *most};
}

Result<std::uint64_t> parse_ranks_per_node(std::string_view text, std::uint64_t cpus,
                                           std::uint64_t gpus) {
  if (text == "cpu" || (text == "auto" && gpus == 0)) return cpus;
  if (text == "gpu" && gpus == 0)
    return fail(ErrorCode::parse_error, "gpu: this machine has none (no /dev/nvidia*)");
  if (text == "gpu" || text == "auto") return gpus;
  const auto number = parse_whole(text);
  if (!number || *number == 0)
    return fail(ErrorCode::parse_error,
                "takes a number, cpu, gpu or auto, not '" + std::string(text) + "'");
  return *number;
}

std::uint64_t count_gpus() {
  std::error_code ignored;
  std::uint64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored))
    if (is_gpu_device(entry.path().filename().string())) ++count;
  return count;
}

void wrap_torch(ProcSpec& spec, const RoleArguments& role, std::uint64_t hosts) {
  spec.command.insert(spec.command.begin(), "meshbus-torch-exec");
  spec.environment.emplace_back("MESHBUS_TORCH_HOSTS", std::to_string(hosts));
  spec.environment.emplace_back("MESHBUS_TORCH_MAX_RESTARTS",
                                std::to_string(role.restart.budget.value_or(0)));
  if (role.restart.on != RestartPolicy::On::never && role.restart.gang == Gang::all)
    spec.environment.emplace_back("MESHBUS_TORCH_GANG", "all");
}

std::optional<std::string> threads_note(const ProcSpec& spec) {
  const bool is_said = std::any_of(spec.environment.begin(), spec.environment.end(),
                                   [](const auto& variable) { return variable.first == kThreads; });
  if (is_said || std::getenv(kThreads) != nullptr) return std::nullopt;
  return std::string(kThreads) +
         " is not set: each rank gets its share of the CPUs of its host; -x " + kThreads +
         "=N sets another";
}

}  // namespace meshbus::cli
