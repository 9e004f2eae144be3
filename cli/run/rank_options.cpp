#include "cli/run/rank_options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cli/run/proc_settings.h"
#include "cli/run/restart_settings.h"
#include "cli/support/command.h"
#include "common/base/quantity.h"
#include "common/base/rank_limit.h"

namespace meshbus::cli {
namespace {

constexpr const char* kRankGroup = "Ranks";
constexpr const char* kLimitGroup = "Limits of each rank";
constexpr const char* kBindGroup = "Where each rank runs";
constexpr const char* kRestartGroup = "Restarts";

/// Stores what a parser found.
template <typename Value, typename Target>
Result<void> store(Result<Value> parsed, Target& target) {
  if (!parsed) return fail(parsed.error());
  target = std::move(*parsed);
  return {};
}

Result<Extent> parse_per_host(const std::string& text) {
  const bool is_count = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  auto extent = Extent::parse(is_count ? "proc=" + text : text);
  if (!extent)
    return fail(ErrorCode::parse_error,
                "takes N, or AXIS=SIZE,... like gpus=2 or numa=2,core=4, not '" + text + "'");
  const auto& labels = extent->labels();
  if (std::find(labels.begin(), labels.end(), "host") != labels.end())
    return fail(
        ErrorCode::configuration_error,
        "the axis 'host' is that of the hosts, and --hosts says how many there are; name the "
        "ranks on each host otherwise, like --per-host proc=2");
  if (extent->num_ranks() == 0)
    return fail(ErrorCode::configuration_error, text + " is no rank at all: take sizes from 1");
  if (extent->num_ranks() > kMostRanksPerHost)
    return fail(ErrorCode::configuration_error,
                text + " is more than the " + std::to_string(kMostRanksPerHost) +
                    " ranks that a host runs at most; spread them over more hosts (--hosts)");
  return extent;
}

void add_size(CLI::App& verb, RankOptions& options) {
  auto* total = verb.add_option("-n,--procs", options.total,
                                "Ranks in all, spread over the hosts in blocks; default 1 per host")
                    ->check(CLI::Range(1, 1'000'000))
                    ->type_name("N")
                    ->group(kRankGroup);
  add_text(
      verb, "--per-host",
      [&options](const std::string& text) { return store(parse_per_host(text), options.per_host); },
      "Ranks on each host: N, or labelled axes like gpus=2 or numa=2,core=4", "N|AXIS=SIZE,...")
      ->excludes(total)
      ->group(kRankGroup);
}

void add_kind(CLI::App& verb, RankOptions& options) {
  auto* flag =
      verb.add_flag("--mesh", options.mesh,
                    "The program uses the meshbus library: a rank is ready when it has said hello; "
                    "one that exits with 0 before that has failed")
          ->group(kRankGroup);
  verb.add_option("--procs-per-process", options.procs_per_process,
                  "With --mesh: this many consecutive ranks of a host share a process; default 1")
      ->check(CLI::Range(1, 60))
      ->needs(flag)
      ->type_name("N")
      ->group(kRankGroup);
  verb.add_option_function<std::vector<std::string>>(
          "--program-set",
          [&options](const std::vector<std::string>& words) {
            for (const auto& word : words) {
              const auto equals = word.find('=');
              if (equals == 0 || equals == std::string::npos)
                throw CLI::ValidationError("--program-set", "takes NAME=VALUE, not '" + word + "'");
              options.program_settings.emplace_back(word.substr(0, equals),
                                                    word.substr(equals + 1));
            }
          },
          "With --mesh: a setting that the program declares; may be given again. `meshbus config "
          "NAME --change program.SETTING=VALUE` changes it later")
      ->needs(flag)
      ->type_name("NAME=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kRankGroup);
}

void add_proc_settings(CLI::App& verb, ProcSettings& settings) {
  const auto add = [&verb](const std::string& name, auto take, const std::string& meaning,
                           const std::string& type) {
    add_text(verb, name, std::move(take), meaning, type)->group(kLimitGroup);
  };
  verb.add_option("--nice", settings.nice, "Nice value: -20 (first) to 19 (last)")
      ->check(CLI::Range(-20, 19))
      ->type_name("N")
      ->group(kLimitGroup);
  add(
      "--umask",
      [&settings](const std::string& text) { return store(parse_umask(text), settings.umask); },
      "File mode creation mask, octal", "OCTAL");
  add(
      "--uid", [&settings](const std::string& text) { return set_user(text, settings); },
      "Run as this user, with its groups; the hosts must run as root", "USER");
  add(
      "--gid", [&settings](const std::string& text) { return set_group(text, settings); },
      "Run as this group", "GROUP");
  verb.add_flag("--no-new-privs", settings.no_new_privs,
                "Let no setuid program give the ranks more rights")
      ->group(kLimitGroup);
  add(
      "--cpu-set",
      [&settings](const std::string& text) { return store(parse_cpu_set(text), settings.cpus); },
      "CPUs that it may run on: 0-3,8", "LIST");
  add(
      "--memory",
      [&settings](const std::string& text) {
        return store(parse_memory(text), settings.memory_limit);
      },
      "Memory and swap of the rank and its descendants, like 512MiB; above it they are killed",
      "BYTES");
  add(
      "--cpus",
      [&settings](const std::string& text) { return store(parse_cpus(text), settings.cpu_limit); },
      "CPU time of the rank and its descendants, in CPUs: 1.5", "NUMBER");
  verb.add_option("--pids", settings.pids_limit,
                  "Processes and threads of the rank and its descendants")
      ->check(CLI::Range(1, 4'194'304))
      ->type_name("N")
      ->group(kLimitGroup);
  verb.add_option_function<std::vector<std::string>>(
          "--rlimit",
          [&settings](const std::vector<std::string>& texts) {
            for (const auto& text : texts) {
              auto limit = parse_rlimit(text);
              if (!limit) throw CLI::ValidationError("--rlimit", limit.error().detail());
              settings.limits.push_back(*limit);
            }
          },
          "A resource limit: core=0, nofile=1024, as=2G, cpu=60, or SOFT:HARD; `unlimited` for "
          "none; may be given again")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->group(kLimitGroup);
}

Result<void> parse_bind(const std::string& text, Binding& binding) {
  const auto colon = text.find(':');
  const auto word = text.substr(0, colon);
  const auto bad = [&] {
    return fail(
        ErrorCode::parse_error,
        "takes none, core, core:N (N cores for each rank), numa or gpu, not '" + text + "'");
  };
  if (word == "none") {
    binding.to = BindTo::none;
  } else if (word == "core") {
    binding.to = BindTo::core;
  } else if (word == "numa") {
    binding.to = BindTo::numa;
  } else if (word == "gpu") {
    binding.to = BindTo::gpu;
  } else {
    return bad();
  }
  if (colon == std::string::npos) return {};
  const auto cores = parse_whole<std::uint32_t>(text.substr(colon + 1));
  if (binding.to != BindTo::core || !cores || *cores < 1 || *cores > 1024) return bad();
  binding.cores = *cores;
  return {};
}

void add_binding(CLI::App& verb, RankOptions& options) {
  auto& binding = options.binding;
  auto* bind =
      add_text(
          verb, "--bind", [&binding](const std::string& text) { return parse_bind(text, binding); },
          "Bind each rank to a core of its own (core), to N cores (core:N), to the CPUs of one "
          "NUMA node (numa), or to those beside one GPU (gpu); default none",
          "none|core[:N]|numa|gpu")
          ->group(kBindGroup);
  verb.add_option_function<std::string>(
          "--bind-memory",
          [&binding](const std::string& word) {
            binding.memory = word == "only"  ? BindMemory::only
                             : word == "any" ? BindMemory::any
                                             : BindMemory::prefer;
          },
          "With --bind: memory from the NUMA nodes of its CPUs first (prefer; default), from these "
          "alone (only), or as the kernel has it (any)")
      ->check(CLI::IsMember({"prefer", "only", "any"}))
      ->needs(bind)
      ->type_name("HOW")
      ->group(kBindGroup);
  verb.add_flag("--visible-devices", binding.visible_devices,
                "Show each rank one GPU alone, by its local rank: CUDA_VISIBLE_DEVICES, "
                "HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK")
      ->group(kBindGroup);
  verb.add_flag("--display-map", options.shows_map,
                "Say on stderr on which host, CPUs, NUMA nodes and GPU each rank is started")
      ->group(kBindGroup);
}

}  // namespace

void add_environment(CLI::App& verb, RankOptions& options) {
  verb.add_option_function<std::vector<std::string>>(
          "-x",
          [&options](const std::vector<std::string>& words) {
            for (const auto& word : words) {
              const auto equals = word.find('=');
              const auto name = word.substr(0, equals);
              if (!is_variable_name(name))
                throw CLI::ValidationError(
                    "-x", "takes NAME or NAME=VALUE, not '" + word +
                              "': the name of a variable is made of letters, digits and _, and "
                              "does not begin with a digit");
              const char* own = std::getenv(name.c_str());
              if (equals == std::string::npos && own == nullptr)
                throw CLI::ValidationError(
                    "-x", name + " is not set here: give it a value, -x " + name + "=VALUE");
              options.environment.emplace_back(
                  name, equals == std::string::npos ? own : word.substr(equals + 1));
            }
          },
          "An environment variable for the ranks: NAME (with the value it has here) or NAME=VALUE")
      ->type_name("NAME[=VALUE]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kRankGroup);
}

bool is_variable_name(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::string size_problem(const RankOptions& options, std::uint64_t hosts) {
  if (!options.total || hosts == 0 || *options.total <= hosts * kMostRanksPerHost) return {};
  const auto needed = (*options.total + kMostRanksPerHost - 1) / kMostRanksPerHost;
  return "-n " + std::to_string(*options.total) + " on " + std::to_string(hosts) +
         (hosts == 1 ? " host" : " hosts") + ": a host runs at most " +
         std::to_string(kMostRanksPerHost) + " ranks; take at least " + std::to_string(needed) +
         " hosts (--hosts)";
}

ProcSpec RankOptions::make_spec(const std::vector<std::string>& command) const {
  ProcSpec spec;
  spec.kind = mesh ? ProcKind::mesh : ProcKind::plain;
  spec.procs_per_process = procs_per_process;
  spec.command = command;
  spec.environment = environment;
  spec.program_settings = program_settings;
  spec.settings = settings;
  spec.binding = binding;
  spec.grace = grace;
  return spec;
}

void add_rank_options(CLI::App& verb, RankOptions& options) {
  add_size(verb, options);
  add_kind(verb, options);
  add_environment(verb, options);
  add_grace(verb, options.grace);
  add_binding(verb, options);
  add_proc_settings(verb, options.settings);
}

void add_restart(CLI::App& verb, RestartPolicy& policy) {
  const auto add = [&verb](const std::string& name, auto take, const std::string& meaning,
                           const std::string& type) {
    return add_text(verb, name, std::move(take), meaning, type)->group(kRestartGroup);
  };
  auto* restart = add(
      "--restart", [&policy](const std::string& text) { return parse_restart(text, policy); },
      "Start a rank again when it fails, or ends at all: never (default), on-failure, always; "
      ":N = at most N times",
      "never|on-failure[:N]|always[:N]");
  add(
      "--gang", [&policy](const std::string& text) { return store(parse_gang(text), policy.gang); },
      "Which ranks start again with it: one = that rank, all, rest = it and all after it; "
      "default one. After run --use N has lost a host, one starts the ranks of that host on a "
      "spare and lets the others run on",
      "one|all|rest")
      ->needs(restart);
  add(
      "--restart-delay",
      [&policy](const std::string& text) { return parse_restart_delay(text, policy); },
      "Time from an end to the next start, doubled each time up to MAX, and shortened by up to a "
      "quarter at random; default 1s:30s",
      "TIME[:MAX]")
      ->needs(restart);
  add_duration(verb, "--restart-window", policy.window,
               "The N of --restart counts restarts within this time; default: the whole run")
      ->needs(restart)
      ->group(kRestartGroup);
  add(
      "--restart-codes",
      [&policy](const std::string& text) { return store(parse_codes(text), policy.codes); },
      "Restart only after these exit codes (128 + signal)", "CODE,...")
      ->needs(restart);
}

}  // namespace meshbus::cli
