#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "meshbus/proc_mesh.h"

namespace meshbus::cli {

/// "027". Errors: parse_error, with the expected form.
Result<unsigned> parse_umask(std::string_view text);
/// Lets procs run as that user, by name or number: with its group and its supplementary groups, as
/// this machine knows them. A number without a user has the group of the same number.
Result<void> set_user(std::string_view text, ProcSettings& settings);
/// As that group, by name or number; with a user, instead of the group of that one.
Result<void> set_group(std::string_view text, ProcSettings& settings);
/// "0-3,8": at most 1024 CPUs, below 1024. Errors: parse_error.
Result<std::vector<std::uint32_t>> parse_cpu_set(std::string_view text);
/// "512MiB", "1.5G", "64m": bytes. Errors: parse_error.
Result<std::uint64_t> parse_memory(std::string_view text);
/// "1.5", from 0.01, with three decimal places at most. Errors: parse_error.
Result<double> parse_cpus(std::string_view text);
/// "core=0", "nofile=1024:4096", "as=2G", "cpu=unlimited". Errors: parse_error.
Result<ResourceLimit> parse_rlimit(std::string_view text);

}  // namespace meshbus::cli
